package llm

import (
	"strings"
	"testing"

	"weir/internal/inference"
	"weir/scheduler"
)

// drafters are engines with a draft model, the model itself, and with an MTP head.
func drafters(t *testing.T) map[string]struct {
	model tiny
	o     Options
} {
	model := everyDraft(4)
	model.MTP, model.Draft = false, families[0].file(t)
	return map[string]struct {
		model tiny
		o     Options
	}{
		"the draft model": {families[0], model},
		"the MTP head":    {headed[0], everyDraft(4)},
	}
}

// A draft model or MTP head that panics, in planning, in a kernel on any thread, or while it takes in what the step computed, fails no request: all go
// on without its drafts, to the same answers. It is told and counted once, and drafts no more.
func TestADraftModelThatPanicsFailsNoRequest(t *testing.T) {
	for source, c := range drafters(t) {
		var want []string
		plain := start(t, c.model, Options{EndTokens: []int32{9}})
		for _, r := range speculative() {
			want = append(want, story(ask(t, plain, r())))
		}
		for name, also := range map[string]func(e *Engine){
			"a call":          nil,
			"a kernel":        func(e *Engine) { e.drafts.model.model.layers[0].attention.q.w = nil },
			"its own threads": func(e *Engine) { e.cpu.Run(broken{}, 64, 1) },
		} {
			t.Run(source+", "+name, func(t *testing.T) {
				var e *Engine
				var told []string
				calls := 0
				o := c.o
				o.Threads = 3
				o.OnFault = func(text string) { told = append(told, text) } // of the loop alone
				o.atPhase = func(p phase) {
					if p != proposing || e == nil {
						return
					}
					if calls++; calls < 60 { // amid the requests
						return
					}
					if also == nil {
						panic("broken on purpose")
					}
					also(e)
				}
				e = start(t, c.model, o)
				answerAs(t, e, want)
				st := e.Stats()
				if st.Panics != 1 || st.Rebuilds != 0 || st.Scheduler.Failed != 0 || st.Scheduler.AcceptedTokens == 0 && source == "the draft model" {
					t.Errorf("%d panics, %d rebuilds, %d requests failed, %d drafts came true", st.Panics, st.Rebuilds, st.Scheduler.Failed, st.Scheduler.AcceptedTokens)
				}
				drafts := st.Scheduler.DraftTokens
				if a := ask(t, e, greedy(prompt(3, 40), 30)); a.err != nil || e.Stats().Scheduler.DraftTokens != drafts {
					t.Errorf("it drafts on: %d tokens beside %d, %v", e.Stats().Scheduler.DraftTokens, drafts, a.err)
				}
				if !strings.Contains(st.DraftsStopped, "panic in proposing draft tokens") || len(told) != 2 ||
					!strings.Contains(told[1], source+" proposes no draft tokens any more, until the model is loaded again") {
					t.Errorf("stopped: %q; told %q", st.DraftsStopped, told)
				}
				if !e.Load().Ready {
					t.Error("the engine is not ready")
				}
			})
		}
	}
}

// broken panics on a thread of the pool.
type broken struct{}

func (broken) Do(_, item int) {
	if item == 63 {
		panic("broken on purpose")
	}
}

// The idle check finds counts of the drafts' cache that do not add up, which ends drafting, and texts that were left open, which it forgets.
func TestTheDraftsCacheIsChecked(t *testing.T) {
	for source, c := range drafters(t) {
		t.Run(source, func(t *testing.T) {
			s := newStepper(t, c.model, c.o)
			run := func() {
				s.submit(t, greedy(prompt(1, 40), 12))
				for s.turn() {
				}
			}
			run()
			s.loop.check()
			if st := s.Stats(); st.Faults != 0 || st.DraftsStopped != "" {
				t.Fatalf("%d faults of a sound cache, stopped: %q", st.Faults, st.DraftsStopped)
			}
			g := s.drafts.model
			left := &draftSequence{}
			g.pool.Begin(&left.table, g.cache.Domain("tenant"))
			g.read[scheduler.SequenceID{Request: 1 << 40}] = left
			s.loop.check()
			if st := s.Stats(); st.Faults != 1 || st.DraftsStopped != "" || len(g.read) != 0 {
				t.Errorf("%d faults of a text left open, %d are still, stopped: %q", st.Faults, len(g.read), st.DraftsStopped)
			}
			drafts := s.Stats().Scheduler.DraftTokens
			if run(); s.Stats().Scheduler.DraftTokens == drafts {
				t.Error("it drafts no more")
			}
			g.pool.Begin(&left.table, g.cache.Domain("tenant"))
			if !g.pool.Grow(&left.table, 20, g.pool.Match(g.cache.Domain("tenant"), nil, 0), &g.copies) {
				t.Fatal("no block")
			}
			*left = draftSequence{} // a block that no table names
			s.loop.check()
			if st := s.Stats(); st.Faults != 2 || !strings.Contains(st.DraftsStopped, "the cache of "+source) {
				t.Errorf("%d faults of a lost block, stopped: %q", st.Faults, st.DraftsStopped)
			}
			drafts = s.Stats().Scheduler.DraftTokens
			if run(); s.Stats().Scheduler.DraftTokens != drafts {
				t.Error("it drafts on")
			}
		})
	}
}

// A fault elsewhere, which makes the engine forget everything, leaves drafting as it was.
func TestDraftingOutlivesARebuild(t *testing.T) {
	for source, c := range drafters(t) {
		t.Run(source, func(t *testing.T) {
			s := newStepper(t, c.model, c.o)
			for range 2 {
				before := s.Stats().Scheduler.DraftTokens
				s.submit(t, greedy(prompt(1, 40), 12))
				for s.turn() {
				}
				if s.Stats().Scheduler.DraftTokens == before {
					t.Error("nothing was drafted")
				}
				s.loop.rebuild(inference.ErrInternal)
			}
		})
	}
}
