package llm

import (
	"context"
	"errors"
	"strings"
	"testing"

	"weir/internal/inference"
)

// A reset between two steps frees the blocks that nobody uses and no others: the
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
	answer := make(chan freeing, 1)
	if err := s.postReset(answer); err != nil {
		t.Fatal(err)
	}
	s.turn()
	if got := <-answer; got != (freeing{blocks: blocks}) {
		t.Errorf("the reset answered %+v, want %d blocks", got, blocks)
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
