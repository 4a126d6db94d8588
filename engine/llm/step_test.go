package llm

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/internal/reference"
	"weir/scheduler"
)

// stepper is an engine whose loop the test turns by hand.
type stepper struct {
	*Engine
	streams []*inference.Stream
	events  [64]inference.Event
}

func newStepper(t testing.TB, m tiny, o Options) *stepper {
	t.Helper()
	if o.KVBlocks == 0 {
		o.KVBlocks = 400
	}
	o.KVBlocks = m.blocks(t, o)
	if o.Threads == 0 {
		o.Threads = 2
	}
	e, err := newEngine(m.file(t), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for j := range e.loop.live {
			e.loop.cancel(time.Now(), j, -1, inference.ErrCancelled)
		}
		if st := e.pool.Stats(); st.Referenced != 0 {
			t.Errorf("blocks are left: %+v", st)
		}
		e.release()
	})
	return &stepper{Engine: e}
}

func (s *stepper) submit(t testing.TB, r *inference.Request) {
	t.Helper()
	stream, err := s.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	s.streams = append(s.streams, stream)
}

// turn is one turn of the loop, and of the readers.
func (s *stepper) turn() bool {
	s.loop.readInbox()
	ran := s.loop.step()
	for _, stream := range s.streams {
		_, _, _ = stream.Poll(s.events[:])
	}
	return ran
}

// A token of a running output costs no memory, from the plan to the stream.
func TestStepsDoNotAllocate(t *testing.T) {
	for _, f := range families {
		for _, batch := range []int{1, 8} {
			if reference.Quick() && batch == 1 {
				continue // eight have what one has
			}
			for _, drafts := range []int{0, 4} {
				t.Run(fmt.Sprintf("%s/batch=%d/drafts=%d", f.arch, batch, drafts), func(t *testing.T) {
					s := newStepper(t, f, Options{
						Speculate: true, Scheduler: scheduler.Config{MaxDrafts: drafts, LookupMin: 1, ITLTarget: time.Second},
						OnStep: func(StepStats) {},
					})
					for i := range batch {
						r := greedy(repetitive(uint64(i), 10+i), 230)
						if i%2 == 1 {
							r.Sampling.Temperature, r.Sampling.TopP = 1, 0.9
						}
						if i%4 == 2 {
							r.Sampling.AllowedTokens, r.Sampling.BadWords = []int32{2, 5, 7, 8, 30}, [][]int32{{2}, {5, 7}, {8, 8, 8}}
						}
						s.submit(t, r)
					}
					for range 6 {
						s.turn()
					}
					// The best of three counts: the runtime allocates too, now and then,
					// and buffers still grow with the longest drafts so far; where drafts are accepted, each sequence's list of blocks may grow.
					least := math.Inf(1)
					for range 3 {
						least = min(least, testing.AllocsPerRun(1, func() {
							for range 6 {
								s.turn()
							}
						}))
					}
					most := 0.0
					if drafts > 0 {
						most = float64(drafts + batch*len(s.model.cacheShape.Tables))
					}
					if least > most {
						t.Errorf("%v allocations in 6 steps", least)
					}
					if n := s.sched.Stats().Running; n != batch {
						t.Errorf("%d of %d outputs still ran at the end", n, batch)
					}
				})
			}
		}
	}
}

// A prompt that was computed before costs the rows of its tail and nothing
// else.
func TestRepeatedPrefixComputesTheTailOnly(t *testing.T) {
	const shared, tail = 200, 9
	s := newStepper(t, families[0], Options{})
	rows := func(p []int32) uint64 {
		before := s.sched.Stats().Rows
		s.submit(t, greedy(p, 1))
		for s.turn() {
		}
		return s.sched.Stats().Rows - before
	}
	prefix := prompt(1, shared)
	if n := rows(prefix); n != shared {
		t.Errorf("the first request computed %d rows, want %d", n, shared)
	}
	for i := range uint64(3) {
		// Only whole blocks of 16 of the prefix and a copied part of one count.
		whole := shared / 16 * 16
		if n, most := rows(slices.Concat(prefix, prompt(10+i, tail))), shared+tail-whole; int(n) > most || n < tail {
			t.Errorf("request %d computed %d rows, want %d to %d", i, n, tail, most)
		}
	}
	if n := rows(prefix); n > shared%16+1 {
		t.Errorf("the same prompt again computed %d rows, want %d at most", n, shared%16+1)
	}
	if hit := s.pool.Stats().HitTokens; hit < 4*192 {
		t.Errorf("%d tokens were found in the cache", hit)
	}
}

// BenchmarkSubmitOnAHit is what a request of 2000 cached tokens costs beside
// the forward pass: submit, look-up, plan, and the cancel that ends it.
func BenchmarkSubmitOnAHit(b *testing.B) {
	long := families[0]
	long.context = 4096
	s := newStepper(b, long, Options{})
	p := prompt(3, 2000)
	s.submit(b, greedy(p, 1))
	for s.turn() {
	}
	cached := s.pool.Stats().HitTokens
	b.ReportAllocs()
	for b.Loop() {
		s.streams = s.streams[:0]
		s.submit(b, greedy(p, 1))
		s.loop.readInbox()
		if !s.sched.Plan(0, &s.loop.plan) || s.loop.plan.Rows > 16 {
			b.Fatalf("%d rows planned", s.loop.plan.Rows)
		}
		s.sched.Abandon(0)
		s.streams[0].Cancel(-1)
		s.loop.readInbox()
	}
	if hit := s.pool.Stats().HitTokens - cached; hit < 1900*uint64(b.N) {
		b.Errorf("%d tokens were found in the cache", hit)
	}
}
