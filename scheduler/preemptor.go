package scheduler

import (
	"slices"

	"weir/internal/inference"
	"weir/kvcache"
)

// preemptor chooses which sequences give their blocks to others.
type preemptor struct {
	cfg       *Config
	pool      *kvcache.Pool
	sequences *sequences
	shares    *tenantShares
	step      *step
	forecast  *forecast
	allocator *allocator
	endings   *endings

	victims []*sequence // scratch of reclaim
}

// A sequence of which many rows were computed again runs on for a token for each rowsPerToken of them before others get its
// tenant's share of the blocks again, up to longestRun minimal runs: otherwise most of the time of two tenants that do not fit into the
// cache together would be spent on what both have computed already.
const (
	rowsPerToken = 8
	longestRun   = 16
)

// cover gets the blocks for the next row of running[i], at the cost of
// sequences behind it. When none may be displaced the sequence gives way
// itself, or, after its fair number of preemptions, waits a step; in its minimal run it takes
// what is protected of others before it gives way. The first of
// all gives way only to tenants within their share of the blocks: if it lacks
// blocks when it is alone, it fails.
func (pr *preemptor) cover(i int) bool {
	q := pr.sequences.running[i]
	for !pr.allocator.grow(q) {
		if v := pr.victim(i); v != nil {
			pr.allocator.preempt(v, inference.GaveOlder)
			continue
		}
		switch {
		case len(pr.sequences.running)+len(pr.sequences.paused) == 1:
			pr.endings.failForBlocks(q)
		case q.runTokens < pr.minimalRun(q) && pr.allocator.allot(q, kvcache.Hit{}, true):
			return true
		case i == 0 || q.preemptions < pr.cfg.PreemptLimit:
			pr.allocator.preempt(q, inference.GaveItself)
		default:
			pr.step.pressed = true
		}
		return false
	}
	return true
}

// victim chooses which sequence gives way to running[i]: a paused one of its
// class or below, or a running one behind it; of the lowest class, then one that
// has had its minimal run, then the one that loses least work, then the youngest.
// A sequence that was preempted PreemptLimit times gives way only to the first
// of all or to a higher class. Within a class a tenant above its share of the
// blocks takes none from one that is within its own.
func (pr *preemptor) victim(i int) *sequence {
	if c := pr.sequences.running[i].req.Class; pr.shares.contested(c) {
		pr.shares.countBlocks(c, pr.sequences.paused, pr.sequences.running)
	}
	if v := pr.pickVictim(i, pr.sequences.paused); v != nil {
		return v
	}
	return pr.pickVictim(i, pr.sequences.running[i+1:])
}

// pickVictim is the sequence of a list that gives way to running[i] first.
func (pr *preemptor) pickVictim(i int, list []*sequence) *sequence {
	q := pr.sequences.running[i]
	var worst *sequence
	for _, v := range list {
		if v.req.Class < q.req.Class || v.preemptions >= pr.cfg.PreemptLimit && i > 0 && v.req.Class == q.req.Class || pr.isSpared(v, q) {
			continue
		}
		if worst == nil || pr.comparePreemption(v, worst) <= 0 {
			worst = v
		}
	}
	return worst
}

// isSpared reports whether a sequence keeps its blocks although another one lacks some: its tenant is within its share of
// them, and the other's is not. Blocks were counted for their class.
func (pr *preemptor) isSpared(v, q *sequence) bool {
	a, b := v.req.share, q.req.share
	return a != b && v.req.Class == q.req.Class && pr.shares.withinShare(a, a.blocks) && !pr.shares.withinShare(b, b.blocks+1)
}

// comparePreemption orders sequences by which is preempted first: negative if a is.
func (pr *preemptor) comparePreemption(a, b *sequence) int {
	if a.req.Class != b.req.Class {
		return int(b.req.Class) - int(a.req.Class)
	}
	if x, y := pr.protection(a), pr.protection(b); x != y {
		return x - y
	}
	if x, y := a.computed-a.shared, b.computed-b.shared; x != y {
		return x - y
	}
	return compare(b, a)
}

// protection grades how much a sequence has suffered already.
func (pr *preemptor) protection(q *sequence) int {
	switch {
	case q.preemptions >= pr.cfg.PreemptLimit:
		return 2
	case q.runTokens < pr.cfg.MinRunTokens:
		return 1
	}
	return 0
}

