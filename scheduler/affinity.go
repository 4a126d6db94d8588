package scheduler

import "weir/scheduler/admission"

// Requests whose prompts begin with what is in the prefix cache may go before older ones of
// their tenant, a few turns in a row, so that requests with one prefix run while it is
// cached instead of each computing it again (deficit longest prefix match, arXiv 2501.14312). The
// admission queue bounds it by turns; tenants and classes keep their order.
const (
	maxRivals = 32 // requests behind the one whose turn it is that are looked at
	minGain   = 64 // prompt rows that another one must save more than it
)

// prefer puts a younger request of the same tenant into c, and gives it the turn, if it
// fits and more of its prompt is cached.
func (a *admitter) prefer(c *candidate) {
	if len(c.ids)-c.hit.Tokens <= minGain || c.req.overtaken >= a.cfg.OvertakeLimit {
		return
	}
	if cap(a.rivals) == 0 {
		a.rivals = make([]admission.Rival, 0, maxRivals)
	}
	best, at := candidate{}, admission.Ticket(0)
	for _, rival := range a.waiting.Rivals(a.rivals[:0]) {
		r := a.requests.find(ID(rival.Ref))
		o := candidate{req: r, ids: r.Prompt, most: r.live}
		if a.allocator.match(&o); o.hit.Tokens >= max(c.hit.Tokens+minGain, best.hit.Tokens+1) {
			best, at = o, rival.Ticket
		}
	}
	if best.req == nil || a.judge(&best) != fits {
		return
	}
	a.waiting.Prefer(at)
	a.passed = append(a.passed, c.req)
	*c = best
}
