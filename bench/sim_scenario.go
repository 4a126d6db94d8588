package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"weir/scheduler"
)

// SimScenario is a named workload. Tests of the scheduler use it and bound the
// latencies that it gives.
type SimScenario struct {
	Name string
	What string
	make func(seed uint64) SimOptions
}

// Options are the scenario's requests on the small machine, drawn from a seed.
func (s *SimScenario) Options(seed uint64) SimOptions { return s.make(seed) }

// SimScenarios are the workloads that `weir bench sim` knows and the tests of
// the scheduler's promises use.
var SimScenarios = []SimScenario{
	{"served", "16 clients, prompts of 100 words, 32 output tokens", func(seed uint64) SimOptions {
		return servedLoad(seed, 16, 320)
	}},
	{"noisy", "the same on a machine whose steps deviate by 15 % and of which 3 % take twice as long", func(seed uint64) SimOptions {
		o := servedLoad(seed, 16, 320)
		o.Noise = Noise{Deviation: 0.15, SpikeShare: 0.03, SpikeFactor: 2}
		return o
	}},
	{"long", "4 prompts of 30,000 tokens beside a short request a second, one tenant", func(seed uint64) SimOptions {
		return longLoad(seed, 4, 1, 1)
	}},
	{"long-tenants", "the same of 8 tenants", func(seed uint64) SimOptions { return longLoad(seed, 4, 1, 8) }},
	{"answers", "24 clients whose answers are 1,000 tokens in the mean, in a tight cache", func(seed uint64) SimOptions {
		return answersLoad(seed, 1000)
	}},
	{"flood", "a tenant with 200 long answers at once beside one that sends a short request every 3 s",
		func(seed uint64) SimOptions {
			return floodLoad(seed, 0)
		}},
	{"flood-tight", "the same, with a cache that the first tenant fills", func(seed uint64) SimOptions {
		return floodLoad(seed, 16_000)
	}},
	{"tenants", "seven normal tenants, one that comes and goes, one with long prompts, one that sends ten times as much",
		func(seed uint64) SimOptions { return tenantsLoad(seed, true) }},
	{"tenants-quiet", "the same without the last", func(seed uint64) SimOptions { return tenantsLoad(seed, false) }},
	{"choices", "1.2 short requests a second, and every minute one of 64 choices", choicesLoad},
}

// FindScenario returns the scenario of that name.
func FindScenario(name string) (*SimScenario, error) {
	var known []string
	for i := range SimScenarios {
		if SimScenarios[i].Name == name {
			return &SimScenarios[i], nil
		}
		known = append(known, SimScenarios[i].Name)
	}
	return nil, fmt.Errorf("scenario %q is not known; known are %s", name, strings.Join(known, ", "))
}

// servedConfig is what `weir serve` uses unless told otherwise.
func servedConfig() scheduler.Config {
	return scheduler.Config{MaxSeqs: 64, MaxBatchTokens: 512, ITLTarget: 200 * time.Millisecond}
}

// turnaround is how long a client takes from the end of an answer until its next request is
// there: the next step has begun then.
const turnaround = 1500 * time.Microsecond

// servedLoad is the closed loop of docs/performance.md.
func servedLoad(seed uint64, clients, requests int) SimOptions {
	o := SimOptions{Scheduler: servedConfig(), Machine: SmallMachine, Clients: clients, Turnaround: turnaround, Seed: seed}
	rng := rand.New(rand.NewPCG(seed, 1))
	for range requests {
		o.Requests = append(o.Requests, SimRequest{Prompt: 105 + rng.IntN(11), Output: 32})
	}
	return o
}

// longLoad is k long prompts at the start and short requests that come all the
// while, in a Poisson process of so many a second.
func longLoad(seed uint64, k int, perSecond float64, tenants int) SimOptions {
	o := SimOptions{Scheduler: servedConfig(), Machine: SmallMachine, Seed: seed}
	rng := rand.New(rand.NewPCG(seed, 2))
	const longPrompt, longOutput = 30_000, 16
	alone := float64(k) * SmallMachine.work(longPrompt, longOutput).Seconds()
	tenant := func(i int) string { return fmt.Sprintf("tenant %d", i%tenants) }
	for i := range k {
		o.Requests = append(o.Requests, SimRequest{
			Label: "long", Tenant: tenant(i), Prompt: longPrompt, Output: longOutput, At: time.Duration(i) * 100 * time.Millisecond,
		})
	}
	i := 0
	for at := rng.ExpFloat64() / perSecond; at < 1.5*alone; at += rng.ExpFloat64() / perSecond {
		o.Requests = append(o.Requests, SimRequest{
			Label: "short", Tenant: tenant(i), Prompt: 90 + rng.IntN(21), Output: 16, At: time.Duration(at * float64(time.Second)),
		})
		i++
	}
	return o
}

// work is what the rows of a request take, the reading of weights left aside.
func (m Machine) work(prompt, output int) time.Duration {
	rows := prompt + output - 1
	attended := float64(rows) * float64(rows+1) / 2
	return time.Duration(rows)*m.Row + time.Duration(output)*m.Output + time.Duration(attended/1024*float64(m.Position))
}

// answersLoad is a closed loop of answers whose lengths are exponential.
func answersLoad(seed uint64, mean int) SimOptions {
	o := SimOptions{Scheduler: servedConfig(), Machine: SmallMachine, Clients: 48, KVTokens: 24_000, Seed: seed}
	rng := rand.New(rand.NewPCG(seed, 3))
	for range 400 {
		out := min(max(1, int(rng.ExpFloat64()*float64(mean))), 4096)
		o.Requests = append(o.Requests, SimRequest{Prompt: 150 + rng.IntN(100), Output: out, MaxTokens: 4096})
	}
	return o
}

// choicesLoad is a stream of short requests and now and then one with as many
// choices as may run at once.
func choicesLoad(seed uint64) SimOptions {
	o := SimOptions{Scheduler: servedConfig(), Machine: SmallMachine, Seed: seed}
	rng := rand.New(rand.NewPCG(seed, 4))
	const seconds = 240
	for at := 0.0; at < seconds; at += rng.ExpFloat64() / 1.2 {
		o.Requests = append(o.Requests, SimRequest{
			Label: "short", Prompt: 90 + rng.IntN(21), Output: 60 + rng.IntN(80), At: time.Duration(at * float64(time.Second)),
		})
	}
	for at := 20; at < seconds; at += 60 {
		o.Requests = append(o.Requests, SimRequest{
			Label: "64 choices", Prompt: 100, Output: 100, N: 64, At: time.Duration(at) * time.Second,
		})
	}
	return o
}

// floodLoad is a tenant that sends all its requests at once and takes every slot,
// and one that sends a short request now and then.
func floodLoad(seed uint64, kvTokens int) SimOptions {
	o := SimOptions{Scheduler: servedConfig(), Machine: SmallMachine, Seed: seed, KVTokens: kvTokens}
	rng := rand.New(rand.NewPCG(seed, 5))
	for range 200 {
		o.Requests = append(o.Requests, SimRequest{
			Label: "flood", Tenant: "flood", Prompt: 90 + rng.IntN(21), Output: 200 + rng.IntN(200),
		})
	}
	for i := range 40 {
		o.Requests = append(o.Requests, SimRequest{
			Label: "single", Tenant: "single", Prompt: 90 + rng.IntN(21), Output: 16,
			At: 30*time.Second + time.Duration(float64(i)*3e9+rng.Float64()*1e9),
		})
	}
	return o
}
