package capacity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"weir/bench"
	"weir/scheduler"
)

// Latency is what requests see, in seconds.
type Latency struct {
	TTFT Quantiles `json:"ttft"`
	ITL  Quantiles `json:"itl"`
	Busy float64   `json:"busy"` // share of the time in which a replica computes: near 1 long before it can do no more, since sequences join steps
}

// Quantiles of a latency in seconds.
type Quantiles struct {
	P50 float64 `json:"p50_s"`
	P99 float64 `json:"p99_s"`
}

// Targets are the most that latencies may be; 0 is no target.
type Targets struct {
	TTFT50 time.Duration `yaml:"ttft_p50"`
	TTFT99 time.Duration `yaml:"ttft_p99"`
	ITL50  time.Duration `yaml:"itl_p50"`
	ITL99  time.Duration `yaml:"itl_p99"`
}

// rows names each target beside what it bounds.
func (t *Targets) rows(l *Latency) []targetRow {
	return []targetRow{
		{"TTFT p50", t.TTFT50, l.TTFT.P50}, {"TTFT p99", t.TTFT99, l.TTFT.P99}, {"ITL p50", t.ITL50, l.ITL.P50}, {"ITL p99", t.ITL99, l.ITL.P99},
	}
}

type targetRow struct {
	name   string
	target time.Duration
	value  float64
}

// none reports whether there is no target.
func (t *Targets) none() bool { return *t == Targets{} }

// missed is the first target that latencies do not keep; nil if all are.
func (t *Targets) missed(l *Latency) *targetRow {
	for _, r := range t.rows(l) {
		if r.target > 0 && !(r.value <= r.target.Seconds()) {
			return &r
		}
	}
	return nil
}

// replica is one replica of a pool, as it is simulated.
type replica struct {
	demand   Demand // for one request a second
	lengths  Lengths
	rates    *Rates
	config   scheduler.Config
	kvTokens int
	enough   int // requests of a simulation, at most; 0 is as many as make a p99

	known     bool    // whether the next three are
	rate      float64 // requests a second, by all limits but latency
	limit     string  // that binds
	saturated float64 // requests a second of clients that always wait, simulated
	curve     []point // by rate, as far as it was asked for
}

// point of a curve: latencies never fall from one to the next.
type point struct {
	rate float64
	Latency
	err error
}

// shares of what a replica serves by all limits that the curve is computed at; between them it is a line.
var shares = []float64{0.02, 0.2, 0.4, 0.6, 0.75, 0.9, 1}

// most is how many requests a second the replica serves by all limits but latency: those of the formulas, and what the scheduler gets done
// where as many clients as the rates were measured with always wait.
func (r *replica) most() (float64, error) {
	if r.known {
		return r.rate, nil
	}
	n, err := r.demand.Need()
	if err != nil {
		return 0, err
	}
	r.rate, r.limit, r.known = n.Most(), n.Limit(), true
	if r.rates.Machine == nil {
		return r.rate, nil
	}
	if r.saturated, err = r.saturate(); err != nil {
		return 0, err
	}
	if busy := r.saturated * (1 - r.demand.Headroom); busy < r.rate {
		r.rate, r.limit = busy, "steps"
	}
	return r.rate, nil
}

// turnaround is how long a client takes from an answer to its next request.
const turnaround = 1500 * time.Microsecond

// saturate is how many requests a second end where clients always wait.
func (r *replica) saturate() (float64, error) {
	clients := min(r.config.MaxSeqs, r.rates.Sequences)
	o := r.options(r.requests(max(8*clients, leastRequests/4)), math.Inf(1))
	o.Clients, o.Turnaround, o.NoGaps = clients, turnaround, true
	done, err := bench.Simulate(o)
	if err != nil {
		return 0, err
	}
	return float64(len(o.Requests)) / done.Duration.Seconds(), nil
}

