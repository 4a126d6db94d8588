package scheduler

import "weir/scheduler/admission"

// Requests whose prompts begin with what is in the prefix cache may go before older ones of
// their tenant, a few turns in a row, so that requests with one prefix run while it is
// cached instead of each computing it anew (deficit longest prefix match, arXiv 2501.14312). The
// admission queue bounds it by turns; tenants and classes keep their order.
const (
	maxRivals = 32 // requests behind the one whose turn it is that are looked at
	minGain   = 64 // prompt rows that another one must save more than it
)

// prefer puts a younger request of the same tenant into c, and gives it the turn, if it
// fits and more of its prompt is cached.
func (s *Scheduler) prefer(c *candidate) {
	if len(c.ids)-c.hit.Tokens <= minGain || c.req.overtaken >= s.cfg.OvertakeLimit {
		return
	}
	if cap(s.trial.rivals) == 0 {
		s.trial.rivals = make([]admission.Rival, 0, maxRivals)
	}
	best, at := candidate{}, admission.Ticket(0)
	for _, rival := range s.waiting.Rivals(s.trial.rivals[:0]) {
		r := s.requests.find(ID(rival.Ref))
		o := candidate{req: r, ids: r.Prompt, most: r.live}
		if s.match(&o); o.hit.Tokens >= max(c.hit.Tokens+minGain, best.hit.Tokens+1) {
			best, at = o, rival.Ticket
		}
	}
	if best.req == nil || s.judge(&best) != fits {
		return
	}
	s.waiting.Prefer(at)
	s.trial.passed = append(s.trial.passed, c.req)
	*c = best
}
