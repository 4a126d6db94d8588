package openai

import (
	"strconv"
	"testing"
)

// While the server drains, clients are told to come back where somebody will be there
// to answer them, and otherwise are not.
func TestAdviceWhileDraining(t *testing.T) {
	for _, retries := range []bool{true, false} {
		c := DefaultConfig()
		c.DrainRetries = retries
		r := newRig(t, c, &fakeBackend{})
		r.openai.running.Begin()
		res, text := r.do("POST", routeChat, "", chatWith(`"n":1`))
		h := res.Header
		if _, code, _ := parseError(t, text); res.StatusCode != 503 || code != "server_shutting_down" || h.Get("X-Weir-Reason") != code ||
			h.Get("X-Should-Retry") != strconv.FormatBool(retries) || (h.Get("Retry-After-Ms") == "1000") != retries {
			t.Errorf("retries %v: %d %v %s", retries, res.StatusCode, h, text)
		}
		r.close()
	}
}
