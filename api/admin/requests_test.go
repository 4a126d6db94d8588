package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/inference"
)

// asked is the answer to a GET, decoded.
func asked(t *testing.T, c Config, target string) (status int, body map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	New(c).ServeHTTP(w, httptest.NewRequest("GET", target, nil))
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("GET %s: %d %v in %.200s", target, w.Code, err, w.Body)
	}
	return w.Code, body
}

func ids(body map[string]any) string {
	var all []string
	list, _ := body["requests"].([]any)
	for _, v := range list {
		r, _ := v.(map[string]any)
		all = append(all, fmt.Sprint(r["id"], ":", r["state"]))
	}
	return strings.Join(all, " ")
}

func TestRequestsAreListedAndExplained(t *testing.T) {
	at := time.Now().Add(-10 * time.Second)
	after := func(seconds float64) time.Time { return at.Add(time.Duration(seconds * 1e9)) }
	j := NewJournal()
	j.Begin(&Entry{ID: "chatcmpl-a", Tenant: "red", Model: "m", Prompts: 1, Arrived: at})
	j.Begin(&Entry{ID: "cmpl-b", Tenant: "blue", Model: "m", Prompts: 2, Arrived: after(1)})
	j.Begin(&Entry{ID: "cmpl-c", Tenant: "red", Model: "m", Arrived: after(2)})
	j.End(&Entry{ID: "cmpl-c", Tenant: "red", Model: "m", Arrived: after(2), First: after(2.5), Finished: after(4), Status: 200})
	j.End(&Entry{ID: "d", Arrived: after(3), Finished: after(3), Status: 429, Code: "rate_limit_exceeded", Refused: true})
	c := Config{Journal: j, States: func(context.Context) ([]State, error) {
		return []State{
			{ID: "cmpl-b-1", State: inference.State{Phase: inference.PhaseWaiting, Cause: inference.CauseSlots, Ahead: 3, Debt: time.Second}},
			{ID: "cmpl-b-0", State: inference.State{Phase: inference.PhaseDecode, CachedTokens: 16, StatelessTokens: 48}, Queue: 2 * time.Second},
			{ID: "cmpl-bb"},
		}, nil
	}}
	for target, want := range map[string]string{
		"/admin/requests":                        "cmpl-b:running chatcmpl-a:running d:refused cmpl-c:ended",
		"/admin/requests?tenant=red":             "chatcmpl-a:running cmpl-c:ended",
		"/admin/requests?state=refused":          "d:refused",
		"/admin/requests?limit=1":                "cmpl-b:running",
		"/admin/requests?model=none":             "",
		"/admin/requests?tenant=red&state=ended": "cmpl-c:ended",
		"/admin/requests?tenant=":                "d:refused",
	} {
		if status, body := asked(t, c, target); status != 200 || ids(body) != want {
			t.Errorf("%s: %d %s, want %s", target, status, ids(body), want)
		}
	}
	status, body := asked(t, c, "/admin/requests/b")
	engine, _ := body["engine"].([]any)
	if status != 200 || len(engine) != 2 {
		t.Fatalf("the running request: %d %v", status, body)
	}
	first, _ := engine[0].(map[string]any)
	second, _ := engine[1].(map[string]any)
	if first["phase"] != "decode" || first["queue_seconds"] != 2.0 || first["cached_tokens"] != 16.0 || first["stateless_tokens"] != 48.0 || second["stateless_tokens"] != nil ||
		second["phase"] != "waiting" || second["waits_for"] != "slots" || second["requests_ahead"] != 3.0 || second["fairness_debt_seconds"] != 1.0 {
		t.Errorf("the engine's part: %v", engine)
	}
	if status, body := asked(t, c, "/admin/requests/cmpl-c"); status != 200 || body["ttft_seconds"] != 0.5 || body["seconds"] != 2.0 {
		t.Errorf("the ended request: %d %v", status, body)
	}
	for target, want := range map[string]int{"/admin/requests/none": 404, "/admin/requests?limit=0": 400, "/admin/requests?limit=x": 400} {
		if status, body := asked(t, c, target); status != want || body["error"] == "" {
			t.Errorf("%s: %d %v, want %d", target, status, body, want)
		}
	}
}

// Where the engine does not answer, the rest of a page is there and says so.
func TestRequestsWithoutTheEngine(t *testing.T) {
	j := NewJournal()
	j.Begin(&Entry{ID: "a"})
	c := Config{Journal: j, States: func(context.Context) ([]State, error) { return nil, errors.New("it is closing") }}
	if status, body := asked(t, c, "/admin/requests"); status != 200 || ids(body) != "a:running" || body["engine_error"] != "ask the engine: it is closing" {
		t.Errorf("the list: %d %v", status, body)
	}
	if status, body := asked(t, c, "/admin/requests/a"); status != 503 || body["error"] != "ask the engine: it is closing" {
		t.Errorf("the request: %d %v", status, body)
	}
}

// The journal is bounded, and a flood of refused requests leaves the ended ones.
func TestTheJournalIsBounded(t *testing.T) {
	j := NewJournal()
	j.End(&Entry{ID: "ended", Status: 200})
	for i := range 5 * pastEntries {
		j.End(&Entry{ID: fmt.Sprint("refused-", i), Status: 429, Refused: true})
	}
	all := j.entries(func(*Entry) bool { return true })
	if len(all) != pastEntries+1 {
		t.Errorf("%d entries, want %d", len(all), pastEntries+1)
	}
	for _, e := range all {
		if e.Refused && len(e.ID) < len("refused-4096") {
			t.Fatalf("an old entry is still there: %s", e.ID)
		}
	}
	if found := j.entries(func(e *Entry) bool { return e.named("ended") }); len(found) != 1 {
		t.Error("the ended request was forgotten")
	}
}
