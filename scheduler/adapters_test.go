package scheduler

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"weir/internal/reference"
	"weir/kvcache"
)

// adapterVersion is the file of an adapter: what a row holds depends on it. 0 is the model alone.
type adapterVersion uint64

// simulatedAdapters are the LoRA adapters of a world, by name: which file each stands for now. Requests that run keep theirs.
type simulatedAdapters struct {
	now      [3]adapterVersion // 0: not loaded
	made     adapterVersion
	changes  int
	outlived int // requests whose adapter was unloaded or replaced before they ended
}

// change loads a new file in place of an adapter's, unloads it, or loads one that another name has.
func (a *simulatedAdapters) change(src *source) {
	a.changes++
	name := src.below(len(a.now))
	switch src.below(4) {
	case 0:
		a.now[name] = 0
	case 1:
		a.now[name] = a.now[src.below(len(a.now))]
	default:
		a.made++
		a.now[name] = a.made
	}
}

// choose gives a request an adapter that is loaded, or none, and the domain of its prefixes.
func (a *simulatedAdapters) choose(w *world, src *source, r *Request) adapterVersion {
	if a == nil {
		return 0
	}
	version := append([]adapterVersion{0}, a.now[:]...)[src.below(1+len(a.now))]
	if version == 0 {
		return 0
	}
	field := kvcache.Field{Key: "adapter", Value: binary.LittleEndian.AppendUint64(nil, uint64(version))}
	if r.Tenant == "t2" {
		r.Domain = w.pool.FineDomain(r.Tenant, field)
	} else {
		r.Domain = w.pool.Domain(r.Tenant, field)
	}
	if r.Chain != nil {
		r.Chain = r.Domain.Chain(nil, r.Prompt, w.pool.ShapeOf(r.Domain).BlockTokens())
	}
	return version
}

// note counts an end.
func (a *simulatedAdapters) note(j *job) {
	if j.adapter != 0 && !slices.Contains(a.now[:], j.adapter) {
		a.outlived++
	}
}

// chunkOrder is the order in which an engine computes a plan's chunks: those of an adapter are neighbours.
func (w *world) chunkOrder() []int {
	order := make([]int, len(w.plan.Chunks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Compare(w.jobs[w.plan.Chunks[x].Request].adapter, w.jobs[w.plan.Chunks[y].Request].adapter)
	})
	return order
}

// partWorlds are the worlds of a subtest: make test-long runs 17 of them, and -run one by its first world.
const partWorlds = 10_000

// Worlds with adapters that are loaded, replaced and unloaded while requests run, beside states, drafts and late samples: CheckInvariants
// holds after every call, no chunk finds rows or a state of another adapter or of the model alone, and at the end no slot and no
// block is held. A long run makes more than 10^7 steps in worlds that have all of these:
//
//	WEIR_TEST_LONG=1 go test ./scheduler -run TestAdaptersKeepTheInvariants -v -timeout 60m
func TestAdaptersKeepTheInvariants(t *testing.T) {
	worlds := reference.Repeats(60, 300, 17*partWorlds)
	var all adapterTally
	for first := 0; first < worlds; first += partWorlds {
		t.Run(fmt.Sprintf("from=%d", first), func(t *testing.T) {
			var part adapterTally
			for seed := first; seed < min(first+partWorlds, worlds); seed++ {
				part.add(adaptersWorld(t, uint64(seed)))
			}
			t.Log(part)
			if part.all == 0 || part.hits == 0 || part.preemptions == 0 || part.drafts == 0 || part.late == 0 || part.cancelled == 0 || part.outlived == 0 {
				t.Error("nothing was found, preempted, drafted, late, cancelled or outlived its adapter, or no world had all")
			}
			all.add(part)
		})
	}
	t.Log(all)
}

// adapterTally is what happened in worlds with adapters.
type adapterTally struct {
	steps, all                                 int // all: of worlds with states, adapters and drafts
	hits, preemptions, drafts, late, cancelled uint64
	changes, outlived                          int
}

func (n *adapterTally) add(o adapterTally) {
	n.steps, n.all, n.changes, n.outlived = n.steps+o.steps, n.all+o.all, n.changes+o.changes, n.outlived+o.outlived
	n.hits, n.preemptions, n.drafts = n.hits+o.hits, n.preemptions+o.preemptions, n.drafts+o.drafts
	n.late, n.cancelled = n.late+o.late, n.cancelled+o.cancelled
}

func (n adapterTally) String() string {
	return fmt.Sprintf("%d steps, %d of them in worlds with states, adapters and drafts; %d cached tokens, %d preemptions, %d drafts, %d late, %d cancelled; "+
		"%d changes of adapters, %d requests outlived theirs", n.steps, n.all, n.hits, n.preemptions, n.drafts, n.late, n.cancelled, n.changes, n.outlived)
}

// adaptersWorld lives through one world.
func adaptersWorld(t *testing.T, seed uint64) adapterTally {
	src := seeded(90_000 + seed)
	cfg, pool := randomConfigs(src)
	whole := seed >= 1000 // has all of it, or nearly so
	if seed%3 > 0 || whole {
		pool.States, pool.StateInterval = 2+src.below(3*cfg.MaxSeqs+12), src.below(3)*pool.BlockTokens*4
	}
	if seed%4 == 1 || seed%4 == 3 && whole {
		cfg.Proposer, cfg.EveryDraft = newCoin(seed), seed%8 == 1
	}
	w := newWorld(t, cfg, pool)
	w.vocabulary, w.adapters = 2, &simulatedAdapters{}
	w.onEnd = func(e End) { w.adapters.note(w.jobs[e.Request]) }
	w.randomStops(seed)
	if seed%2 == 0 {
		w.lates = func() bool { return src.oneIn(9) }
	}
	if seed%5 == 0 {
		w.foresee = func() (int, bool) { return src.below(4), src.oneIn(2) }
	}
	for range 200 {
		if src.oneIn(12) {
			w.adapters.change(src)
		}
		w.act(src)
	}
	w.unpin()
	w.drain(20000)
	if st := w.pool.Stats(); st.StatesFree+st.Checkpoints != st.States {
		t.Fatalf("world %d: of %d slots %d are free and %d checkpoints after the end", seed, st.States, st.StatesFree, st.Checkpoints)
	}
	st := w.sched.Stats()
	n := adapterTally{
		steps: w.steps, hits: st.CachedTokens, preemptions: st.Preemptions, drafts: st.DraftTokens, late: st.Late, cancelled: st.Cancelled,
		changes: w.adapters.changes, outlived: w.adapters.outlived,
	}
	if pool.States > 0 && st.DraftTokens > 0 && w.adapters.changes > 0 {
		n.all = w.steps
	}
	return n
}
