package bench

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"weir/internal/inference"
	"weir/scheduler"
)

// SimSoakOptions say how long to look for broken invariants. Zero fields take the
// defaults named.
type SimSoakOptions struct {
	Seed       uint64 // of the first simulation; the others count up from it
	Seeds      int    // simulations; default 100
	Steps      int    // of all together; default 10,000,000
	CheckEvery int    // steps between two recounts of scheduler, queue and pool; default 64

	Progress func(seed uint64, r *SimResult) // called after each simulation
}

// SimSoakReport sums up simulations of which none broke an invariant.
type SimSoakReport struct {
	Seeds    int
	Steps    int
	Digest   uint64 // of all plans
	Counters scheduler.Counters
	Took     time.Duration
}

// SimSoak simulates random machines, settings and loads: each has tenants in
// classes, Zipf distributed, of whom one sends ten times its part, one comes and
// goes and one sends long prompts; lengths of a public trace; shared prefixes,
// cancels in every state, deadlines, several choices and calls. Every plan is
// checked, every so manieth step recounts everything, and at the end nothing may be
// left. The error names the seed and the step of the first broken invariant.
func SimSoak(o SimSoakOptions) (*SimSoakReport, error) {
	o.Seeds, o.Steps, o.CheckEvery = orElse(o.Seeds, 100), orElse(o.Steps, 10_000_000), orElse(o.CheckEvery, 64)
	report, start := &SimSoakReport{}, time.Now()
	for i := range o.Seeds {
		seed := o.Seed + uint64(i)
		want := (o.Steps - report.Steps + o.Seeds - i - 1) / (o.Seeds - i)
		for part := uint64(0); want > 0; part++ {
			r, err := Simulate(soakLoad(seed, part, want, o.CheckEvery))
			if err != nil {
				return nil, fmt.Errorf("soak seed %d part %d: %w", seed, part, err)
			}
			want -= int(r.Counters.Steps)
			report.add(r)
			if o.Progress != nil {
				o.Progress(seed, r)
			}
		}
		report.Seeds++
	}
	report.Took = time.Since(start)
	return report, nil
}

func orElse(v, def int) int {
	if v == 0 {
		return def
	}
	return v
}

func (s *SimSoakReport) add(r *SimResult) {
	s.Steps += int(r.Counters.Steps)
	s.Digest = (s.Digest ^ r.Digest) * 0x100000001b3
	a, b := &s.Counters, &r.Counters
	for _, c := range [...]struct {
		sum  *uint64
		more uint64
	}{
		{&a.Submitted, b.Submitted}, {&a.Refused, b.Refused}, {&a.Admitted, b.Admitted}, {&a.Stopped, b.Stopped},
		{&a.Length, b.Length}, {&a.Cancelled, b.Cancelled}, {&a.Failed, b.Failed}, {&a.Expired, b.Expired},
		{&a.Preemptions, b.Preemptions}, {&a.Pauses, b.Pauses}, {&a.RecomputedTokens, b.RecomputedTokens},
		{&a.PromptTokens, b.PromptTokens}, {&a.CachedTokens, b.CachedTokens}, {&a.OutputTokens, b.OutputTokens},
		{&a.Shed, b.Shed}, {&a.Steps, b.Steps}, {&a.Rows, b.Rows},
	} {
		*c.sum += c.more
	}
}

// Print writes the report in a few lines.
func (s *SimSoakReport) Print(w io.Writer) error {
	c := &s.Counters
	_, err := fmt.Fprintf(w, "%d seeds, %d steps in %.1f s: %.0f steps/s; no invariant was broken; digest %016x\n"+
		"%d requests: %d stopped, %d at their length, %d cancelled, %d past a deadline, %d failed; %d shed, %d refused\n"+
		"%d rows, %d computed again; %d preemptions, %d pauses; %d of %d prompt tokens from the cache\n",
		s.Seeds, s.Steps, s.Took.Seconds(), float64(s.Steps)/s.Took.Seconds(), s.Digest,
		c.Submitted, c.Stopped, c.Length, c.Cancelled, c.Expired, c.Failed, c.Shed, c.Refused,
		c.Rows, c.RecomputedTokens, c.Preemptions, c.Pauses, c.CachedTokens, c.PromptTokens)
	return err
}

// soakTenants is how many tenants a soak has, the three odd ones included.
const soakTenants = 16

