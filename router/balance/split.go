package balance

import (
	"fmt"
	"time"
)

// Quote is what a replica would have to do for a request's prompt, by what is known of it.
type Quote struct {
	Replica ReplicaID
	Tokens  int // of the prompt, to be computed there
	Load    int // requests there

	Wait    time.Duration // for the tokens that wait there
	Compute time.Duration // of Tokens
	Others  time.Duration // that what runs there waits for them: as long as Compute, and more where much runs, as Config.Pressure weighs it
	Overrun time.Duration // of Wait and Compute: what they have more for prompts that were given up there
	Faults  float64       // share of requests there that are expected to fail
	Fetch   time.Duration // of KV blocks with all these tokens, in place of computing them; 0: it fetches none, as far as is known
}

// Quote asks which replica Pick would choose now. Nothing is counted.
func (b *Balancer) Quote(now time.Time, r *Request) (Quote, error) {
	p := b.picking(now, r)
	if !p.choose() {
		return Quote{}, fmt.Errorf("%w: %d are active, %d to be avoided", ErrNone, len(p.m.active), len(r.Avoid))
	}
	c, of := &p.chosen, &b.replicas[p.chosen.id]
	speed, mean := of.speed(p.now), of.prefill.get()
	q := Quote{
		Replica: c.id, Tokens: c.tokens, Load: c.load, Wait: time.Duration(speed * float64(c.ahead)), Compute: time.Duration(speed * float64(c.tokens)),
		Overrun: time.Duration((speed - mean) * float64(c.ahead+c.tokens)), Faults: of.faults.share(p.now),
	}
	if c.load > 0 { // an answer that runs waits as long as the prompt takes
		q.Others = time.Duration(max(1, b.c.Pressure*float64(c.load)) * float64(q.Compute))
	}
	if each := of.fetch.get(); each > 0 {
		q.Fetch = fetchDelay + time.Duration(each*float64(c.tokens))
	}
	return q, nil
}

// Split is what a prompt is expected to take at the decoding replica alone, and in two parts: computed by a prefilling replica, fetched by
// the decoding one.
type Split struct {
	Decode, Prefill Quote
	Verdict         SplitVerdict
}

// SplitVerdict says whether the two parts are worth it.
type SplitVerdict uint8

// The verdicts.
const (
	SplitWorth     SplitVerdict = iota
	SplitShort                  // few tokens are to be computed
	SplitCost                   // the prompt costs no less in two parts
	SplitFailing                // as above, because of what has failed at the prefilling replica of late
	SplitUnknown                // it is not known how fast the decoding replica fetches
	SplitNoReplica              // one of the pools has none that may take it
)

// Direct is what the prompt is expected to cost where it is decoded.
func (s *Split) Direct() time.Duration { return s.Decode.Wait + s.Decode.Compute + s.Decode.Others }

// Expected is how long the prefilling replica is expected to take.
func (s *Split) Expected() time.Duration { return s.Prefill.Wait + s.Prefill.Compute }

// Split compares. The request has the decoding replicas' pool.
func (b *Balancer) Split(now time.Time, r *Request) (s Split) {
	s.Verdict = SplitShort
	if len(r.Keys) < LeastFetch {
		return s
	}
	var err error
	asked := *r
	asked.Seen, asked.Pool = nil, Decoding
	if s.Decode, err = b.Quote(now, &asked); err != nil {
		s.Verdict = SplitNoReplica
		return s
	}
	switch {
	case s.Decode.Tokens*len(r.Keys) < LeastFetch*r.Tokens:
		return s
	case s.Decode.Fetch == 0:
		s.Verdict = SplitUnknown
		return s
	}
	asked.Pool, asked.Output = Prefilling, 1
	if s.Prefill, err = b.Quote(now, &asked); err != nil {
		s.Verdict = SplitNoReplica
		return s
	}
	s.Verdict = s.compare()
	return s
}

// compare says whether two parts cost less, where prompts that the prefilling replica is expected to fail at cost their time there, and are
// computed all the same.
func (s *Split) compare() SplitVerdict {
	good, direct := max(s.Expected(), s.Decode.Wait)+s.Decode.Fetch, s.Direct()
	failed := s.Expected() + direct
	switch {
	case float64(good)*(1-s.Prefill.Faults)+float64(failed)*s.Prefill.Faults < float64(direct):
		return SplitWorth
	case good-s.Prefill.Overrun < direct:
		return SplitFailing
	default:
		return SplitCost
	}
}
