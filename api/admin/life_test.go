package admin

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/router"
)

// lived is a life as an engine tells it.
type lived inference.Lived

func (l lived) Lived() inference.Lived { return inference.Lived(l) }

// stagesOf writes the stages of an explained request's prompts in short.
func stagesOf(body map[string]any) string {
	var lives []string
	list, _ := body["life"].([]any)
	for _, v := range list {
		life, _ := v.(map[string]any)
		stages, _ := life["stages"].([]any)
		var words []string
		for _, v := range stages {
			s, _ := v.(map[string]any)
			text := fmt.Sprintf("%v %.3g+%.3g", s["stage"], s["from_seconds"], s["seconds"])
			for _, name := range []string{"waits_for", "gave_way_to", "requests_ahead", "replica", "reason", "failed", "now"} {
				if s[name] != nil {
					text += fmt.Sprintf(" %v", s[name])
				}
			}
			words = append(words, text)
		}
		lives = append(lives, strings.Join(words, ", "))
	}
	return strings.Join(lives, " | ")
}

// A request is told from its arrival to its end, one stage behind the other, each wait with its reason.
func TestTheLifeOfARequest(t *testing.T) {
	at := time.Now().Add(-10 * time.Second)
	after := func(seconds float64) time.Time { return at.Add(time.Duration(seconds * 1e9)) }
	moment := func(seconds float64, p inference.Phase, c inference.Cause, g inference.Gave, ahead int32) inference.Moment {
		return inference.Moment{At: after(seconds).UnixNano(), Phase: p, Cause: c, Gave: g, Ahead: ahead}
	}
	begun := Entry{Model: "m", Prompts: 1, Arrived: at, Parsed: after(1), Submitted: after(1.5)}
	whole := begun
	whole.ID, whole.Status, whole.Last, whole.Finished = "whole", 200, after(8), after(9)
	whole.LoadBegan, whole.Loaded = after(0.25), after(0.75)
	whole.Lived = []inference.Lived{{Moments: []inference.Moment{
		moment(1.5, inference.PhaseWaiting, inference.CauseTurn, 0, 2), moment(2, inference.PhaseWaiting, inference.CauseBlocks, 0, 0), moment(3, inference.PhasePrefill, 0, 0, 0),
		moment(4, inference.PhaseDecode, 0, 0, 0), moment(5, inference.PhasePreempted, inference.CauseBlocks, inference.GaveClass, 0), moment(6, inference.PhasePrefill, 0, 0, 0), moment(7, inference.PhaseDecode, 0, 0, 0),
	}}}
	waits := begun
	waits.ID, waits.Status, waits.Finished, waits.Refused, waits.Code = "waits", 503, after(4), true, "queue_timeout"
	waits.Lived = []inference.Lived{{Moments: []inference.Moment{moment(1.5, inference.PhaseWaiting, inference.CauseSlots, 0, 0)}}}
	early := Entry{ID: "early", Arrived: at, Finished: after(0.5), Status: 429, Code: "rate_limit_exceeded", Refused: true}
	sent := begun
	sent.ID, sent.Status, sent.Finished = "sent", 200, after(6)
	sent.Tried = []*router.Attempt{{Replica: "a", Reason: "prefix", Began: after(2), Took: time.Second, Failed: "connect"}, {Replica: "b", Reason: "next", Began: after(4), Took: 2 * time.Second, Status: 200}}
	running := begun
	running.ID = "running"
	running.Prompts = 2
	j := NewJournal()
	for _, e := range []*Entry{&whole, &waits, &early, &sent} {
		j.End(e)
	}
	j.Begin(&running)
	c := Config{Journal: j, States: func(context.Context) ([]State, error) {
		return []State{
			{ID: "running-1", Life: lived{Moments: []inference.Moment{moment(1.5, inference.PhaseWaiting, inference.CauseStep, 0, 0)}}},
			{ID: "running-0", Life: lived{Moments: []inference.Moment{moment(1.5, inference.PhaseDecode, 0, 0, 0)}}},
		}, nil
	}}
	for id, want := range map[string]string{
		"whole": "parse 0+0.25, load 0.25+0.5 model, parse 0.75+0.25, tokenise 1+0.5, waiting 1.5+0.5 turn 2, waiting 2+1 kv_blocks, prefill 3+1, decode 4+1, preempted 5+1 kv_blocks higher_class, prefill 6+1, decode 7+1, send 8+1",
		"waits": "parse 0+1, tokenise 1+0.5, waiting 1.5+2.5 slots queue_timeout",
		"early": "parse 0+0.5 rate_limit_exceeded",
		"sent":  "parse 0+1, tokenise 1+0.5, route 1.5+0.5, upstream 2+1 a prefix connect, route 3+1, upstream 4+2 b next",
	} {
		if status, body := asked(t, c, "/admin/explain?request="+id); status != 200 || stagesOf(body) != want {
			t.Errorf("%s: %d\n%s, want\n%s", id, status, stagesOf(body), want)
		}
	}
	_, body := asked(t, c, "/admin/explain?request=running")
	got := stagesOf(body)
	if lives := strings.Split(got, " | "); len(lives) != 2 || !strings.Contains(lives[0], "decode 1.5+8.") || !strings.Contains(lives[1], "waiting 1.5+8.") || !strings.HasSuffix(lives[1], " step true") {
		t.Errorf("running: %s", got)
	}
}