// reclaim preempts sequences that have to give their blocks to a candidate: of
// lower classes, and of tenants above their share of the pool if the candidate's
// stays within its own. Then they are not expected to grow beyond it either.
// None is preempted if all of them together would not be enough.
func (pr *preemptor) reclaim(c *candidate) bool {
	pr.victims = pr.victims[:0]
	fair := pr.countBlocksFor(c)
	if fair {
		pr.forecast.fairShare, pr.forecast.stale = c.req.share, true
		pr.allocator.match(c)
		pr.forecast.refresh()
		if pr.forecast.fitsNow(c) {
			c.req.lacking = 0
			return true
		}
	}
	for _, list := range [2][]*sequence{pr.sequences.paused, pr.sequences.running} {
		for _, v := range list {
			if pr.mustGiveBlocks(c.req, v, fair) {
				pr.victims = append(pr.victims, v)
			}
		}
	}
	if len(pr.victims) == 0 {
		return false
	}
	slices.SortFunc(pr.victims, pr.compareGiving)
	n, enough := pr.enoughVictims(c)
	if !enough {
		return false
	}
	for _, v := range pr.victims[:n] {
		pr.allocator.preempt(v, gaveTo(c.req, v))
	}
	pr.forecast.stale = true
	c.req.lacking = 0
	return true
}

// gaveTo says for what a sequence gives its blocks or its slot to a request.
func gaveTo(r *request, v *sequence) inference.Gave {
	switch {
	case v.req.Class > r.Class:
		return inference.GaveClass
	case v.req.Class < r.Class:
		return inference.GaveGuarantee
	}
	return inference.GaveTenant
}

// compareGiving orders sequences by which gives its blocks to a candidate first: the first running one is the last.
func (pr *preemptor) compareGiving(a, b *sequence) int {
	if x, y := pr.isFirst(a), pr.isFirst(b); x != y {
		if x {
			return 1
		}
		return -1
	}
	return pr.comparePreemption(a, b)
}

// mustGiveBlocks reports whether a sequence has to give its blocks to a request: before its first token or after its minimal run. To
// a higher class it gives them no more often than its limit. What its tenant has above its share it gives again after each
// minimal run, since others would wait for the end of its answer; only its prompt is then computed to the end.
func (pr *preemptor) mustGiveBlocks(r *request, v *sequence, fair bool) bool {
	limited, begun := v.preemptions >= pr.cfg.PreemptLimit, v.produced > 0
	switch {
	case v.startedIn == pr.step.plans:
		return false
	case v.req.Class > r.Class:
		return !limited && (!begun || v.runTokens >= pr.cfg.MinRunTokens)
	case !fair || v.req.Class != r.Class || v.req.share == r.share:
		return false
	}
	return begun && v.runTokens >= pr.minimalRun(v) || !begun && !limited
}

// minimalRun is how many tokens a sequence produces before others get its tenant's share of the blocks.
func (pr *preemptor) minimalRun(q *sequence) int {
	return max(pr.cfg.MinRunTokens, min(q.recomputed/rowsPerToken, longestRun*pr.cfg.MinRunTokens))
}

// isFirst reports whether a sequence is the first of the running ones, now or
// when the plan began. Whatever else happens, it advances.
func (pr *preemptor) isFirst(q *sequence) bool {
	return q == pr.step.first || len(pr.sequences.running) > 0 && q == pr.sequences.running[0]
}

// countBlocksFor counts the blocks of the tenants of a candidate's class, and
// reports whether the candidate's would stay within its share of the pool.
func (pr *preemptor) countBlocksFor(c *candidate) (within bool) {
	if !pr.shares.contested(c.req.Class) {
		return false
	}
	pr.shares.countBlocks(c.req.Class, pr.sequences.paused, pr.sequences.running)
	return pr.shares.withinShare(c.req.share, c.req.share.blocks+c.req.shape.Need(len(c.ids)))
}

// enoughVictims is how many of the victims, in order, must release their blocks for
// a candidate to fit. Tenants give up what is above their share; those that are
// within it are passed over.
func (pr *preemptor) enoughVictims(c *candidate) (n int, enough bool) {
	pr.allocator.match(c)
	pr.forecast.refresh()
	defer pr.pool.WithAll()
	for _, v := range pr.victims {
		if pr.forecast.fitsNow(c) {
			break
		}
		p := v.req.share
		if v.req.Class == c.req.Class && pr.shares.withinShare(p, p.blocks) {
			continue
		}
		p.blocks -= v.held()
		pr.pool.Without(&v.table)
		pr.forecast.remove(pr.forecast.growthOf(v), v.slots)
		pr.victims[n] = v
		n++
	}
	enough = pr.forecast.fitsNow(c)
	pr.forecast.stale = true // the growth of those that stay was taken out as well
	return n, enough
}
