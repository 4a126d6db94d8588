package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"weir/kvcache"
	"weir/router/balance"
	"weir/router/prefix"
	"weir/scheduler"
)

// FleetPools are the prefill replicas of a simulated fleet: the first ones. Long prompts are computed there where the router expects them to
// cost less so, and their KV blocks fetched by the others.
type FleetPools struct {
	Prefill int     // replicas; 0: all compute prompts and answers
	Rate    float64 // tokens a second whose blocks come from another replica; default 20,000
}

// fleetFetch is what a fetch takes beside its tokens' time.
const fleetFetch = 5 * time.Millisecond

func (p *FleetPools) defaults(replicas int) error {
	if p.Rate == 0 {
		p.Rate = 20_000
	}
	if p.Prefill < 0 || p.Prefill > 0 && p.Prefill >= replicas || !(p.Rate > 0) {
		return fmt.Errorf("simulate a fleet: %d prefill replicas of %d, which fetch %g tokens a second: some must be left to decode, and the rate be above 0", p.Prefill, replicas, p.Rate)
	}
	return nil
}

// pool is that of a replica.
func (p *FleetPools) pool(number int) balance.Pool {
	if number < p.Prefill {
		return balance.Prefilling
	}
	return balance.Decoding
}

// FleetDocuments are long prompts with short answers, one to a conversation, in between the conversations of a load.
type FleetDocuments struct {
	Rate   float64 // that come in a second; 0 is none
	Tokens int     // of the longest; the shortest have half as many. Default 4000
	Answer int     // tokens; default 16
}

// add puts the documents of so much time behind a load's conversations.
func (d *FleetDocuments) add(all []conversation, seconds float64, seed uint64) []conversation {
	r := rand.New(rand.NewPCG(seed, uint64(streamArrival)<<48|10))
	for at := r.ExpFloat64() / d.Rate; d.Rate > 0 && at < seconds; at += r.ExpFloat64() / d.Rate {
		all = append(all, conversation{
			document: true, begins: time.Duration(at * float64(time.Second)),
			turns: []exchange{{user: d.Tokens/2 + r.IntN(d.Tokens/2+1), answer: d.Answer}},
		})
	}
	return all
}

// split gives a request's prompt to a prefill replica, if the router would; false: it goes on at once.
func (f *fleet) split(q *fleetRequest, asked *balance.Request) (bool, error) {
	if f.o.Pools.Prefill == 0 || q.split {
		return false, nil
	}
	q.split = true
	if f.balancer.Split(f.time(), asked).Verdict != balance.SplitWorth {
		return false, nil
	}
	leg := *asked
	leg.Pool, leg.Output = balance.Prefilling, 1
	lease, err := f.balancer.Pick(f.time(), &leg)
	if errors.Is(err, balance.ErrNone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	q.lease, q.replica = lease, f.numbers[lease.Replica]
	if f.replicas[q.replica].dead {
		lease.Done(f.time(), balance.Outcome{Failed: true, Fault: true})
		return false, nil
	}
	f.done.Prefills++
	prompt := *q.prompt
	prompt.Logits = scheduler.LogitsNone
	q.out = &SimOutcome{Request: &SimRequest{Prompt: q.request.Prompt, Output: 1, N: 1}, last: make([]time.Duration, 1), fleet: q}
	return true, f.give(q, prompt)
}

// prefilled takes in that a prefill replica has computed a prompt: its blocks come to whichever replica gets the request.
func (f *fleet) prefilled(q *fleetRequest) {
	q.lease.Began(f.time())
	q.lease.Done(f.time(), balance.Outcome{})
	q.holders = []prefix.Match{{Replica: q.lease.Replica, Depth: len(q.keys)}}
	f.post(fleetEvent{at: f.now + fleetFetch + time.Duration(float64(q.request.Prompt)/f.o.Pools.Rate*float64(time.Second)), kind: retryComes, request: q})
}

// fetch enters the blocks of a prompt that another replica has computed.
func (f *fleet) fetch(q *fleetRequest) {
	if len(q.holders) == 0 {
		return
	}
	pool, p := f.replicas[q.replica].sim.pool, q.prompt
	_ = pool.Insert(p.Domain, p.Chain, p.Prompt, pool.Cached(p.Domain, p.Chain, p.Prompt), func(int, kvcache.BlockID) {})
}

// fetchRate is what replicas report of it.
func (f *fleet) fetchRate() float64 {
	if f.o.Pools.Prefill == 0 {
		return 0
	}
	return f.o.Pools.Rate
}
