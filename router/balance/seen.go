package balance

import (
	"math"
	"time"
)

// Candidate is a replica that a pick has looked at, for people who ask why.
type Candidate struct {
	Replica ReplicaID
	Hit     int     // keys of the prompt that it holds
	Tokens  int     // of the prompt, to be computed there
	Fetch   int     // of the prompt, to be fetched from another replica
	Ahead   int     // tokens that wait there
	Load    int     // requests
	KV      float64 // share of its cache in use
	Cost    float64 // of Prefix, in seconds; of other policies, the load
	Home    bool    // of the session
	Gated   bool    // loaded too far above the mean
	Waits   bool    // for a slot
}

// seen appends the candidates of a pick, and the chosen one where it stands on no list.
func (p *picking) seen(dst []Candidate, ok bool) []Candidate {
	listed := false
	for i := range p.list[:p.n] {
		c := &p.list[i]
		listed = listed || c.id == p.chosen.id
		dst = append(dst, p.shown(c))
	}
	if ok && !listed {
		dst = append(dst, p.shown(&p.chosen))
	}
	return dst
}

func (p *picking) shown(c *candidate) Candidate {
	s := Candidate{Replica: c.id, Hit: c.hit, Tokens: c.tokens, Fetch: c.fetch, Ahead: c.ahead, Load: c.load, KV: max(c.kv, 0), Cost: c.cost, Home: c.home, Waits: !c.slot}
	switch {
	case math.IsInf(c.cost, 1):
		s.Gated, s.Cost = true, 0
	case p.b.c.Policy == Prefix:
		s.Cost /= float64(time.Second)
	}
	return s
}