// What is forgotten in the middle of a long life is told.
func TestALongLifeHasAGap(t *testing.T) {
	var l inference.Life
	at := time.Now().Add(-time.Hour)
	for i := range 200 {
		l.Note(inference.Moment{At: at.Add(time.Duration(i) * time.Second).UnixNano(), Phase: inference.Phase(i % 2)}) //nolint:gosec // 0 or 1
	}
	e := Entry{ID: "a", Arrived: at, Submitted: at, Status: 200, Last: at.Add(200 * time.Second), Finished: at.Add(200 * time.Second), Lived: []inference.Lived{l.Lived()}}
	view := e.lives(nil, time.Now())[0]
	if view.Left < 150 || len(view.Stages) > 40 || len(view.Stages) < 10 {
		t.Errorf("%d stages are shown and %d left out", len(view.Stages), view.Left)
	}
	for _, s := range view.Stages {
		if s.Seconds > 1.01 {
			t.Errorf("%s took %v s", s.Stage, s.Seconds)
		}
	}
}

// The queue is added up by model, class and tenant, with the places and the waits of the first and the last.
func TestTheQueueByClassAndTenant(t *testing.T) {
	waiter := func(tenant string, class inference.Class, ahead int, wait time.Duration) State {
		return State{
			Model: "m", Wait: wait, Known: wait > 0, Queue: time.Duration(ahead) * time.Second,
			State: inference.State{Tenant: tenant, Class: class, Phase: inference.PhaseWaiting, Cause: inference.CauseTurn, Ahead: ahead, PromptTokens: 10},
		}
	}
	list := queueOf([]State{
		waiter("red", inference.Default, 2, 3*time.Second), waiter("blue", inference.Interactive, 0, time.Second), waiter("red", inference.Default, 1, 2*time.Second),
		waiter("red", inference.Default, 7, 9*time.Second), waiter("new", inference.Batch, 8, 0), {Model: "m", State: inference.State{Phase: inference.PhaseDecode}},
	})
	want := []queueNow{
		{Model: "m", Class: "interactive", Tenant: "blue", Waiting: 1, Tokens: 10, Waits: "turn", Next: 1, Longest: 1},
		{Model: "m", Class: "default", Tenant: "red", Waiting: 3, Tokens: 30, First: 1, Last: 7, Waits: "turn", Oldest: 7, Next: 2, Longest: 9},
		{Model: "m", Class: "batch", Tenant: "new", Waiting: 1, Tokens: 10, First: 8, Last: 8, Waits: "turn", Oldest: 8, Next: -1, Longest: -1},
	}
	if fmt.Sprint(list) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", list, want)
	}
	var crowd []State
	for i := range 1000 {
		crowd = append(crowd, waiter(fmt.Sprint(i), inference.Default, i, 0))
	}
	if n := len(queueOf(crowd)); n != mostNowNames {
		t.Errorf("%d rows", n)
	}
}

// The largest tenants of an engine are shown with their KV blocks, and the others as one.
func TestHoldersAreBounded(t *testing.T) {
	var states []State
	for i := range 50 {
		states = append(states, State{Model: "m", Version: "1", State: inference.State{Tenant: fmt.Sprintf("t%02d", i), KVBlocks: 100 - i}}, State{Model: "m", Version: "2", State: inference.State{Tenant: "x", KVBlocks: 5}})
	}
	list, sum := holders(states, "m", "1"), 0
	for _, h := range list {
		sum += h.KVBlocks
	}
	if len(list) != mostHolders || list[0] != (holder{Tenant: "t00", KVBlocks: 100}) || list[mostHolders-1].Others != 43 || sum != 50*100-49*50/2 {
		t.Errorf("%+v", list)
	}
}
