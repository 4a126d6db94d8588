package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/inference"
)

// TestEventsShowTheServer reads the first event of GET /admin/events.
func TestEventsShowTheServer(t *testing.T) {
	at := time.Now().Add(-10 * time.Second)
	j := NewJournal()
	for i := range mostRunning + 5 {
		j.Begin(&Entry{ID: fmt.Sprintf("chatcmpl-%03d", i), Tenant: "red", Model: "m", Prompts: 1, Arrived: at.Add(time.Duration(i) * time.Millisecond)})
	}
	for i := range mostEnded + 5 {
		j.End(&Entry{ID: fmt.Sprintf("cmpl-%03d", i), Arrived: at, Finished: at.Add(time.Duration(i) * time.Second), Status: 200})
	}
	c := Config{
		Journal: j, Version: "1.2.3", Ready: func() (bool, string) { return false, "draining" },
		Engines: func() []EngineNow {
			return []EngineNow{{Model: "m", Kind: "llm", Running: 2, Steps: []StepNow{{Prefill: 5}}}}
		},
		States: func(context.Context) ([]State, error) {
			return []State{
				{ID: "chatcmpl-001", State: inference.State{Tenant: "red", Phase: inference.PhaseDecode, KVBlocks: 3}},
				{ID: "chatcmpl-0011", State: inference.State{Tenant: "red", Phase: inference.PhaseWaiting, Debt: time.Second}},
				{ID: "chatcmpl-000-1", State: inference.State{Tenant: "blue", Phase: inference.PhasePrefill, KVBlocks: 7}},
			}, errors.New("a step hangs")
		},
	}
	server := httptest.NewServer(New(c))
	defer server.Close()
	res, err := http.Get(server.URL + eventsPath)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	kind, _ := lines.ReadString('\n')
	data, err := lines.ReadString('\n')
	if err != nil || kind != "event: now\n" || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("the first event is %q of type %q (%v)", kind, res.Header.Get("Content-Type"), err)
	}
	var n now
	if err := json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &n); err != nil {
		t.Fatal(err)
	}
	switch {
	case n.Ready || n.Why != "draining" || n.Version != "1.2.3" || n.Trouble != "ask the engine: a step hangs":
		t.Errorf("the server is %+v", n)
	case n.Running != mostRunning+5 || len(n.Requests) != mostRunning || n.Requests[0].ID != "chatcmpl-000":
		t.Errorf("%d requests run, of which it shows %d from %s", n.Running, len(n.Requests), n.Requests[0].ID)
	case len(n.Requests[0].Engine) != 1 || len(n.Requests[1].Engine) != 1 || n.Requests[1].Engine[0].KVBlocks != 3 || len(n.Requests[2].Engine) != 0:
		t.Errorf("the engine says of the first requests %+v", n.Requests[:3])
	case len(n.Ended) != mostEnded || n.Ended[0].ID != fmt.Sprintf("cmpl-%03d", mostEnded+4):
		t.Errorf("it shows %d that ended, the last %s", len(n.Ended), n.Ended[0].ID)
	case len(n.Tenants) != 2 || n.Tenants[0] != (tenantNow{Name: "blue", Running: 1, KVBlocks: 7}) || n.Tenants[1] != (tenantNow{Name: "red", Running: 1, Waiting: 1, KVBlocks: 3, Debt: 1}):
		t.Errorf("the tenants are %+v", n.Tenants)
	case n.Engines[0].Steps[0].Prefill != 5:
		t.Errorf("the engine is %+v", n.Engines[0])
	}
}

// A snapshot of a full server is bounded in bytes, whatever runs and waits.
func TestSnapshotsAreSmall(t *testing.T) {
	size := func(requests, tenants, engines int) int {
		j := NewJournal()
		var states []State
		at := time.Now().Add(-time.Minute)
		for i := range requests {
			id, tenant := fmt.Sprintf("chatcmpl-%024d", i), fmt.Sprintf("tenant-%d", i%tenants)
			j.Begin(&Entry{ID: id, Route: "/v1/chat/completions", Tenant: tenant, Model: "qwen2.5-coder", Version: "0123456789ab", Stream: true, Prompts: 1, Choices: 1, Prompt: 1000, Arrived: at})
			s := State{ID: id, Model: "qwen2.5-coder", Version: "0123456789ab", State: inference.State{Tenant: tenant, PromptTokens: 1000, PrefillTokens: 1000, KVBlocks: 63, Debt: time.Second / 3}, Queue: time.Second / 3, Prefill: time.Second / 7, Decode: time.Second / 9}
			if i > 16 {
				s.Phase, s.Cause, s.Ahead = inference.PhaseWaiting, inference.CauseTurn, i
			}
			states = append(states, s)
		}
		for i := range 2 * pastEntries {
			j.End(&Entry{ID: fmt.Sprintf("chatcmpl-%024d", i), Route: "/v1/chat/completions", Tenant: "tenant-1", Model: "qwen2.5-coder", Version: "0123456789ab", Arrived: at, First: at.Add(time.Second / 3), Finished: at.Add(time.Second / 7), Status: 200, Prompt: 1000, Output: 300})
		}
		steps := make([]StepNow, 512)
		for i := range steps {
			steps[i] = StepNow{At: at.UnixMilli(), Prefill: 511, Decode: 16, Seconds: 0.0123456789, Estimate: 0.0123456789}
		}
		c := Config{Journal: j, States: func(context.Context) ([]State, error) { return states, nil }, Engines: func() []EngineNow {
			return append([]EngineNow(nil), make([]EngineNow, engines)...)
		}}
		n := nowOf(t.Context(), c)
		for i := range n.Engines {
			n.Engines[i].Steps = steps
		}
		text, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		return len(text)
	}
	some, most := size(50, 4, 1), size(5000, 1000, 1)
	t.Logf("%d bytes with 50 requests, %d with 5,000", some, most)
	if some > 90_000 || most > 250_000 {
		t.Errorf("a snapshot has %d bytes with 50 requests and %d with 5,000", some, most)
	}
}
