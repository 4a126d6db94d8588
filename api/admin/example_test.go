package admin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"time"

	"weir/api/admin"
)

// The listener answers what its configuration has a source for, and 404 for all else.
func Example() {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	j := admin.NewJournal()
	j.End(&admin.Entry{ID: "chatcmpl-1", Route: "/v1/chat/completions", Model: "llama", Tenant: "acme", Prompt: 200, Output: 50,
		Arrived: at, First: at.Add(time.Second), Finished: at.Add(3 * time.Second), Status: 200})
	h := admin.New(admin.Config{Ready: func() (bool, string) { return false, "the model is loading" }, Journal: j})
	for _, path := range []string{"/ready", "/admin/requests?model=llama", "/admin/models"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		var body bytes.Buffer
		_ = json.Compact(&body, w.Body.Bytes()) // what is no JSON stays out
		fmt.Println(w.Code, body.String())
	}
	// Output:
	// 503 {"status":"the model is loading"}
	// 200 {"matching":1,"requests":[{"id":"chatcmpl-1","state":"ended","route":"/v1/chat/completions","model":"llama","tenant":"acme","prompt_tokens":200,"output_tokens":50,"arrived":"2026-03-01T12:00:00Z","ttft_seconds":1,"seconds":3,"status":200}]}
	// 404
}
