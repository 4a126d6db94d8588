package scheduler

import (
	"testing"

	"weir/internal/inference"
	"weir/kvcache"
)

// gemma3 is a pool for layers like Gemma 3's: a group of four that see all, six of as many that see 512 positions.
func gemma3(blocks int) kvcache.Config {
	return kvcache.Config{Blocks: blocks, BlockTokens: 16, Windows: []int{0, 512, 512, 512, 512, 512, 512}, StepRows: 512}
}

// A sequence of 32k tokens takes no more than a tenth above the rows that its layers see: a page per 16 rows for those that see all,
// and 512 rows for each of the six other groups. Without groups it would be seven times as many.
func TestLongSequenceTakesWhatItsWindowsNeed(t *testing.T) {
	const prompt, output, block = 32_000, 300, 16
	most := 0
	w := newWorld(t, Config{MaxSeqs: 4, MaxBatchTokens: 512, MaxModelLen: 33_000, StepLimit: -1}, gemma3(4096))
	r := Request{Prompt: make([]inference.TokenID, prompt), MaxTokens: output, N: 1, User: new(int), Domain: w.pool.Domain("t")}
	for i := range r.Prompt {
		r.Prompt[i] = inference.TokenID(mix(uint64(i)) % 1000)
	}
	id, err := w.sched.Submit(0, r)
	if err != nil {
		t.Fatal(err)
	}
	var p Plan
	for now := int64(1); w.sched.Plan(now, &p); now++ {
		results := make([]Result, len(p.Chunks))
		for i, c := range p.Chunks {
			if results[i].Tokens = make([]inference.TokenID, c.Samples); c.Request != id {
				t.Fatal("there is one request")
			}
		}
		most = max(most, w.pool.Stats().Referenced)
		w.sched.Commit(now, results)
	}
	seen := (prompt+output+block-1)/block + 6*(512/block)
	if need := w.pool.Need(prompt + output); most > need || 10*most > 11*seen {
		t.Errorf("it took %d blocks, Need says %d, the rows that are seen fill %d", most, need, seen)
	}
	t.Logf("%d blocks, %.2f of what is seen", most, float64(most)/float64(seen))
	if st := w.sched.Stats(); st.Preemptions != 0 || st.Length != 1 {
		t.Errorf("%+v", st)
	}
}

// Worlds of several groups: CheckInvariants holds after every call, every row is read through its group's table, and all requests end.
func TestGroupsKeepTheInvariants(t *testing.T) {
	worlds := 400
	if testing.Short() {
		worlds = 40
	}
	steps, preemptions := 0, uint64(0)
	for seed := uint64(10_000); worlds > 0; seed++ {
		src := seeded(seed)
		w := randomWorld(t, src)
		if len(w.windows) == 0 {
			continue
		}
		worlds--
		w.randomStops(seed)
		for range 300 {
			w.act(src)
		}
		w.unpin()
		w.drain(20000)
		steps, preemptions = steps+w.steps, preemptions+w.sched.Stats().Preemptions
		if t.Failed() {
			t.Fatalf("in world %d, windows %v", seed, w.windows)
		}
	}
	if t.Logf("%d steps, %d preemptions", steps, preemptions); preemptions == 0 {
		t.Error("no sequence was preempted")
	}
}
