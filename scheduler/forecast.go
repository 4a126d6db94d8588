package scheduler

import (
	"cmp"
	"slices"

	"weir/kvcache"
	"weir/scheduler/outputlen"
)

// forecast is what the running and paused sequences are expected to need of the blocks until they end.
type forecast struct {
	cfg         *Config
	pool        *kvcache.Pool
	lengths     *outputlen.Lengths
	sequences   *sequences
	blockTokens int

	probe     kvcache.Table // asks the pool what a candidate would take
	growth    []growth      // of running and paused sequences, longest remaining first
	stale     bool          // growth is listed again before it is used
	fairShare *tenantShare  // the tenants of its class are expected to grow up to their share of the blocks only; nil: of none
	slacks    []int         // [blockTokens] scratch of demand
	windows   windowGrowth  // scratch of demand
}

// growth is what a choice is expected to take yet.
type growth struct {
	left    int // rows beyond those its table covers; of fine domains each counts as many as it takes the room of
	slack   int // rows that still fit into its last block, counted alike
	private int // blocks that it frees when it ends
	copies  int // blocks that it takes at once: at its fork for its own copy of the tail, for the windows of a prompt
	windows int // blocks that it takes at most of groups with a window while it grows
	most    int // the same of a fork: what it shares will be passed
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
	spare := f.peak(c) + f.cfg.WatermarkBlocks + c.req.shape.Ahead(len(c.ids), c.hit)
	need, ok := f.pool.CanGrowBeside(t, len(c.ids), c.hit, spare)
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
	s, left := c.req.shape, f.left(c.req, c.produced)
	rows, times := s.BlockTokens(), f.times(s)
	own := growth{
		left:    left * times,
		slack:   (blocksFor(len(c.ids), rows)*rows - len(c.ids)) * times,
		private: s.DecodeNeed(len(c.ids)) - c.hit.Full*s.EndlessPages(),
		windows: s.OfWindows(len(c.ids)+left) - s.OfWindows(len(c.ids)),
		most:    s.MostOfWindows(),
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
	most, pages := 0, f.pool.EndlessPages()
	f.windows.reset()
	for i, g := range f.growth {
		held -= g.private
		slacks[g.slack]++
		whole, rest := g.left/f.blockTokens, g.left%f.blockTokens
		need := (i + 1) * whole
		for _, n := range slacks[:rest] {
			need += n // these cross one border more
		}
		most = max(most, need*pages+f.windows.until(blocksFor(g.left, f.blockTokens), g.windows)-held)
	}
	return most
}

// times is how many ordinary rows a row has the room of.
func (f *forecast) times(s *kvcache.Shape) int { return f.blockTokens / s.BlockTokens() }

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
				f.growth = append(f.growth, f.forkGrowth(g, i))
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
	s, left := q.req.shape, f.left(q.req, q.produced)
	times := f.times(s)
	if p := f.fairShare; p != nil && q.req.Class == p.key.class {
		left = min(left, q.req.share.room/times)
	}
	g := growth{
		left:    left * times,
		slack:   min(max(q.table.Capacity()-len(q.ids), 0), s.BlockTokens()-1) * times,
		private: q.private(),
	}
	if f.pool.Windowed() {
		g.windows, g.most = max(0, s.OfWindows(len(q.ids)+left)-s.OfWindows(len(q.ids))), s.MostOfWindows()
		if !q.decoding() {
			g.copies = max(0, s.Need(len(q.ids))-q.table.Held(0))
		}
	}
	return g
}

func (f *forecast) add(g growth, slots int) {
	for i := range slots {
		b := f.forkGrowth(g, i)
		at, _ := slices.BinarySearchFunc(f.growth, b, compareGrowth)
		f.growth = slices.Insert(f.growth, at, b)
	}
}

func (f *forecast) remove(g growth, slots int) {
	for i := range slots {
		if at, ok := slices.BinarySearchFunc(f.growth, f.forkGrowth(g, i), compareGrowth); ok {
			f.growth = slices.Delete(f.growth, at, at+1)
		}
	}
}

// fitsNow reports whether a candidate fits, without the tables that the pool is told to leave out and the growth of those
// that is not expected any more.
func (f *forecast) fitsNow(c *candidate) bool {
	return c.req.shape.Need(len(c.ids))+f.expected(c)+f.cfg.WatermarkBlocks <= f.pool.FreeFor(c.req.Domain)
}

// forkGrowth is the growth of choice i of a sequence that will be forked.
func (f *forecast) forkGrowth(g growth, i int) growth {
	if i > 0 {
		g.private = 0
		g.copies = 0
		if f.pool.Windowed() {
			g.windows = g.most
		}
		if g.slack > 0 && g.left > 0 {
			g.copies = f.pool.Groups()
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
	return cmp.Or(a.slack-b.slack, a.private-b.private, a.copies-b.copies, a.windows-b.windows, a.most-b.most)
}
