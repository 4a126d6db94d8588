package llm

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"weir/internal/inference"
	"weir/internal/work"
	"weir/scheduler"
)

// sometimes is late now and then, in an order that depends on the number of calls.
func sometimes(n uint64) func() error {
	var calls atomic.Uint64
	return func() error {
		if mixed(calls.Add(1), "late")%n == 0 {
			return work.ErrLate
		}
		return nil
	}
}

// TestS1LateConstraintsChangeNoAnswer: rows whose masks are late sit out and are sampled later. The answers are those of an engine that
// waits for every mask, to the last bit: with forks, drafts, preemptions and log-probabilities, alone and beside others.
func TestS1LateConstraintsChangeNoAnswer(t *testing.T) {
	f := families[0]
	var want []string
	plain := start(t, f, Options{EndTokens: []int32{9}, inTime: func() error { return nil }})
	for _, r := range constrained() {
		want = append(want, story(ask(t, plain, r())))
	}
	if n := plain.Stats().Scheduler.Late; n != 0 {
		t.Fatalf("%d rows were late with all the time that they want", n)
	}
	late, preempted := uint64(0), uint64(0)
	for i, o := range []Options{
		{Scheduler: scheduler.Config{MaxDrafts: 5, LookupMin: 1}, Speculate: true},
		{Scheduler: scheduler.Config{PrefillChunk: 7}, logitRows: 3},
		{Scheduler: scheduler.Config{MaxDrafts: 8, LookupMin: 1, MaxSeqs: 8, MaxBatchTokens: 24, OutputEstimate: 1}, KVBlocks: 15, BlockTokens: 16, MaxModelLen: 220, logitRows: 2, Threads: 3, Speculate: true},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			o.EndTokens, o.inTime = []int32{9}, sometimes(2)
			e := start(t, f, o)
			var all []*inference.Request
			for _, r := range constrained() {
				all = append(all, r())
			}
			streams, err := e.SubmitAll(all)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range streams {
				if got := story(read(t, s)); got != want[i] {
					t.Errorf("request %d:\n%s\nwant\n%s", i, got, want[i])
				}
			}
			late, preempted = late+e.Stats().Scheduler.Late, preempted+e.Stats().Scheduler.Preemptions
		})
	}
	if late < 100 || preempted == 0 {
		t.Errorf("%d late rows, %d preemptions: too few to show anything", late, preempted)
	}
}

// endlessly is a constraint whose masks take for ever: each asks its meter until it ends the work.
type endlessly struct {
	*automaton
	began chan struct{}
	ended chan error
}

func (e *endlessly) Mask([]uint64) (bool, error) {
	for first := true; ; first = false {
		if err := e.meter.Spend(work.Stride); err != nil {
			if !errors.Is(err, work.ErrLate) {
				e.ended <- err
			}
			return false, err
		}
		if first && !e.meter.Hurried {
			e.began <- struct{}{}
		}
	}
}

func (e *endlessly) Fork() inference.Constraint {
	f := *e
	f.automaton = e.automaton.Fork().(*automaton)
	return &f
}

// TestS1OthersGoOnBesideAnEndlessMask: one mask that never ends holds up no other request, and is over when its client has gone.
func TestS1OthersGoOnBesideAnEndlessMask(t *testing.T) {
	e := start(t, families[0], Options{EndTokens: []int32{9}})
	plain := func() *inference.Request { return greedy(repetitive(3, 30), 50) }
	want := story(ask(t, e, plain()))
	c := &endlessly{newAutomaton(1), make(chan struct{}, 1), make(chan error, 1)}
	r := greedy(prompt(1, 9), 20)
	r.Constraint = c
	s, err := e.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	<-c.began
	for i := range 3 {
		bound := plain()
		if i == 2 {
			bound.Constraint = newAutomaton(2)
		}
		if a := ask(t, e, bound); a.err != nil || i < 2 && story(a) != want {
			t.Errorf("request %d beside it: %v", i, a.err)
		}
	}
	s.Cancel(-1)
	if a := read(t, s); !errors.Is(a.err, inference.ErrCancelled) {
		t.Errorf("the request ended with %v", a.err)
	}
	<-c.ended
}

// TestS1ClosingDoesNotWaitForAMask: an engine that is told to stop at once does, whatever a mask does.
func TestS1ClosingDoesNotWaitForAMask(t *testing.T) {
	e, err := Open(families[0].file(t), Options{Threads: 1, KVBlocks: 50, EndTokens: []int32{9}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &endlessly{newAutomaton(1), make(chan struct{}, 1), make(chan error, 1)}
	r := greedy(prompt(1, 9), 20)
	r.Constraint = c
	s, err := e.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	<-c.began
	e.inbox.setClosing(true)
	<-e.inbox.stopped
	if a := read(t, s); !errors.Is(a.err, inference.ErrUnavailable) {
		t.Errorf("the request ended with %v", a.err)
	}
	<-c.ended
}
