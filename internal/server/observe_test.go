package server_test

import (
	"regexp"
	"testing"

	"weir/internal/server/servertest"
)

// A scrape in the middle of a stream shows its class. The built-in model is quick:
// a stream may end before the scrape, and then another one is begun.
func TestScrapeShowsLiveRequestsByClass(t *testing.T) {
	s := servertest.Start(t, nil)
	running := regexp.MustCompile(`weir_class_requests_running{class="default",[^}]*} [1-9]`)
	blocks := regexp.MustCompile(`weir_class_kv_blocks{class="default",[^}]*} [1-9]`)
	for range 50 {
		res := s.Post("/v1/chat/completions", servertest.Hello+`,"stream":true,"max_tokens":1500,"n":8,"ignore_eos":true}`)
		if _, err := res.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		_, text := s.Get(s.Admin + "/metrics")
		res.Body.Close()
		if running.MatchString(text) && blocks.MatchString(text) {
			return
		}
	}
	t.Error("no scrape shows a running request and its blocks")
}