// at computes the curve up to its i-th point.
func (r *replica) at(i int) (*point, error) {
	most, err := r.most()
	if err != nil {
		return nil, err
	}
	for len(r.curve) <= i {
		p := point{rate: most * shares[len(r.curve)]}
		if p.Latency, p.err = r.simulate(p.rate); p.err == nil && len(r.curve) > 0 {
			p.Latency = p.most(r.curve[len(r.curve)-1].Latency)
		}
		r.curve = append(r.curve, p)
	}
	return &r.curve[i], r.curve[i].err
}

// most is the greater of each latency.
func (l Latency) most(m Latency) Latency {
	greater := func(a, b Quantiles) Quantiles { return Quantiles{max(a.P50, b.P50), max(a.P99, b.P99)} }
	return Latency{greater(l.TTFT, m.TTFT), greater(l.ITL, m.ITL), max(l.Busy, m.Busy)}
}

// between is the latency on the line from l to m.
func (l Latency) between(m Latency, share float64) Latency {
	mix := func(a, b float64) float64 { return a + (b-a)*share }
	both := func(a, b Quantiles) Quantiles { return Quantiles{mix(a.P50, b.P50), mix(a.P99, b.P99)} }
	return Latency{both(l.TTFT, m.TTFT), both(l.ITL, m.ITL), mix(l.Busy, m.Busy)}
}

// latency is what requests see where so many come to the replica in a second.
func (r *replica) latency(rate float64) (Latency, error) {
	before, err := r.at(0)
	if err != nil {
		return Latency{}, err
	}
	if rate <= before.rate {
		return before.Latency, nil
	}
	for i := 1; i < len(shares); i++ {
		here, err := r.at(i)
		if err != nil {
			return Latency{}, err
		}
		if rate <= here.rate*(1+1e-9) {
			return before.between(here.Latency, min(1, (rate-before.rate)/(here.rate-before.rate))), nil
		}
		before = here
	}
	return Latency{}, fmt.Errorf("%g requests a second are more than a replica serves, %g", rate, before.rate)
}

// exact is the latency at a rate as it is simulated there, where the line between the curve's points says no less.
func (r *replica) exact(rate float64) (Latency, error) {
	line, err := r.latency(rate)
	if err != nil {
		return line, err
	}
	here, err := r.simulate(rate)
	return here.least(line), err
}

// slowdown is by how much longer steps take than their estimates in the second latency of a plan: how far measured rates of a quiet machine are
// from those of a busy one.
const slowdown = 1.1

// slower is the latency at a rate where all steps take longer: that of as many more requests a second, in longer seconds.
func (r *replica) slower(rate float64) (Latency, error) {
	l, err := r.simulate(slowdown * rate)
	times := func(q Quantiles) Quantiles { return Quantiles{slowdown * q.P50, slowdown * q.P99} }
	return Latency{times(l.TTFT), times(l.ITL), l.Busy}, err
}

// least is the lesser of each latency.
func (l Latency) least(m Latency) Latency {
	lesser := func(a, b Quantiles) Quantiles { return Quantiles{min(a.P50, b.P50), min(a.P99, b.P99)} }
	return Latency{lesser(l.TTFT, m.TTFT), lesser(l.ITL, m.ITL), min(l.Busy, m.Busy)}
}

// sustained is how many requests a second the replica serves within the targets: all lower rates keep them, too. 0 says that the target
// that comes with it is missed even by requests that come one at a time.
func (r *replica) sustained(t *Targets) (float64, *targetRow, error) {
	most, err := r.most()
	if err != nil || t.none() {
		return most, nil, err
	}
	before, err := r.at(0)
	if err != nil {
		return 0, nil, err
	}
	if missed := t.missed(&before.Latency); missed != nil {
		return 0, missed, nil
	}
	var binds *targetRow
	for i := 1; i < len(shares); i++ {
		here, err := r.at(i)
		if err != nil {
			return 0, nil, err
		}
		if binds = t.missed(&here.Latency); binds == nil {
			before = here
			continue
		}
		share := 1.0
		from, to := t.rows(&before.Latency), t.rows(&here.Latency)
		for k := range to {
			if target := to[k].target.Seconds(); target > 0 && to[k].value > target {
				if s := (target - from[k].value) / (to[k].value - from[k].value); s < share {
					share, binds = s, &to[k]
				}
			}
		}
		return (before.rate + (here.rate-before.rate)*share) * (1 - 1e-9), binds, nil
	}
	return most, nil, nil
}

