package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"weir/api/web"
)

// A page answers below its path on any listener of net/http, and its files are kept by browsers.
func ExamplePage() {
	mux := http.NewServeMux()
	mux.Handle("GET "+web.Console.Path()+"/", web.Console)

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"), w.Header().Get("Cache-Control"))

	w = httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/assets/of-another-version/lib/ui.js", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output:
	// 200 text/html; charset=utf-8 no-cache
	// 404 there is no such file here; the page is at /console/
}
