package scheduler

import (
	"cmp"
	"slices"

	"weir/kvcache"
	"weir/scheduler/answer"
)

// forecast is what the running and paused sequences are expected to need of the blocks until they end.
type forecast struct {
	cfg         *Config
	pool        *kvcache.Pool
	lengths     *answer.Lengths
	sequences   *sequences
	blockTokens int

	probe     kvcache.Table // asks the pool what a candidate would take
	growth    []growth      // of running and paused sequences, longest remaining first
	stale     bool          // growth is listed again before it is used
	fairShare *tenantShare  // the tenants of its class are expected to grow up to their share of the blocks only; nil: of none
	slacks    []int         // [blockTokens] scratch of demand
}

// growth is what a choice is expected to take yet.
type growth struct {
	left    int // rows beyond those its table covers
	slack   int // rows that still fit into its last block
	private int // blocks that it frees when it ends
	copies  int // blocks that it takes at its fork, for its own copy of the tail
}

// footprint says whether a candidate fits now, with the blocks that it and the
// running and paused sequences will need until the first of them end, and a watermark.
// When nothing runs its own blocks are enough: no sequence would free more.
func (f *forecast) footprint(c *candidate) verdict {
	t := &f.probe
	f.pool.Begin(t, c.req.Domain)
	defer f.pool.Release(t)
	if len(f.sequences.running)+len(f.sequences.paused) == 0 {
		if !f.pool.CanGrowAlone(t, len(c.ids), c.hit) {
			return neverFits
		}
		return fits
	}
	spare := f.peak(c) + f.cfg.WatermarkBlocks
	need, ok := f.pool.CanGrow(t, (blocksFor(len(c.ids), f.blockTokens)+spare)*f.blockTokens, c.hit)
	c.need = need
	if !ok {
		return lacksRoom
	}
	return fits
}

// peak is how many blocks beyond those held now the running sequences and the
// candidate will need at once, if each runs to its estimated end: the largest
// demand is found at the moments at which one of them ends, when those with
// less left have ended and those with more have grown by as much as it did.
// (The estimate of LightLLM's scheduler, in blocks instead of tokens.)
func (f *forecast) peak(c *candidate) int {
	f.refresh()
	return f.expected(c)
}

// expected is the peak with the candidate beside the growths that are listed.
func (f *forecast) expected(c *candidate) int {
	blocks := blocksFor(len(c.ids), f.blockTokens)
	own := growth{
		left:    f.left(c.req, c.produced),
		slack:   blocks*f.blockTokens - len(c.ids),
		private: blocks - c.hit.Full,
	}
	f.add(own, max(c.slots, 1))
	need := f.demand()
	f.remove(own, max(c.slots, 1))
	return need
}

// demand is the peak over the ends of all expected growths.
func (f *forecast) demand() int {
	slacks := f.slacks
	clear(slacks)
	held := 0 // by all that will have ended, less what forks take at once
	for _, g := range f.growth {
		held += g.private - g.copies
	}
	most := 0
	for i, g := range f.growth {
		held -= g.private
		slacks[g.slack]++
		whole, rest := g.left/f.blockTokens, g.left%f.blockTokens
		need := (i + 1) * whole
		for _, n := range slacks[:rest] {
			need += n // these cross one border more
		}
		most = max(most, need-held)
	}
	return most
}

// refresh lists the expected growths again after a sequence left.
func (f *forecast) refresh() {
	if !f.stale {
		return
	}
	f.growth = f.growth[:0]
	for _, list := range [2][]*sequence{f.sequences.running, f.sequences.paused} {
		for _, q := range list {
			g := f.growthOf(q)
			for i := range q.slots {
				f.growth = append(f.growth, forkGrowth(g, i))
			}
		}
	}
	slices.SortFunc(f.growth, compareGrowth)
	f.stale = false
}

// left is how many rows a choice is expected to need beyond its ids now.
func (f *forecast) left(r *request, produced int) int {
	if fixed := f.cfg.OutputEstimate; fixed > 0 {
		return max(0, min(r.limit, max(fixed, produced+fixed/4))-produced-1)
	}
	return max(0, f.lengths.Expected(r.answers, r.limit, produced)-produced-1)
}

// growthOf is the growth of a running sequence.
func (f *forecast) growthOf(q *sequence) growth {
	blocks, left := len(q.table.Blocks(0)), f.left(q.req, q.produced)
	if p := f.fairShare; p != nil && q.req.Class == p.key.class {
		left = min(left, q.req.share.room)
	}
	return growth{
		left:    left,
		slack:   min(max(blocks*f.blockTokens-len(q.ids), 0), f.blockTokens-1),
		private: q.private(f.blockTokens),
	}
}

func (f *forecast) add(g growth, slots int) {
	for i := range slots {
		b := forkGrowth(g, i)
		at, _ := slices.BinarySearchFunc(f.growth, b, compareGrowth)
		f.growth = slices.Insert(f.growth, at, b)
	}
}

func (f *forecast) remove(g growth, slots int) {
	for i := range slots {
		if at, ok := slices.BinarySearchFunc(f.growth, forkGrowth(g, i), compareGrowth); ok {
			f.growth = slices.Delete(f.growth, at, at+1)
		}
	}
}

// fitsNow reports whether a candidate fits, without the tables that the pool is told to leave out and the growth of those
// that is not expected any more.
func (f *forecast) fitsNow(c *candidate) bool {
	return blocksFor(len(c.ids), f.blockTokens)+f.expected(c)+f.cfg.WatermarkBlocks <= f.pool.FreeFor(c.req.Domain)
}

// forkGrowth is the growth of choice i of a sequence that will be forked.
func forkGrowth(g growth, i int) growth {
	if i > 0 {
		g.private = 0
		if g.slack > 0 && g.left > 0 {
			g.copies = 1
		}
	}
	return g
}

// compareGrowth sorts by remaining rows, most first. It compares every field, so that
// entries that are equal to it are interchangeable.
func compareGrowth(a, b growth) int {
	if a.left != b.left {
		return b.left - a.left // nearly always: sorting asks this most
	}
	return cmp.Or(a.slack-b.slack, a.private-b.private, a.copies-b.copies)
}
