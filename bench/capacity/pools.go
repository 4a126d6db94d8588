package capacity

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// PoolPlan is how many replicas of a model a pool has on one kind of instance.
type PoolPlan struct {
	Pool      Pool     `json:"pool"`
	Kind      string   `json:"kind"`
	Resource  string   `json:"resource,omitempty"` // that a pod asks Kubernetes for
	Replicas  int      `json:"replicas"`           // with a zone's loss
	Needed    int      `json:"needed"`             // without it
	Rate      float64  `json:"rate"`               // requests a second of each needed one
	Sustained float64  `json:"sustained_rate"`     // the most that one serves within targets and headroom
	Limit     string   `json:"limit"`              // that binds the sustained rate
	Used      float64  `json:"utilization"`        // share of what one can serve by all limits but latency, without headroom
	Latency   *Latency `json:"latency,omitempty"`
	Slower    *Latency `json:"latency_steps_10_percent_longer,omitempty"`
	Formulas  []string `json:"formulas"`

	kind    *Kind
	replica *replica
}

// option is one way to serve a model.
type option struct {
	model   *Model
	pools   []PoolPlan
	latency *Latency
	moved   float64 // seconds that a prompt's KV blocks take to the decode pool
}

// planner looks for the cheapest way.
type planner struct {
	c        *Catalogue
	headroom float64
	replicas map[replicaKey]*replica // what they sustain does not depend on the load's rate
	enough   int                     // as of replica
}

type replicaKey struct {
	model *Model
	on    *On
	pool  Pool
}

// replicaOf is a replica of a model on a kind, as it is simulated, or why it cannot be.
func (p *planner) replicaOf(m *Model, on *On, k *Kind, pool Pool) (*replica, error) {
	key := replicaKey{m, on, pool}
	if r := p.replicas[key]; r != nil {
		return r, nil
	}
	kvTokens, longest := on.KVTokens, m.lengths.longest()
	if memory := k.memory(); kvTokens == 0 && memory > 0 && m.KVBytes > 0 {
		kvTokens = int(min(max(0, memory-m.WeightsGiB*gib)/m.KVBytes, math.MaxInt32))
	}
	if memory := k.memory(); memory > 0 && m.WeightsGiB*gib > memory {
		return nil, fmt.Errorf("weights of %.2f GiB do not fit in %.2f GiB", m.WeightsGiB, memory/gib)
	}
	if need := longest + 2*simBlock; (kvTokens > 0 || on.KVTokens == 0 && k.memory() > 0 && m.KVBytes > 0) && kvTokens < need {
		return nil, fmt.Errorf("beside the weights there is room for %d tokens of KV, and a request has up to %d", kvTokens, longest)
	}
	r := &replica{lengths: m.lengths, rates: on.Given, config: on.config(), kvTokens: kvTokens, enough: p.enough}
	r.demand = Demand{
		Pool: pool, Rate: 1, Prompt: m.Load.Prompt, Output: m.Load.Output, Cached: m.Load.Cached, Prefill: on.Given.Prefill, Decode: on.Given.Decode,
		Sequences: on.Given.Sequences, Slots: on.Seqs, KVTokens: kvTokens, Headroom: p.headroom,
	}
	p.replicas[key] = r
	return r, nil
}

// simBlock is how many tokens a KV block of the simulation has.
const simBlock = 16

// poolPlan is so many replicas that share a rate.
func (p *planner) poolPlan(k *Kind, r *replica, rate, sustained float64, n int, binds *targetRow) (PoolPlan, error) {
	plan := PoolPlan{
		Pool: r.demand.Pool, Kind: k.Name, Resource: k.Resource(), Needed: n, Replicas: overZones(n, p.c.Zones), Rate: rate / float64(n),
		Sustained: sustained, Limit: r.limit, kind: k, replica: r,
	}
	if plan.Used = plan.Rate / r.rate * (1 - p.headroom); binds != nil {
		plan.Limit = binds.name
	}
	if r.rates.Machine != nil {
		l, err := r.latency(min(plan.Rate, sustained))
		if err != nil {
			return plan, err
		}
		plan.Latency = &l
	}
	demand := r.demand
	demand.Rate = rate
	need, err := demand.Need()
	if err != nil {
		return plan, err
	}
	plan.Formulas = need.Lines()
	if last := len(plan.Formulas) - 1; last >= 0 { // what follows decides how many there are
		plan.Formulas = plan.Formulas[:last]
	}
	if r.rates.Machine != nil {
		plan.Formulas = append(plan.Formulas, fmt.Sprintf("by steps            = rate / rate of %d clients, simulated / (1 - headroom) = %.4g / %.4g / %.3g = %.2f replicas",
			min(r.config.MaxSeqs, r.rates.Sequences), rate, r.saturated, 1-demand.Headroom, rate/r.saturated/(1-demand.Headroom)))
	}
	plan.Formulas = append(plan.Formulas, fmt.Sprintf("replicas            = rate / sustained rate (%s) = %.4g / %.4g, rounded up = %d", plan.Limit, rate, sustained, n))
	if p.c.Zones > 1 {
		plan.Formulas = append(plan.Formulas, fmt.Sprintf("without a zone      = ceil(replicas / (zones - 1)) x zones, over %d zones = %d", p.c.Zones, plan.Replicas))
	}
	return plan, nil
}