// soakLoad draws a machine, settings and requests for so many steps.
func soakLoad(seed, part uint64, steps, checkEvery int) SimOptions {
	rng := rand.New(rand.NewPCG(seed, 1000+part))
	o := SimOptions{
		Machine: SmallMachine, Seed: seed, Precheck: seed%2 == 0, MaxSteps: steps, CheckEvery: checkEvery, NoGaps: true,
		Noise: Noise{Deviation: 0.2 * rng.Float64(), SpikeShare: 0.05 * rng.Float64(), SpikeFactor: 3},
	}
	seqs := 1 << rng.IntN(7)
	o.Scheduler = scheduler.Config{
		MaxSeqs: seqs, MaxBatchTokens: max(seqs, 64<<rng.IntN(4)), ITLTarget: []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond}[rng.IntN(3)],
		MaxPrefills: 1 + rng.IntN(3), OvertakeLimit: 1 + rng.IntN(64), PreemptLimit: 1 + rng.IntN(4), MinRunTokens: 1 + rng.IntN(12),
		OutputEstimate: []int{0, 0, 1, 64}[rng.IntN(4)], CapOutput: true, MaxWaiting: 32 << rng.IntN(5),
	}
	shape := &shapes[rng.IntN(len(shapes))]
	shrink := 1 / float64(int(8)<<rng.IntN(4)) // prompts and outputs of tens to hundreds of tokens
	longest := int((shape.input[16]+shape.output[16])*shrink) + 64
	o.KVTokens = max(longest+simBlock, int(float64(seqs)*(shape.input[7]+shape.output[7])*shrink*(0.5+2*rng.Float64())))
	o.Requests = soakRequests(rng, shape, shrink, min(steps, 3000))
	return o
}

// soakRequests are requests for about as many steps as there are, at up to three
// times what the machine can serve.
func soakRequests(rng *rand.Rand, shape *shape, shrink float64, n int) []SimRequest {
	list := make([]SimRequest, 0, n)
	zipf := zipfShares(soakTenants, 1.1)
	load, at := 0.5+2.5*rng.Float64(), 0.0
	for i := range n {
		r := SimRequest{
			Prompt: clampLen(shape.input.at(rng.Float64())*shrink, 0), Output: clampLen(shape.output.at(rng.Float64())*shrink, 0), N: 1,
		}
		tenant := pick(zipf, rng.Float64())
		if rng.IntN(4) == 0 {
			tenant = 0 // the abuser
		}
		if tenant == 1 && int(at/60)%2 == 1 {
			tenant = 3 // the one that comes and goes is away
		}
		if tenant == 2 {
			r.Prompt = clampLen(shape.input[12]*shrink, 0)
		}
		r.Tenant, r.Weight, r.Class = strconv.Itoa(tenant), 1+tenant%3, inference.Class(tenant%inference.NumClasses)
		r.MaxTokens = r.Output + rng.IntN(1+r.Output)
		soakOdds(rng, &r, i)
		at += rng.ExpFloat64() * SmallMachine.work(r.Prompt, r.Output*r.N).Seconds() / load
		r.At = time.Duration(at * 1e9)
		list = append(list, r)
	}
	return list
}

// soakOdds gives some requests what only some have.
func soakOdds(rng *rand.Rand, r *SimRequest, i int) {
	soon := func(mean float64) time.Duration { return 1 + time.Duration(rng.ExpFloat64()*mean*1e9) }
	if rng.IntN(3) == 0 {
		r.Family, r.Shared = rng.IntN(8), rng.IntN(r.Prompt+1)
	}
	switch rng.IntN(12) {
	case 0, 1:
		r.CancelIn = soon(5)
	case 2:
		r.FirstTokenIn = soon(10)
	case 3:
		r.DoneIn = soon(20)
	case 4:
		r.WaitFor = soon(10)
	case 5:
		r.N = 1 + rng.IntN(6)
	case 6:
		r.Group = strconv.Itoa(i / 50)
	case 7:
		r.OverQuota = true
	case 8:
		r.Retries = 1
	}
}

// zipfShares are the cumulative shares of n tenants of which the k-th has 1/k^s.
func zipfShares(n int, s float64) []float64 {
	sums, sum := make([]float64, n), 0.0
	for k := range sums {
		sum += math.Pow(float64(k+1), -s)
		sums[k] = sum
	}
	for k := range sums {
		sums[k] /= sum
	}
	return sums
}

// pick is the first index whose cumulative share exceeds u.
func pick(sums []float64, u float64) int {
	for k, s := range sums {
		if u < s {
			return k
		}
	}
	return len(sums) - 1
}
