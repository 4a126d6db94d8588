package scheduler

import (
	"math"
	"time"

	"weir/internal/inference"
	"weir/scheduler/cost"
)

// Who comes while another tenant's requests fill the steps waits for the end of a step and for the whole of the next one, of
// which its own rows are a small part. A short step computes the newcomer's rows and leaves out the other's: the first
// token is there after one and a half steps at most. No output is left out of two steps in a row.
const (
	crowding   = 4 // a tenant's rows are left out if it has so many times the newcomer's requests or slots, by weight, now and in the last recentTime
	shortShare = 2 // a short step takes this part of the longest ordinary one, at most
)

// passedOver is how many tenants whose turn is before a newcomer's are looked past, to see that it waits. Those that do not crowd it
// get their turn before it, the others after the short step.
const passedOver = 4

// shortStep says for whom the step in the making is short.
type shortStep struct {
	on    bool
	few   *request      // of a class and tenant
	limit time.Duration // that it may take
}

// size is how many requests a party has, or slots where those are more.
func (p *party) size() int { return max(p.live, p.slots) }

// crowds reports whether a party has many times what another one has with a slot more, and had lately: of tenants of one size none
// crowds the others while one of them is between two requests.
func (p *party) crowds(few *party) bool {
	return p.size()*few.weight >= crowding*max(few.live, few.slots+1, few.most)*p.weight
}

// leftOut reports whether the step in the making is a short one that an output has no part in.
func (s *Scheduler) leftOut(q *sequence) bool { return s.step.short.on && q.aside == s.plans }

// shorten makes the step a short one if a request waits whose tenant is crowded by another one, and an ordinary step
// would take longer by more than a further step costs.
func (s *Scheduler) shorten() {
	if s.waiting.Len() == 0 || s.plans == s.shortened+1 || !s.cost.Ready() {
		return
	}
	for c := range inference.Class(inference.NumClasses) {
		r := s.newcomerOf(c)
		if r == nil {
			continue
		}
		shortest := s.cost.Estimate(cost.Load{Rows: 1, Outputs: 1})
		outputs, kept, prompts := s.setAside(r)
		ordinary := s.cost.Estimate(outputs)
		limit := (ordinary + amortisesAmong*shortest) / shortShare
		if prompts || s.waiting.Len() > r.party.live {
			ordinary += amortisesAmong * shortest
		}
		if ordinary-s.cost.Estimate(kept) > 2*shortest {
			s.step.short = shortStep{on: true, few: r, limit: limit}
			return
		}
	}
}

// newcomerOf is the waiting request of a class whose turn is the next of those whose tenants are entitled to a slot and
// crowded by another one; nil if there is none.
func (s *Scheduler) newcomerOf(c inference.Class) *request {
	if !s.contested(c) || s.waiting.Waiting(c) == 0 {
		return nil
	}
	if q := s.firstResuming(c); q != nil && s.starves(q.req) {
		return nil
	}
	s.waiting.Scan(c, false)
	defer s.waiting.EndScan()
	for range 1 + passedOver {
		ref, _, ok := s.waiting.Next()
		if !ok {
			break
		}
		if r := s.requests.find(ID(ref)); s.entitled(r.party) && s.crowded(r.party) {
			return r
		}
		s.waiting.Pass()
	}
	return nil
}

// crowded reports whether a party's requests of its class or below run, or wait and could start beside the newcomer's,
// whose tenant crowds it.
func (s *Scheduler) crowded(few *party) bool {
	for c := few.key.class; c < inference.Class(inference.NumClasses); c++ {
		for _, p := range s.parties.active[c] {
			if p.crowds(few) {
				return true
			}
		}
	}
	return false
}

// setAside notes which outputs a short step for a request leaves out: never the first of all. It returns the load of all
// outputs and of those that take part, and whether prompts run.
func (s *Scheduler) setAside(r *request) (all, kept cost.Load, prompts bool) {
	for _, q := range s.running {
		switch {
		case q.late:
			continue
		case !q.decoding():
			prompts = true
			continue
		case q.req.Class >= r.Class && q.req.party.crowds(r.party) && !s.isFirst(q):
			q.aside = s.plans
		default:
			q.aside = 0
			kept = kept.Add(q.load(1))
		}
		all = all.Add(q.load(1))
	}
	return all, kept, prompts
}

// startAhead starts the requests of a short step, once the outputs that take part in it are planned. It reports whether
// a prompt will be finished by it; otherwise the step goes on as any other.
func (s *Scheduler) startAhead() bool {
	a := &s.step.short
	s.step.limit, s.step.least = a.limit, 0
	for r := a.few; r != nil && s.startUpTo(r); {
		r = s.newcomerOf(a.few.Class)
	}
	if s.step.finishes {
		s.shortened = s.plans
		return true
	}
	a.on = false
	s.step.limit, s.step.wanted = math.MaxInt64, 0
	return false
}

// startUpTo starts the waiting requests whose turn it is, up to one of them, as long as the step has time for all of their
// prompts. Those of tenants that crowd its own are passed over.
func (s *Scheduler) startUpTo(r *request) bool {
	for !r.started {
		if !s.startNext(r) {
			return false
		}
	}
	return true
}

// startNext starts the first waiting request whose turn it is, one of them at the latest, if the step has time for all of its prompt.
func (s *Scheduler) startNext(few *request) bool {
	if s.step.pressed || s.satisfied() {
		return false
	}
	s.waiting.Scan(few.Class, false)
	defer s.waiting.EndScan()
	passed := s.trial.passed[:0]
	for range 1 + passedOver {
		ref, _, ok := s.waiting.Next()
		if !ok {
			return false
		}
		r := s.requests.find(ID(ref))
		if !r.party.crowds(few.party) {
			if !s.startBriefly(r) {
				return false
			}
			for _, p := range passed {
				p.overtaken++
			}
			return true
		}
		if r.overtaken >= s.cfg.OvertakeLimit {
			return false
		}
		passed = append(passed, r)
		s.trial.passed = passed
		s.waiting.Pass()
	}
	return false
}

// startBriefly starts a waiting request if the step has time for all of its prompt.
func (s *Scheduler) startBriefly(r *request) bool {
	c := candidate{req: r, ids: r.Prompt, most: r.live}
	s.match(&c)
	n := len(c.ids) - c.hit.Tokens
	load := cost.Load{Rows: n, Outputs: 1, Prompt: cost.Attended(c.hit.Tokens, n)}
	switch r.Logits {
	case LogitsAll:
		load.Outputs = n
	case LogitsNone:
		load.Outputs = 0
	case LogitsLast:
	}
	if n > min(s.step.budget, s.cfg.PrefillChunk) || s.cost.Estimate(s.step.load.Add(load)) > s.step.limit {
		return false
	}
	v := s.judge(&c)
	if v == crowded && s.entitled(r.party) {
		v = s.displace(&c)
	}
	return v == fits && s.start(&c)
}
