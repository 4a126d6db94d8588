package web

import "net/http"

// ServeHTTP answers on listeners of net/http.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := p.Answer(Request{Path: r.URL.Path, AcceptEncoding: r.Header.Get("Accept-Encoding"), IfNoneMatch: r.Header.Get("If-None-Match")})
	for _, field := range a.Header {
		w.Header().Set(field[0], field[1])
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // a broken peer is no news
}