// How many requests a point of the curve is simulated with: so many output tokens together, within bounds, after some that warm it up.
const (
	simulatedTokens = 60_000
	leastRequests   = 300
	mostRequests    = 1200
	warmShare       = 0.1
)

// simulate runs a Poisson process of requests through the scheduler in virtual time. All rates have the same requests, so that latencies
// differ by the rate and not by chance.
func (r *replica) simulate(rate float64) (Latency, error) {
	if r.rates.Machine == nil {
		return Latency{}, r.rates.WhyNot
	}
	_, output := r.lengths.Means()
	done, err := bench.Simulate(r.options(r.requests(min(max(int(simulatedTokens/output), leastRequests), mostRequests)), rate))
	if err != nil {
		return Latency{}, err
	}
	return latencyOf(done)
}

// requests is n, or as many as are enough.
func (r *replica) requests(n int) int {
	if r.enough > 0 {
		return min(n, r.enough)
	}
	return n
}

// options are n requests at a rate.
func (r *replica) options(n int, rate float64) bench.SimOptions {
	o := bench.SimOptions{Scheduler: r.config, KVTokens: r.kvTokens, Machine: *r.rates.Machine, Seed: 1}
	rng, at := rand.New(rand.NewPCG(1, 3)), 0.0
	shared := 0
	for range n {
		at += rng.ExpFloat64() / rate
		q := r.request(r.lengths[rng.IntN(len(r.lengths))])
		q.At = time.Duration(at * 1e9)
		shared = max(shared, q.Shared)
		o.Requests = append(o.Requests, q)
	}
	if shared > 0 { // what is cached was computed before
		o.Requests = append([]bench.SimRequest{{Prompt: shared + 1, Shared: shared, Output: 1}}, o.Requests...)
	}
	o.Scheduler.MaxWaiting = len(o.Requests)
	if all := (r.config.MaxSeqs+1)*(r.lengths.longest()+2*simBlock) + shared; o.KVTokens > all {
		o.KVTokens = all // more is never in use
	}
	return o
}

// request is one of the pool.
func (r *replica) request(l bench.Length) bench.SimRequest {
	q := bench.SimRequest{Prompt: l.Prompt, Output: l.Output, Shared: int(r.demand.Cached * float64(l.Prompt))}
	switch r.demand.Pool {
	case Mixed:
	case Prefill:
		q.Output = 1
	case Decode: // the blocks of the prompt come from the other pool; what is left of its last block is computed again
		q.Shared = l.Prompt - 1
	}
	return q
}

func latencyOf(done *bench.SimResult) (Latency, error) {
	var l Latency
	var ttft, itl []float64
	var busy time.Duration
	warm := int(warmShare * float64(len(done.Outcomes)))
	for i := range done.Outcomes {
		o := &done.Outcomes[i]
		if busy += o.Work; o.Err != nil {
			return l, fmt.Errorf("a simulated request failed: %w", o.Err)
		}
		if i < warm {
			continue
		}
		ttft = append(ttft, o.TTFT().Seconds())
		for _, gap := range o.Gaps {
			itl = append(itl, gap.Seconds())
		}
	}
	for _, q := range []struct {
		values []float64
		into   *Quantiles
	}{{ttft, &l.TTFT}, {itl, &l.ITL}} {
		slices.Sort(q.values)
		if len(q.values) > 0 {
			*q.into = Quantiles{bench.Percentile(q.values, 50), bench.Percentile(q.values, 99)}
		}
	}
	l.Busy = math.Min(1, busy.Seconds()/done.Duration.Seconds())
	return l, nil
}
