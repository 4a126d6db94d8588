package openai

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/api/edge"
	"weir/api/openai/models"
	"weir/router/fleet"
)

// What the servers behind a model cannot answer, another model does, and the answer says so.
// What a client has asked wrongly is no reason.
func TestFallback(t *testing.T) {
	status := http.StatusInternalServerError
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":{"message":"theirs","code":"c"}}`)
	}))
	defer upstream.Close()
	r := newRig(t, DefaultConfig(), &fakeBackend{script: say("Hello", 0)})
	defer r.close()
	routed := func(id, url string, fallback ...string) *models.Model {
		f, err := fleet.New(fleet.Config{Model: id, Sources: []fleet.Source{{URL: url}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		return &models.Model{ID: id, Created: 1, Upstream: f, Fallback: fallback}
	}
	local := *r.openai.models.Load().List[0]
	models := []*models.Model{&local, routed("big", upstream.URL, "gone", "nobody", local.ID), routed("gone", "http://127.0.0.1:1/v1"), routed("proud", upstream.URL)}
	if err := r.openai.SetModels(models...); err != nil {
		t.Fatal(err)
	}
	for n, tc := range []struct {
		model, fields string
		upstream      int
		status        int
		fallback      string
		want          string
	}{
		{"big", ``, 500, 200, local.ID, `"content":"Hello"`},
		{"big", `,"stream":true`, 503, 200, local.ID, "data: [DONE]"},
		{"big", ``, 429, 200, local.ID, `"content":"Hello"`},
		{"big", ``, 400, 400, "", "theirs"},
		{"big", `,"temperature":9`, 500, 400, local.ID, "temperature"},
		{"proud", ``, 500, 500, "", "theirs"},
	} {
		status = tc.upstream
		body := chatWith(`"model":"` + tc.model + `"` + tc.fields)
		res, text := r.do("POST", routeChat, "", body)
		if res.StatusCode != tc.status || res.Header.Get("X-Weir-Fallback") != tc.fallback || !strings.Contains(text, tc.want) {
			t.Errorf("%+v: %d %v %s", tc, res.StatusCode, res.Header, text)
		}
		for i := range 2 { // models that are asked one after the other are one execution under a key
			res, text := r.do("POST", routeChat, keyed(fmt.Sprint("key", n)), body)
			if replayed := res.Header.Get("X-Weir-Replayed") == "true"; res.StatusCode != tc.status || replayed != (i == 1 && edge.IsFinal(tc.status)) {
				t.Errorf("%+v under a key: %d %v %s", tc, res.StatusCode, res.Header, text)
			}
		}
	}
}