// served is a kind, and what a replica on it sustains.
type served struct {
	kind  *Kind
	r     *replica
	rate  float64
	binds *targetRow
}

// serving asks of each kind that the model has rates on what a replica of the pool sustains; note is told of those that cannot.
func (p *planner) serving(m *Model, pool Pool, t *Targets, note func(kind, why string)) ([]served, error) {
	var found []served
	for i := range m.Rates {
		on := &m.Rates[i]
		k, err := p.c.kind(on.On)
		if err != nil {
			return nil, err
		}
		r, err := p.replicaOf(m, on, k, pool)
		if err != nil {
			note(on.On, err.Error())
			continue
		}
		if r.rates.Machine == nil && !t.none() {
			note(on.On, r.rates.WhyNot.Error())
			continue
		}
		rate, binds, err := r.sustained(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", on.On, err)
		}
		if rate <= 0 {
			note(on.On, binds.unmet(r))
			continue
		}
		found = append(found, served{k, r, rate, binds})
	}
	return found, nil
}

// unmet says that a target is missed by requests that come one at a time, and what would keep it.
func (t *targetRow) unmet(r *replica) string {
	times := t.value / t.target.Seconds()
	text := fmt.Sprintf("%s is %.3g s where requests come one at a time, the target is %.3g s", t.name, t.value, t.target.Seconds())
	if t.name == "TTFT p50" || t.name == "TTFT p99" {
		return text + fmt.Sprintf("; prefill %.2g times as fast (%.4g prompt tokens a second), or prompts shorter or cached by as much, would keep it", times, times*r.rates.Prefill)
	}
	return text + fmt.Sprintf("; steps %.2g times as fast, or a lower --itl-target-ms on the servers, would keep it", times)
}

// mostMixed is how many replicas of one kind there may be for mixes of two kinds to be looked at: beyond, a mix saves little.
const mostMixed = 24

// mixed are the ways to serve a model by replicas that compute prompts and outputs: of one kind, or of two.
func (p *planner) mixed(m *Model, note func(kind, why string)) ([]option, error) {
	found, err := p.serving(m, Mixed, &m.Targets, note)
	if err != nil {
		return nil, err
	}
	var options []option
	for _, a := range found {
		n := replicasOf(m.Load.Rate / a.rate)
		pool, err := p.poolPlan(a.kind, a.r, m.Load.Rate, a.rate, n, a.binds)
		if err != nil {
			return nil, err
		}
		options = append(options, option{model: m, pools: []PoolPlan{pool}, latency: pool.Latency})
		for _, b := range found {
			if b.kind == a.kind || n > mostMixed {
				continue
			}
			o, err := p.twoKinds(m, a, b, n)
			if err != nil {
				return nil, err
			}
			if o != nil {
				options = append(options, *o)
			}
		}
	}
	return options, nil
}

// twoKinds is the cheapest mix of a and b with fewer than n of a; nil: there is none. Each takes requests by what it sustains, as the router's
// picks by expected time do.
func (p *planner) twoKinds(m *Model, a, b served, n int) (*option, error) {
	best, least := 0, math.Inf(1)
	for i := 1; i < n; i++ {
		rest := replicasOf((m.Load.Rate - float64(i)*a.rate) / b.rate)
		if cost := p.cost(a.kind, i, b.kind, rest); cost < least {
			best, least = i, cost
		}
	}
	if best == 0 {
		return nil, nil
	}
	rest := replicasOf((m.Load.Rate - float64(best)*a.rate) / b.rate)
	share := m.Load.Rate / (float64(best)*a.rate + float64(rest)*b.rate) // of what each sustains
	first, err := p.poolPlan(a.kind, a.r, float64(best)*a.rate*share, a.rate, best, a.binds)
	if err != nil {
		return nil, err
	}
	second, err := p.poolPlan(b.kind, b.r, float64(rest)*b.rate*share, b.rate, rest, b.binds)
	if err != nil {
		return nil, err
	}
	o := &option{model: m, pools: []PoolPlan{first, second}}
	o.join()
	return o, nil
}

// cost is what replicas of a model on two kinds of instances cost an hour.
func (p *planner) cost(a *Kind, n int, b *Kind, k int) float64 {
	sum, cut := 0.0, map[*Instance]counts{}
	for _, x := range []struct {
		kind *Kind
		n    int
	}{{a, overZones(n, p.c.Zones)}, {b, overZones(k, p.c.Zones)}} {
		at := x.kind.instance
		if x.kind.profile < 0 {
			sum += float64(x.n) * at.PricePerHour
			continue
		}
		if cut[at] == nil {
			cut[at] = make(counts, len(at.card.Profiles))
		}
		cut[at][x.kind.profile] += x.n / max(1, p.c.Zones)
	}
	for i := range p.c.Instances {
		if at := &p.c.Instances[i]; cut[at] != nil {
			sum += float64(len(at.card.cards(cut[at]))*max(1, p.c.Zones)) * at.PricePerHour
		}
	}
	return sum
}

