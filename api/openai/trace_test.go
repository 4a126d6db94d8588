package openai

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"weir/api/edge"
	"weir/internal/inference"
)

// A request for a generation has a trace, answered or refused; other requests
// have none. Hooks get it back at the end.
func TestTraceOfARequest(t *testing.T) {
	c := DefaultConfig()
	began := make(chan [2]string, 10)
	c.Hooks.StartTrace = func(traceparent, tracestate string) edge.Trace {
		began <- [2]string{traceparent, tracestate}
		return edge.Trace{ID: "id", Header: "own", Context: 7}
	}
	finished, refused := make(chan edge.RequestFinish, 10), make(chan edge.Refusal, 10)
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
	c.Hooks.OnRefused = func(r edge.Refusal) { refused <- r }
	r := newRig(t, c, &fakeBackend{script: func(run *fakeRun) {
		run.stream.SetAdmitted(time.Now())
		say("Hello", time.Millisecond)(run)
	}})
	defer r.close()
	const head = "Traceparent: theirs\r\nTracestate: a=1\r\n"
	res, _ := r.do("POST", routeChat, head, `{"messages":[{"role":"user","content":"hi"}]}`)
	f := <-finished
	if res.Header.Get("Traceresponse") != "own" || <-began != [2]string{"theirs", "a=1"} || f.Trace.ID != "id" || f.Trace.Context != 7 {
		t.Errorf("%v: %+v", res.Header, f.Trace)
	}
	last := f.Arrived
	for name, at := range []time.Time{f.Parsed, f.Submitted, f.Admitted, f.FirstToken, f.LastToken, f.Finished} {
		if at.Before(last.Add(-time.Microsecond)) { // Admitted has no monotonic clock
			t.Errorf("time %d comes before the one before it: %+v", name, f)
		}
		last = at
	}
	if f.Class != inference.Default {
		t.Errorf("class %d", f.Class)
	}
	res, _ = r.do("POST", routeCompletions, head, `{`)
	if e := <-refused; res.Header.Get("Traceresponse") != "own" || !e.Early || e.Trace.Context != 7 || e.Arrived.IsZero() {
		t.Errorf("%v: %+v", res.Header, e)
	}
	res, _ = r.do("GET", routeVersion, head, "")
	if res.Header.Get("Traceresponse") != "" || len(began) != 1 {
		t.Errorf("%v, %d traces", res.Header, len(began))
	}
}

// An upstream's spans are below the request's own.
func TestTraceGoesOnToTheUpstream(t *testing.T) {
	heads := make(chan http.Header, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heads <- r.Header
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"choices":[{"text":"","finish_reason":"stop"}]}`))
	}))
	defer upstream.Close()
	c := DefaultConfig()
	c.Hooks.StartTrace = func(string, string) edge.Trace { return edge.Trace{Header: "own", State: "a=1"} }
	finished := make(chan edge.RequestFinish, 1)
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
	r := relayRig(t, c, upstream.URL)
	defer r.close()
	if status, text := r.post(routeCompletions, `{"model":"front","prompt":"a"}`); status != http.StatusOK {
		t.Fatal(status, text)
	}
	if h := <-heads; h.Get("Traceparent") != "own" || h.Get("Tracestate") != "a=1" {
		t.Errorf("the upstream got %v", h)
	}
	if f := <-finished; !f.Relayed || f.Submitted.IsZero() || f.Trace.Header != "own" {
		t.Errorf("%+v", f)
	}
}
