package llm

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/scheduler"
)

// Requests that are cancelled at every stage (queued, prefilling, decoding,
// after the end, twice) leave no block, no sequence and no goroutine behind.
func TestRandomCancelsLeakNothing(t *testing.T) {
	requests := 2000
	if testing.Short() {
		requests = 200
	}
	before := runtime.NumGoroutine()
	e := start(t, families[1], Options{BlockTokens: 16, KVBlocks: 30, MaxModelLen: 200,
		Scheduler: scheduler.Config{MaxSeqs: 12, MaxBatchTokens: 48, PrefillChunk: 16, OutputEstimate: 4, MaxWaiting: 4096}})
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 11))
			for range requests / 16 {
				oneRandomRequest(t, e, r)
			}
		})
	}
	wg.Wait()
	s := e.Stats()
	for deadline := time.Now().Add(patience); s.Scheduler.Live > 0 && time.Now().Before(deadline); s = e.Stats() {
		time.Sleep(time.Millisecond) // a stream ends a moment before the step's statistics are published
	}
	if s.Cache.Referenced != 0 || s.Scheduler.Running+s.Scheduler.Waiting+s.Scheduler.Resuming != 0 {
		t.Errorf("left behind: %+v", s)
	}
	t.Logf("%d requests: %d cancelled, %d finished, %d preemptions, %d cached tokens; blocks in use %d",
		s.Scheduler.Submitted, s.Scheduler.Cancelled, s.Scheduler.Length, s.Scheduler.Preemptions, s.Scheduler.CachedTokens, s.Cache.Referenced)
	if s.Scheduler.Cancelled == 0 || s.Scheduler.Length == 0 {
		t.Error("the mix did not contain both cancelled and finished requests")
	}
	stop(t, e)
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

func oneRandomRequest(t *testing.T, e *Engine, r *rand.Rand) {
	p := append(prompt(uint64(r.IntN(3)), r.IntN(60)), prompt(r.Uint64(), 1+r.IntN(30))...)
	req := greedy(p, 1+r.IntN(40))
	req.N = 1 + r.IntN(3)*r.IntN(2)
	s, err := e.Submit(req)
	if err != nil {
		t.Error(err)
		return
	}
	choice := func() int { return r.IntN(req.N+1) - 1 }
	switch r.IntN(4) {
	case 0: // at once
		s.Cancel(-1)
	case 1: // somewhere on the way
		time.Sleep(time.Duration(r.IntN(20000)) * time.Microsecond)
		s.Cancel(choice())
		s.Cancel(-1)
	case 2: // after some tokens
		buf := make([]inference.Event, 1+r.IntN(5))
		<-s.Wake()
		if _, done, err := s.Poll(buf); done {
			if err != nil {
				t.Error(err)
			}
			return
		}
		s.Cancel(choice())
	}
	if a := read(t, s); a.err != nil && !errors.Is(a.err, inference.ErrCancelled) {
		t.Error(a.err)
	}
	if r.IntN(8) == 0 {
		s.Cancel(-1) // after the end
	}
}
