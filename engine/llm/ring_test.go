package llm

import (
	"errors"
	"testing"

	"weir/internal/inference"
	"weir/internal/reference"
	"weir/scheduler"
)

// longTiny is a model that answers beyond the ring of a reader that never reads.
func longTiny() tiny {
	m := families[0]
	m.context = ringSlack + 64
	return m
}

// A reader that reads nothing until the end gets all of an answer that its
// ring holds exactly, with its finish.
func TestAnAnswerThatFillsItsRingKeepsItsFinish(t *testing.T) {
	reference.Slow(t)
	e := start(t, longTiny(), Options{KVBlocks: 300})
	const tokens = ringSlack + 2
	a := askLate(t, e, greedy(prompt(1, 4), tokens))
	if a.err != nil || len(a.tokens[0]) != tokens || a.finish[0] != inference.FinishLength {
		t.Errorf("%d tokens, finish %v, %v; want %d, length and no error", len(a.tokens[0]), a.finish[0], a.err, tokens)
	}
}

// One token more than the ring holds is an error, never a quiet loss.
func TestAnAnswerBeyondItsRingSaysSo(t *testing.T) {
	reference.Slow(t)
	e := start(t, longTiny(), Options{KVBlocks: 300})
	a := askLate(t, e, greedy(prompt(1, 4), ringSlack+3))
	if !errors.Is(a.err, inference.ErrSlowConsumer) || a.finish[0] != inference.FinishCancelled {
		t.Errorf("%d tokens, finish %v, %v; want a cancelled choice and a slow consumer", len(a.tokens[0]), a.finish[0], a.err)
	}
	if len(a.tokens[0]) != ringSlack+2 {
		t.Errorf("%d tokens before the error, want the %d that the ring holds", len(a.tokens[0]), ringSlack+2)
	}
}

// askLate reads a request's stream only once the engine is done with it.
func askLate(t *testing.T, e *Engine, r *inference.Request) answer {
	t.Helper()
	s, err := e.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the request ends", func() bool { st := e.Stats(); return st.Scheduler.Ended() == 1 })
	return read(t, s)
}

// The error of one choice reaches the reader though another one ends well
// after it.
func TestTheErrorOfAChoiceIsNotLostWithTheLastOne(t *testing.T) {
	s := newStepper(t, families[0], Options{})
	r := greedy(prompt(2, 6), 8)
	r.N = 2
	s.submit(t, r)
	s.loop.readInbox()
	var j *job
	for j = range s.loop.live {
	}
	s.loop.endChoices(scheduler.End{User: j, Choice: 0, Finish: inference.FinishError, Err: inference.ErrInternal})
	s.loop.endChoices(scheduler.End{User: j, Choice: 1, Finish: inference.FinishLength})
	if a := read(t, s.streams[0]); !errors.Is(a.err, inference.ErrInternal) || a.finish[0] != inference.FinishError || a.finish[1] != inference.FinishLength {
		t.Errorf("%v, %v; want an error of the first choice", a.finish, a.err)
	}
	s.sched.Cancel(0, j.id, -1)
}