// join makes the latency of the whole of those of the pools.
func (o *option) join() {
	all := o.pools[0].Latency
	for i := range o.pools[1:] {
		second := o.pools[i+1].Latency
		if all == nil || second == nil {
			return
		}
		l := all.most(*second)
		if o.isSplit() {
			l.ITL = second.ITL
			l.TTFT = Quantiles{all.TTFT.P50 + o.moved + second.TTFT.P50, all.TTFT.P99 + o.moved + second.TTFT.P99}
		}
		all = &l
	}
	o.latency = all
}

// refine simulates the pools at just their rates.
func (o *option) refine() error {
	for i := range o.pools {
		p := &o.pools[i]
		if p.Latency == nil {
			continue
		}
		l, err := p.replica.exact(min(p.Rate, p.Sustained))
		if err != nil {
			return err
		}
		p.Latency = &l
		slower, err := p.replica.slower(min(p.Rate, p.Sustained))
		if err != nil {
			return err
		}
		slower = slower.most(l)
		p.Slower = &slower
	}
	o.join()
	return nil
}

// price of a replica an hour, by its portion of an instance.
func (k *Kind) price() float64 { return k.instance.PricePerHour * k.portion() }

// portion of an instance that a replica takes, by memory slices.
func (k *Kind) portion() float64 {
	if k.profile < 0 {
		return 1
	}
	return float64(k.instance.card.Profiles[k.profile].Slices) / float64(k.instance.card.Slices)
}

// split are the ways to serve a model by a pool that computes prompts and one that computes outputs. A request's blocks move from one to the
// other before its first token, so the time to it is the first pool's, the move and the second pool's first step; that of the p99 is the sum
// of both p99, which is more than the p99 of the sum.
func (p *planner) split(m *Model, note func(kind, why string)) ([]option, error) {
	decodes, err := p.serving(m, Decode, &Targets{ITL50: m.Targets.ITL50, ITL99: m.Targets.ITL99}, note)
	if err != nil {
		return nil, err
	}
	var options []option
	for _, d := range decodes {
		if d.r.rates.Machine == nil {
			continue
		}
		for _, share := range []float64{0.4, 0.7, 1} { // less load gives the first pool more time
			o, err := p.splitAt(m, d, d.rate*share, note)
			if err != nil {
				return nil, err
			}
			options = append(options, o...)
		}
	}
	return options, nil
}

func (p *planner) splitAt(m *Model, d served, rate float64, note func(kind, why string)) ([]option, error) {
	at, err := d.r.latency(rate)
	if err != nil {
		return nil, err
	}
	var options []option
	for i := range m.Rates {
		on := &m.Rates[i]
		k, err := p.c.kind(on.On)
		if err != nil {
			return nil, err
		}
		moved := m.Load.Prompt * (1 - m.Load.Cached) * m.KVBytes * 8 / (1e9 * min(k.instance.NetworkGbit, d.kind.instance.NetworkGbit))
		t, ok := within(&m.Targets, moved, &at)
		if !ok {
			continue
		}
		r, err := p.replicaOf(m, on, k, Prefill)
		if err != nil || r.rates.Machine == nil {
			continue // the other pool's note says why
		}
		sustained, binds, err := r.sustained(&t)
		if err != nil {
			return nil, err
		}
		if sustained <= 0 {
			note(on.On, "of a prefill pool "+binds.unmet(r))
			continue
		}
		first, err := p.poolPlan(k, r, m.Load.Rate, sustained, replicasOf(m.Load.Rate/sustained), binds)
		if err != nil {
			return nil, err
		}
		second, err := p.poolPlan(d.kind, d.r, m.Load.Rate, rate, replicasOf(m.Load.Rate/rate), d.binds)
		if err != nil {
			return nil, err
		}
		o := option{model: m, pools: []PoolPlan{first, second}, moved: moved}
		o.join()
		options = append(options, o)
	}
	return options, nil
}

// within is what is left of the targets of the first token for a prefill pool.
func within(t *Targets, moved float64, decode *Latency) (Targets, bool) {
	left := Targets{}
	for _, x := range []struct {
		target time.Duration
		into   *time.Duration
		value  float64
	}{{t.TTFT50, &left.TTFT50, decode.TTFT.P50}, {t.TTFT99, &left.TTFT99, decode.TTFT.P99}} {
		if x.target == 0 {
			continue
		}
		if *x.into = x.target - time.Duration((moved+x.value)*1e9); *x.into <= 0 {
			return left, false
		}
	}
	return left, true
}

// isSplit reports whether prompts and outputs are computed apart.
func (o *option) isSplit() bool {
	return slices.ContainsFunc(o.pools, func(p PoolPlan) bool { return p.Pool != Mixed })
}
