package scheduler

import (
	"cmp"
	"slices"
)

// growth is what a choice is expected to take yet.
type growth struct {
	left    int // rows beyond those its table covers
	slack   int // rows that still fit into its last block
	private int // blocks that it frees when it ends
	copies  int // blocks that it takes at its fork, for its own copy of the tail
}

// footprint says whether a candidate fits now, with the blocks that it and the
// running and paused sequences will need until the first of them end, and a watermark.
// When nothing runs its own blocks are enough: there is nobody to wait for.
func (s *Scheduler) footprint(c *candidate) verdict {
	t := &s.trial.probe
	s.pool.Begin(t, c.req.Domain)
	defer s.pool.Release(t)
	if len(s.running)+len(s.paused) == 0 {
		if !s.pool.CanGrowAlone(t, len(c.ids), c.hit) {
			return never
		}
		return fits
	}
	spare := s.peak(c) + s.watermark
	need, ok := s.pool.CanGrow(t, (s.blocksFor(len(c.ids))+spare)*s.blockTokens, c.hit)
	c.need = need
	if !ok {
		return crowded
	}
	return fits
}

// peak is how many blocks beyond those held now the running sequences and the
// candidate will need at once, if each runs to its estimated end: the largest
// demand is found at the moments at which one of them ends, when those with
// less left have ended and those with more have grown by as much as it did.
// (The estimate of LightLLM's scheduler, in blocks instead of tokens.)
func (s *Scheduler) peak(c *candidate) int {
	s.refresh()
	return s.expected(c)
}

// expected is the peak with the candidate beside the growths that are listed.
func (s *Scheduler) expected(c *candidate) int {
	blocks := s.blocksFor(len(c.ids))
	own := growth{
		left:    s.left(c.req, c.produced),
		slack:   blocks*s.blockTokens - len(c.ids),
		private: blocks - c.hit.Full,
	}
	s.expect(own, max(c.slots, 1))
	need := s.demand()
	s.unexpect(own, max(c.slots, 1))
	return need
}

// demand is the peak over the ends of all expected growths.
func (s *Scheduler) demand() int {
	slacks := s.trial.slacks
	clear(slacks)
	held := 0 // by all that will have ended, less what forks take at once
	for _, g := range s.trial.growth {
		held += g.private - g.copies
	}
	most := 0
	for i, g := range s.trial.growth {
		held -= g.private
		slacks[g.slack]++
		whole, rest := g.left/s.blockTokens, g.left%s.blockTokens
		need := (i + 1) * whole
		for _, n := range slacks[:rest] {
			need += n // these cross one border more
		}
		most = max(most, need-held)
	}
	return most
}

// refresh makes the list of expected growths anew after somebody left.
func (s *Scheduler) refresh() {
	a := &s.trial
	if !a.stale {
		return
	}
	a.growth = a.growth[:0]
	for _, list := range [2][]*sequence{s.running, s.paused} {
		for _, q := range list {
			g := s.growthOf(q)
			for i := range q.slots {
				a.growth = append(a.growth, s.branch(g, i))
			}
		}
	}
	slices.SortFunc(a.growth, longer)
	a.stale = false
}

// left is how many rows a choice is expected to need beyond its ids now.
func (s *Scheduler) left(r *request, produced int) int {
	if fixed := s.cfg.OutputEstimate; fixed > 0 {
		return max(0, min(r.limit, max(fixed, produced+fixed/4))-produced-1)
	}
	return max(0, s.lengths.Expected(r.answers, r.limit, produced)-produced-1)
}

// growthOf is the growth of a running sequence.
func (s *Scheduler) growthOf(q *sequence) growth {
	blocks, left := len(q.table.Blocks()), s.left(q.req, q.produced)
	if p := s.trial.fair; p != nil && q.req.Class == p.key.class {
		left = min(left, q.req.party.room)
	}
	return growth{
		left:    left,
		slack:   min(max(blocks*s.blockTokens-len(q.ids), 0), s.blockTokens-1),
		private: q.private(s.blockTokens),
	}
}

// branch is the growth of choice i of a sequence that will be forked.
func (s *Scheduler) branch(g growth, i int) growth {
	if i > 0 {
		g.private = 0
		if g.slack > 0 && g.left > 0 {
			g.copies = 1
		}
	}
	return g
}

func (s *Scheduler) expect(g growth, slots int) {
	for i := range slots {
		b := s.branch(g, i)
		at, _ := slices.BinarySearchFunc(s.trial.growth, b, longer)
		s.trial.growth = slices.Insert(s.trial.growth, at, b)
	}
}

func (s *Scheduler) unexpect(g growth, slots int) {
	for i := range slots {
		if at, ok := slices.BinarySearchFunc(s.trial.growth, s.branch(g, i), longer); ok {
			s.trial.growth = slices.Delete(s.trial.growth, at, at+1)
		}
	}
}

// longer sorts by remaining rows, most first. It compares every field, so that
// entries that are equal to it are interchangeable.
func longer(a, b growth) int {
	if a.left != b.left {
		return b.left - a.left // nearly always: sorting asks this most
	}
	return cmp.Or(a.slack-b.slack, a.private-b.private, a.copies-b.copies)
}
