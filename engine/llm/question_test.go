package llm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/scheduler"
)

// A reset between two steps frees the blocks that are not used and no others: the
// request that runs meanwhile keeps its blocks, and answers as it would alone.
func TestResetFreesWhatNoRequestUses(t *testing.T) {
	const tokens, blocks = 70, 70 / 16 // of a prompt, and whole ones in it
	cached, running := prompt(21, tokens), prompt(22, tokens)
	alone := ask(t, start(t, families[0], Options{}), greedy(running, 100))
	s := newStepper(t, families[0], Options{})
	s.submit(t, greedy(cached, 1))
	for s.turn() {
	}
	stream, err := s.Submit(greedy(running, 100))
	if err != nil {
		t.Fatal(err)
	}
	s.turn()
	used := s.pool.Stats().Referenced
	freed := 0
	if err := s.inbox.submit(0, command{question: &question{resetting, func() { freed = s.loop.reset() }, make(chan error, 1)}}); err != nil {
		t.Fatal(err)
	}
	s.turn()
	if freed != blocks {
		t.Errorf("the reset freed %d blocks, want %d", freed, blocks)
	}
	if st := s.Stats().Cache; used < blocks || st.Referenced != used || st.Cached != 0 {
		t.Errorf("after the reset %d blocks are in use and %d cached, want %d and 0", st.Referenced, st.Cached, used)
	}
	for s.turn() {
	}
	if got := read(t, stream); got.err != nil || story(got) != story(alone) {
		t.Errorf("the reset changed the answer of a running request: %v\n%s\n%s", got.err, story(got), story(alone))
	}
	hits := s.pool.Stats().HitTokens
	s.submit(t, greedy(cached, 1))
	for s.turn() {
	}
	if n := s.pool.Stats().HitTokens - hits; n != 0 {
		t.Errorf("%d tokens were found in a cache that had been reset", n)
	}
}

func TestResetSaysWhatPreventsIt(t *testing.T) {
	breaks := true
	e, err := newEngine(families[0].file(t), Options{KVBlocks: 400, Threads: 2, atPhase: func(p phase) {
		if p == resetting && breaks {
			panic("broken")
		}
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.cpu.Drive(e.loop.iterate)
	if _, err := e.ResetPrefixCache(t.Context()); !errors.Is(err, inference.ErrInternal) || !strings.Contains(err.Error(), "resetting the prefix cache") {
		t.Errorf("a reset that panicked: %v", err)
	}
	breaks = false
	if _, err := e.ResetPrefixCache(t.Context()); err != nil {
		t.Errorf("the reset after it: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	stop(t, e)
	if _, err := e.ResetPrefixCache(gone); !errors.Is(err, inference.ErrUnavailable) {
		t.Errorf("a closed engine: %v", err)
	}
}

// Explaining says of every live request what it does, and what a waiting one lacks.
func TestRequestsAreExplained(t *testing.T) {
	s := newStepper(t, families[0], Options{Scheduler: scheduler.Config{MaxSeqs: 1}})
	long := greedy(prompt(1, 40), 50)
	long.ID, long.Tenant = "first", "a"
	next := greedy(prompt(2, 40), 50)
	next.ID, next.Tenant = "second", "a"
	s.submit(t, long)
	s.turn()
	s.turn()
	s.submit(t, next)
	s.turn()
	byID := map[string]RequestState{}
	states, _ := requestStates(s.sched.Explain(nil), time.Now())
	for _, x := range states {
		byID[x.ID] = x
	}
	if len(byID) != 2 {
		t.Fatalf("%d requests are explained, want 2", len(byID))
	}
	if x := byID["first"]; x.Phase != inference.PhaseDecode || x.Cause != inference.CauseNone || x.OutputTokens < 2 ||
		x.PrefillTokens != 40 || x.KVBlocks < 3 || x.Tenant != "a" || x.Decode <= 0 {
		t.Errorf("the running request is %+v", x)
	}
	if x := byID["second"]; x.Phase != inference.PhaseWaiting || x.Cause != inference.CauseSlots || x.KVBlocks != 0 || x.Queue <= 0 {
		t.Errorf("the waiting request is %+v", x)
	}
	if err := s.sched.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// The compute time that requests are told adds up to that of the steps.
func TestComputeTimeIsTold(t *testing.T) {
	var steps []time.Duration
	e := start(t, families[0], Options{OnStep: func(s StepStats) { steps = append(steps, s.StepTime) }})
	var streams []*inference.Stream
	for i := range 3 {
		s, err := e.Submit(greedy(prompt(uint64(i), 10+10*i), 150)) // mostly steps of one row each
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	told := time.Duration(0)
	for _, s := range streams {
		if a := read(t, s); a.err != nil {
			t.Fatal(a.err)
		}
		if s.Compute() <= 0 {
			t.Error("an answer took no compute time")
		}
		told += s.Compute()
	}
	stop(t, e)
	slices.Sort(steps)
	whole, usual := time.Duration(0), time.Duration(len(steps))*steps[len(steps)/2]
	for _, d := range steps {
		whole += d
	}
	// A step's time goes on while its events are handed out, where a busy machine may take the thread away for longer than all steps
	// compute: what is told is held to the median step.
	if told > whole || told < usual/2 {
		t.Errorf("requests were told %v; %d steps took %v, by their median %v", told, len(steps), whole, usual)
	}
}
