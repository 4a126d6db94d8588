package scheduler

import (
	"testing"

	"weir/internal/reference"
)

// Worlds of models with states: CheckInvariants holds after every call, every chunk reads the state of its own rows, drafts that do not come
// true and late samples included, and all requests end.
func TestStatesKeepTheInvariants(t *testing.T) {
	worlds := reference.Repeats(60, 400, 20_000)
	steps, hits, preemptions, drafts, late := 0, uint64(0), uint64(0), uint64(0), uint64(0)
	for seed := range uint64(worlds) {
		src := seeded(50_000 + seed)
		cfg, pool := randomConfigs(src)
		pool.States, pool.StateInterval = 2+src.below(3*cfg.MaxSeqs+12), src.below(3)*pool.BlockTokens*4
		if seed%4 == 1 {
			cfg.Proposer, cfg.EveryDraft = newCoin(seed), seed%8 == 1
		}
		w := newWorld(t, cfg, pool)
		w.vocabulary = 2
		w.randomStops(seed)
		if seed%2 == 0 {
			w.lates = func() bool { return src.oneIn(9) }
		}
		if seed%3 == 0 {
			w.foresee = func() (int, bool) { return src.below(4), src.oneIn(2) }
		}
		for range 200 {
			w.act(src)
		}
		w.unpin()
		w.drain(20000)
		if st := w.pool.Stats(); st.StatesFree+st.Checkpoints != st.States {
			t.Fatalf("world %d: of %d slots %d are free and %d checkpoints after the end", seed, st.States, st.StatesFree, st.Checkpoints)
		}
		st := w.sched.Stats()
		steps, hits, preemptions, drafts, late = steps+w.steps, hits+st.CachedTokens, preemptions+st.Preemptions, drafts+st.DraftTokens, late+st.Late
	}
	t.Logf("%d steps, %d cached tokens, %d preemptions, %d drafts, %d late", steps, hits, preemptions, drafts, late)
	if hits == 0 || preemptions == 0 || drafts == 0 || late == 0 {
		t.Error("nothing was found, preempted, drafted or late")
	}
}
