package llm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler"
)

func oneSeq() scheduler.Config { return scheduler.Config{MaxSeqs: 1} }

// breakable breaks the loop once when it comes to a phase after armed was set.
type breakable struct {
	phase phase
	armed atomic.Bool
	also  func()      // what else breaks
	only  func() bool // whether it may break now; nil: yes
}

func (b *breakable) at(p phase) {
	if p == b.phase && b.armed.Load() && (b.only == nil || b.only()) && b.armed.CompareAndSwap(true, false) {
		if b.also != nil {
			b.also()
		}
		panic("broken on purpose")
	}
}

// A panic in any part of a step fails requests, is counted and told, and the
// engine serves on: answers afterwards are those from before.
func TestAPanicAnywhereInAStepIsSurvived(t *testing.T) {
	for p := taking; p <= finishing; p++ {
		t.Run(p.String(), func(t *testing.T) {
			b := &breakable{phase: p}
			var told atomic.Int32
			var e *Engine
			if p != taking { // the first request's last step, and an empty plan behind it, may still be under way when its client has the answer
				b.only = func() bool { return e.sched.Stats().Submitted == 2 }
			}
			e = start(t, families[0], Options{atPhase: b.at, OnFault: func(text string) {
				told.Add(1)
				if !strings.Contains(text, p.String()) || !strings.Contains(text, "broken on purpose") {
					t.Errorf("fault %q does not name the phase and the panic", text)
				}
			}})
			want := ask(t, e, greedy(prompt(1, 20), 12)).tokens[0]
			b.armed.Store(true)
			concerned := inference.ErrInternal
			if p == reporting { // what is reported is no tenant's request
				concerned = nil
			}
			if a := ask(t, e, greedy(prompt(2, 20), 12)); !errors.Is(a.err, concerned) {
				t.Errorf("the broken step's request: %v, want %v", a.err, concerned)
			}
			if a := ask(t, e, greedy(prompt(1, 20), 12)); a.err != nil || !slices.Equal(a.tokens[0], want) {
				t.Errorf("afterwards: %v %v, want %v", a.tokens[0], a.err, want)
			}
			if s := e.Stats(); s.Panics != 1 || told.Load() != 1 || !strings.Contains(s.LastFault, "broken on purpose") {
				t.Errorf("%d panics counted, %d told, the last %q; want one", s.Panics, told.Load(), s.LastFault)
			}
			if !e.Load().Ready {
				t.Error("the engine is not ready")
			}
		})
	}
}

// Where the pool's counts do not add up after a panic, every live request
// fails and the engine starts over with an empty cache.
func TestAStateThatCannotBeTrustedIsRebuilt(t *testing.T) {
	b := &breakable{phase: emitting}
	e := start(t, families[0], Options{atPhase: b.at, Scheduler: oneSeq()})
	var stray kvcache.Table
	b.also = func() { e.pool.Begin(&stray, e.cache.Domain("nobody")) }
	want := ask(t, e, greedy(prompt(1, 40), 12)).tokens[0]
	b.armed.Store(true)
	var streams []*inference.Stream
	for i := range uint64(4) {
		s, err := e.Submit(greedy(prompt(2+i, 20), 100))
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	if a := read(t, streams[0]); !errors.Is(a.err, inference.ErrInternal) {
		t.Errorf("the running request: %v, want an internal error", a.err)
	}
	for _, s := range streams[1:] { // waiting ones fail, ones that came later run
		if a := read(t, s); a.err != nil && !errors.Is(a.err, inference.ErrInternal) {
			t.Error(a.err)
		}
	}
	if a := ask(t, e, greedy(prompt(1, 40), 12)); a.err != nil || !slices.Equal(a.tokens[0], want) {
		t.Errorf("afterwards: %v %v, want %v", a.tokens[0], a.err, want)
	}
	if s := e.Stats(); s.Rebuilds != 1 || s.Scheduler.Live != 0 {
		t.Errorf("rebuilt %d times, %d requests live; want 1 and 0", s.Rebuilds, s.Scheduler.Live)
	}
}

// An engine that breaks over and over stops, says why, and refuses at once.
func TestAnEngineThatOnlyBreaksIsNotReady(t *testing.T) {
	e := start(t, families[0], Options{atPhase: func(p phase) {
		if p == planning {
			panic("broken for good")
		}
	}})
	var err error
	for range 20 {
		var s *inference.Stream
		if s, err = e.Submit(greedy(prompt(1, 8), 4)); err != nil {
			break
		}
		if a := read(t, s); !errors.Is(a.err, inference.ErrInternal) && !errors.Is(a.err, inference.ErrUnavailable) {
			t.Fatalf("%v, want an internal error", a.err)
		}
	}
	if !errors.Is(err, inference.ErrUnavailable) || !strings.Contains(err.Error(), "broken for good") {
		t.Errorf("refusal %v, want an unavailable engine and the reason", err)
	}
	if why := e.NotReady(); !strings.Contains(why, "broken for good") || !strings.Contains(why, "restart") || e.Load().Ready {
		t.Errorf("ready %v, because %q", e.Load().Ready, why)
	}
}

// A hook that panics takes nothing with it, every time.
func TestAHookThatPanicsHurtsNoOne(t *testing.T) {
	boom := func() { panic("a bad hook") }
	for name, o := range map[string]Options{
		"OnStep":             {OnStep: func(StepStats) { boom() }},
		"OnFinish":           {OnFinish: func(Phases) { boom() }},
		"OnCancel":           {OnCancel: func(time.Duration) { boom() }},
		"OnFault":            {OnFault: func(string) { boom() }, OnStep: func(StepStats) { boom() }},
		"OnFault on a fault": {OnFault: func(string) { boom() }, atPhase: (&breakable{phase: emitting}).at},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, families[0], o)
			for range 3 {
				if a := ask(t, e, greedy(prompt(3, 9), 6)); a.err != nil || len(a.tokens[0]) != 6 {
					t.Errorf("%d tokens, %v", len(a.tokens[0]), a.err)
				}
				s, err := e.Submit(greedy(prompt(4, 9), 200))
				if err != nil {
					t.Fatal(err)
				}
				s.Cancel(-1)
				if a := read(t, s); a.err != nil && !errors.Is(a.err, inference.ErrCancelled) {
					t.Errorf("cancelled: %v", a.err)
				}
			}
			if !e.Load().Ready {
				t.Error("the engine is not ready")
			}
		})
	}
}

// A broken engine still closes.
func TestABrokenEngineCloses(t *testing.T) {
	e, err := Open(families[0].file(t), Options{Threads: 1, KVBlocks: 50, atPhase: func(p phase) {
		if p == planning {
			panic("broken for good")
		}
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if s, err := e.Submit(greedy(prompt(1, 8), 4)); err == nil {
			read(t, s)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
}
