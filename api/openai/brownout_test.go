package openai

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/api/tenant"
	"weir/internal/inference"
	"weir/scheduler/brownout"
)

// While a step is in force, answers are shorter, come from the smaller model and say
// so; without one nothing is changed.
func TestBrownout(t *testing.T) {
	var effect atomic.Pointer[brownout.Step]
	c := DefaultConfig()
	c.Brownout = effect.Load
	b := &fakeBackend{}
	r := newRig(t, c, b)
	defer r.close()
	large, small := testModel(t, b), testModel(t, b)
	small.ID, small.Aliases = "small", nil
	if err := r.openai.SetModels(large, small); err != nil {
		t.Fatal(err)
	}
	both := &brownout.Step{Name: "dusk", MaxTokens: [inference.NumClasses]int{0, 20, 5}, Models: map[string]string{"alias": "small"},
		Speculation: inference.ToggleOff}
	lost := &brownout.Step{Name: "night", Models: map[string]string{"alias": "not-there"}}
	for i, tc := range []struct {
		step        *brownout.Step
		fields      string
		model       string // that answers
		most        int    // output tokens
		speculation inference.Toggle
		header      string
		warnings    string
	}{
		{nil, `"max_tokens":100,"min_tokens":30`, "test-model", 100, inference.ToggleUnset, "", ""},
		{both, `"max_tokens":100,"min_tokens":30`, "small", 20, inference.ToggleOff, "dusk",
			`model "small" answers instead of "test-model" in brown-out step dusk, at most 20 output tokens in brown-out step dusk`},
		{both, `"max_tokens":20`, "small", 20, inference.ToggleOff, "dusk", `model "small" answers instead of "test-model" in brown-out step dusk`},
		{both, `"max_tokens":100,"service_tier":"priority","stream":true`, "small", 100, inference.ToggleOff, "dusk",
			`model "small" answers instead of "test-model" in brown-out step dusk`},
		{both, `"priority":1`, "small", 5, inference.ToggleOff, "dusk",
			`model "small" answers instead of "test-model" in brown-out step dusk, at most 5 output tokens in brown-out step dusk`},
		{lost, `"max_tokens":100`, "test-model", 100, inference.ToggleUnset, "", ""},
	} {
		effect.Store(tc.step)
		res, text := r.do("POST", routeChat, "", chatWith(`"model":"test-model",`+tc.fields))
		req := b.runs[i].req
		if res.StatusCode != 200 || !strings.Contains(text, `"model":"`+tc.model+`"`) || req.MaxTokens != tc.most || req.MinTokens > req.MaxTokens ||
			req.Speculation != tc.speculation {
			t.Errorf("%s: %d %s, request %+v", tc.fields, res.StatusCode, text, req)
		}
		if res.Header.Get("X-Weir-Brownout") != tc.header || res.Header.Get("X-Weir-Warnings") != tc.warnings {
			t.Errorf("%s: headers %v", tc.fields, res.Header)
		}
	}
	effect.Store(both)
	if res, text := r.do("POST", routeChat, "", chatWith(`"model":"small","max_tokens":4,"speculative_ngram":false`)); res.StatusCode != 200 ||
		res.Header.Get("X-Weir-Brownout") != "" {
		t.Errorf("a request that nothing is changed of: %d %v %s", res.StatusCode, res.Header, text)
	}
}

// A brown-out gives no client a model that its tenant may not use, and a tenant's caps
// hold for requests over HTTP.
func TestBrownoutAndTermsKeepToTheTenant(t *testing.T) {
	both, one := tenant.New("both"), tenant.New("one")
	both.HighestClass = inference.Interactive
	one.Models, one.HighestClass, one.TotalTimeout = []string{"test-model"}, inference.Default, time.Second
	c, issue := callers(t, both, one)
	c.Brownout = func() *brownout.Step {
		return &brownout.Step{Name: "dusk", Models: map[string]string{"test-model": "small"}}
	}
	b := &fakeBackend{}
	r := newRig(t, c, b)
	defer r.close()
	large, small := testModel(t, b), testModel(t, b)
	small.ID, small.Aliases = "small", nil
	if err := r.openai.SetModels(large, small); err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct {
		tenant, model string
		class         inference.Class
		within        time.Duration
	}{{"both", "small", inference.Interactive, time.Hour}, {"one", "test-model", inference.Default, time.Second}} {
		res, text := r.do("POST", routeChat, bearer(issue(tc.tenant, nil))+"X-Weir-Deadline-Ms: 3600000\r\n",
			chatWith(`"model":"test-model","service_tier":"priority"`))
		if res.StatusCode != 200 || !strings.Contains(text, `"model":"`+tc.model+`"`) {
			t.Errorf("%s: %d %v %s", tc.tenant, res.StatusCode, res.Header, text)
			continue
		}
		if q := b.runs[i].req; q.Class != tc.class || q.DoneBy.Sub(q.Arrived) != tc.within {
			t.Errorf("%s: class %d, done within %v", tc.tenant, q.Class, q.DoneBy.Sub(q.Arrived))
		}
	}
}
