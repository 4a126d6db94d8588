package openai

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"weir/api/openai/models"
	"weir/router"
)

// standing is an upstream of which only its load matters.
type standing struct{ load router.Load }

func (s standing) Send(context.Context, *router.Call) (*router.Answer, error) {
	return nil, router.ErrNoReplica
}
func (s standing) Offers(router.Feature) bool { return true }
func (s standing) Load() router.Load          { return s.load }

// A model is ready where its replicas or its engine can answer, or a fallback; /ready alone is about the process.
// A chat with a classical model is told what such a model is asked.
func TestChatsWithClassicalModelsAreToldWhere(t *testing.T) {
	c := DefaultConfig()
	c.Classical = func() []router.ModelState { return []router.ModelState{{Name: "trees", Ready: true}} }
	r := newRig(t, c, &fakeBackend{script: say("Hello", 0)})
	defer r.close()
	for name, want := range map[string]string{"trees": "POST /v1/models/trees:predict", "bushes": "no model is called"} {
		if _, body := r.post(routeChat, `{"model":"`+name+`","messages":[{"role":"user","content":"x"}]}`); !strings.Contains(body, want) {
			t.Errorf("%s: %s", name, body)
		}
	}
}

func TestReadinessOfModels(t *testing.T) {
	c := DefaultConfig()
	c.APIKeys = []string{"sk-one-of-them"}
	c.Classical = func() []router.ModelState {
		return []router.ModelState{{Name: "trees", Ready: true}, {Name: "old", Reason: "unloaded", Unloaded: true}}
	}
	r := newRig(t, c, &fakeBackend{script: say("Hello", 0)})
	defer r.close()
	local := *r.openai.models.Load().List[0]
	dead := standing{router.Load{Why: "no replica takes requests: of 2, 2 down"}}
	well := standing{router.Load{Ready: true}}
	const key = "Authorization: Bearer sk-one-of-them\r\n"
	for n, tc := range []struct {
		dead, well  string // models; NAME>FALLBACK
		query       string
		header      string
		status      int
		want, never string
	}{
		{"", "big", "?deep", "", 200, `{"status":"ready"}`, ""},
		{"big", "", "", "", 200, `{"status":"ready"}`, ""},
		{"big", "", "?deep=false", "", 200, `{"status":"ready"}`, ""},
		{"big", "", "?deep", key, 503, `{"status":"cannot answer: big","models":[{"model":"big","reason":"no replica takes requests: of 2, 2 down"}]}`, ""},
		{"big", "", "?deep=1", "", 503, `models that cannot answer: 1`, "big"},
		{"big", "", "?deep", "Authorization: Bearer sk-wrong\r\n", 503, `models that cannot answer: 1`, "big"},
		{"big", "small", "?model=big", "", 503, `{"status":"cannot answer: big"}`, "replica"},
		{"big", "small", "?model=big", key, 503, `of 2, 2 down`, ""},
		{"big", "small", "?model=small", "", 200, `{"status":"ready"}`, ""},
		{"big", "small", "?model=small&model=big", "", 503, `cannot answer: big`, "small"},
		{"big", "small", "?model=small&deep", "", 503, `models that cannot answer: 1`, "big"},
		{"big>small", "small", "?deep", key, 200, `{"status":"ready","fallbacks":[{"model":"big","fallback":"small"}]}`, ""},
		{"big>small", "small", "?deep", "", 200, `{"status":"ready"}`, "small"},
		{"big>small,small>test-model", "", "?model=big", "", 503, `cannot answer: big`, ""}, // as requests: a fallback's fallback is not asked
		{"big>small,small>test-model", "", "?model=small", "", 200, `ready`, ""},
		{"", "", "?model=alias", "", 200, `ready`, ""},
		{"", "", "?model=trees", "", 200, `ready`, ""},
		{"", "", "?model=old", "", 503, `cannot answer: old`, ""},
		{"", "", "?model=nobody", "", 404, `no model \"nobody\" is served`, ""},
		{"", "", "?model=", "", 404, `no model`, ""},
	} {
		served := []*models.Model{&local}
		for list, up := range map[string]standing{tc.dead: dead, tc.well: well} {
			for _, m := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
				name, fallback, _ := strings.Cut(m, ">")
				served = append(served, &models.Model{ID: name, Upstream: up, Fallback: strings.Fields(fallback)})
			}
		}
		if err := r.openai.SetModels(served...); err != nil {
			t.Fatal(n, err)
		}
		res, text := r.do("GET", "/ready"+tc.query, tc.header, "")
		if res.StatusCode != tc.status || !strings.Contains(text, tc.want) || tc.never != "" && strings.Contains(text, tc.never) {
			t.Errorf("%s: %d %s", fmt.Sprintf("%+v", tc), res.StatusCode, text)
		}
	}
}
