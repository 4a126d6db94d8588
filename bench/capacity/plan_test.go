package capacity

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/bench"
	"weir/internal/reference"
	"weir/scheduler"
)

// numbers are rates of a machine that decodes so many sequences in base + n x each, and prompts at a rate.
func numbers(prefill float64, base, each time.Duration) ([]Batch, float64) {
	var batches []Batch
	for _, n := range []int{1, 8, 32} {
		batches = append(batches, Batch{n, base + time.Duration(n)*each})
	}
	return batches, prefill
}

// fleet is a catalogue of CPU nodes and H100s for models of different sizes.
func fleet(rng *rand.Rand, models int, rate float64) *Catalogue {
	headroom := 0.2
	c := &Catalogue{Headroom: &headroom, Instances: []Instance{
		{Name: "cpu", PricePerHour: 0.4, MemoryGiB: 32, Share: true},
		{Name: "h100", PricePerHour: 4, Card: "H100-80GB", MIG: []string{"1g.10gb", "3g.40gb"}},
	}}
	for i := range models {
		size := 0.5 + 2.5*rng.Float64()
		m := Model{
			Name: fmt.Sprint("m", i), WeightsGiB: size, KVBytes: 40_000, Load: Load{Rate: rate * (0.2 + rng.Float64()), Prompt: 200, Output: 40, Spread: 0.3},
			Targets: Targets{TTFT99: 4 * time.Second, ITL99: 400 * time.Millisecond},
		}
		for _, on := range []struct {
			name  string
			speed float64
		}{{"cpu", 1}, {"h100/1g.10gb", 6}, {"h100/3g.40gb", 20}, {"h100", 40}} {
			base := time.Duration(20e6 * size / on.speed)
			batches, prefill := numbers(900*on.speed/size, base, base/12)
			m.Rates = append(m.Rates, On{On: on.name, Prefill: prefill, Decode: batches})
		}
		c.Models = append(c.Models, m)
	}
	return c
}

// prepared is a planner that simulates few requests: what is tested holds of any latencies.
func prepared(t *testing.T, c *Catalogue) *planner {
	t.Helper()
	if err := c.Prepare(nil); err != nil {
		t.Fatal(err)
	}
	p := newPlanner(c)
	p.enough = 60
	return p
}

func checkedPlan(t *testing.T, p *planner) *Plan {
	t.Helper()
	plan, err := p.make()
	if err != nil {
		t.Fatal(err)
	}
	checkPlan(t, p.c, plan)
	return plan
}

func makePlan(t *testing.T, c *Catalogue) *Plan {
	t.Helper()
	return checkedPlan(t, prepared(t, c))
}

// checkPlan holds for every plan: it serves the load within targets, headroom and memory, and its instances have just its replicas.
func checkPlan(t *testing.T, c *Catalogue, plan *Plan) {
	t.Helper()
	stands := map[string]int{}
	cost := 0.0
	for _, u := range plan.Instances {
		cost += float64(u.Count) * u.instance.PricePerHour
		bytes, busy := 0.0, 0.0
		for _, s := range u.Shared {
			stands[s.Model+string(s.Pool)+u.Instance] += u.Count
			bytes, busy = bytes+s.MemoryGiB, busy+s.item.busy
			if len(u.Shared) > 1 && s.item.model.Targets.missed(s.Latency) != nil {
				t.Errorf("%s misses its targets beside others: %v", s.Model, s.Latency)
			}
		}
		if bytes > u.instance.MemoryGiB || len(u.Shared) > 1 && (busy > 1-plan.Headroom || !u.instance.Share) {
			t.Errorf("%s holds %.1f GiB, busy %.2f: %+v", u.Instance, bytes, busy, u.Shared)
		}
		if len(u.Slices) == 0 {
			continue
		}
		n := make(counts, len(u.instance.card.Profiles))
		for _, s := range u.Slices {
			n[u.instance.card.find(s.Profile)]++
			stands[s.Model+string(s.Pool)+u.Instance+"/"+s.Profile] += u.Count
		}
		checkCut(t, u.instance.card, n, []counts{n})
	}
	if math.Abs(cost-plan.PricePerHour) > 1e-6 {
		t.Errorf("the instances cost %g, the plan says %g", cost, plan.PricePerHour)
	}
	for i, m := range plan.Models {
		if l := m.Chosen.Latency; l != nil {
			if missed := c.Models[i].Targets.missed(l); missed != nil {
				t.Errorf("%s: %s is %g", m.Name, missed.name, missed.value)
			}
		}
		served := map[Pool]float64{}
		for _, p := range m.Chosen.Pools {
			served[p.Pool] += p.Rate * float64(p.Needed)
			if key := m.Name + string(p.Pool) + p.Kind; stands[key] != p.Replicas {
				t.Errorf("%s: %d stand of %d", key, stands[key], p.Replicas)
			}
			if p.Used > 1-plan.Headroom+1e-9 || p.Rate > p.Sustained*(1+1e-9) || p.Replicas < p.Needed || plan.Zones < 2 && p.Replicas != p.Needed {
				t.Errorf("%s: %+v", m.Name, p)
			}
			if p.Latency != nil && (p.Slower.TTFT.P99 < p.Latency.TTFT.P99 || p.Slower.ITL.P50 < p.Latency.ITL.P50) {
				t.Errorf("%s: %v, and with longer steps %v", m.Name, p.Latency, p.Slower)
			}
			if memory := p.kind.memory() / gib; c.Models[i].WeightsGiB > memory {
				t.Errorf("%s of %g GiB stands on %s", m.Name, c.Models[i].WeightsGiB, p.Kind)
			}
		}
		for pool, rate := range served {
			if math.Abs(rate/m.Rate-1) > 1e-6 {
				t.Errorf("%s: its %s pool takes %g of %g requests a second", m.Name, pool, rate, m.Rate)
			}
		}
	}
}

// More requests never cost less, and never need fewer replicas of a kind.
func TestMoreRateNeverNeedsLess(t *testing.T) {
	reference.Slow(t)
	seeds := uint64(2)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		before, replicas := 0.0, 0
		all := fleet(rand.New(rand.NewPCG(seed, 1)), 1, 1)
		one := fleet(rand.New(rand.NewPCG(seed, 1)), 1, 1)
		one.Models[0].Rates = one.Models[0].Rates[:1]
		many, single := prepared(t, all), prepared(t, one)
		for _, rate := range []float64{0.3, 1, 1.7, 3, 4.5, 4.6, 9, 20, 60, 300} {
			all.Models[0].Load.Rate, one.Models[0].Load.Rate = rate, rate
			plan := checkedPlan(t, many)
			if plan.PricePerHour < before-1e-9 {
				t.Errorf("seed %d: %g requests a second cost %g, fewer cost %g", seed, rate, plan.PricePerHour, before)
			}
			before = plan.PricePerHour
			n := 0
			for _, p := range checkedPlan(t, single).Models[0].Mixed.Pools {
				n += p.Replicas
			}
			if n < replicas {
				t.Errorf("seed %d: %g requests a second need %d replicas, fewer need %d", seed, rate, n, replicas)
			}
			replicas = n
		}
	}
}

// Models together never cost more than each alone, and what stands on instances keeps all bounds, with and without zones.
func TestModelsTogether(t *testing.T) {
	reference.Slow(t)
	shared, mixed := 0, 0
	for seed := range uint64(4) {
		c := fleet(rand.New(rand.NewPCG(seed, 2)), 2+int(seed)%2, []float64{0.05, 0.4, 30, 12}[seed])
		c.Zones = []int{0, 3}[seed%2]
		plan := makePlan(t, c)
		alone := 0.0
		for _, m := range plan.Models {
			alone += min(m.Mixed.PricePerHour, m.Split.PricePerHour)
		}
		if plan.PricePerHour > alone+1e-6 {
			t.Errorf("seed %d: together %g, each alone %g", seed, plan.PricePerHour, alone)
		}
		for _, u := range plan.Instances {
			if len(u.Shared) > 1 {
				shared++
			}
			if len(u.Slices) > 1 {
				mixed++
			}
		}
	}
	if shared == 0 || mixed == 0 {
		t.Errorf("%d instances are shared and %d cards cut: the test does not meet its subject", shared, mixed)
	}
}

// Where prompts disturb outputs more than the target allows, pools apart cost less.
func TestPoolsApartWherePromptsDisturb(t *testing.T) {
	batches, prefill := numbers(2000, 8*time.Millisecond, 200*time.Microsecond)
	none := time.Duration(0)
	c := &Catalogue{
		Instances: []Instance{{Name: "node", PricePerHour: 1, MemoryGiB: 64}},
		Models: []Model{{
			Name: "m", WeightsGiB: 1, KVBytes: 50_000, Load: Load{Rate: 4, Prompt: 800, Output: 60},
			Targets: Targets{ITL99: 60 * time.Millisecond, TTFT99: 4 * time.Second},
			Rates:   []On{{On: "node", Prefill: prefill, Decode: batches, ITLTarget: &none}},
		}},
	}
	plan := makePlan(t, c)
	m := &plan.Models[0]
	if m.Split == nil || m.Mixed != nil && m.Mixed.PricePerHour <= m.Split.PricePerHour || m.Chosen.Moved <= 0 || len(m.Chosen.Pools) != 2 ||
		m.Chosen.Pools[0].Pool != Prefill {
		t.Errorf("%+v", m)
	}
	var text strings.Builder
	if err := plan.Print(&text); err != nil || !strings.Contains(text.String(), "prefill on node") || !strings.Contains(text.String(), "for moving KV blocks") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// A target that nothing keeps is named, with what would keep it; so is memory that is not there.
func TestUnmetTargetsAreNamed(t *testing.T) {
	reference.Slow(t)
	c := fleet(rand.New(rand.NewPCG(1, 1)), 1, 1)
	c.Models[0].Targets = Targets{TTFT99: time.Millisecond}
	c.Models[0].WeightsGiB = 9.745
	if err := c.Prepare(nil); err != nil {
		t.Fatal(err)
	}
	_, err := Make(c)
	if err == nil {
		t.Fatal("a first token within a millisecond is planned")
	}
	for _, want := range []string{"cpu: TTFT p99 is ", "the target is 0.001 s", "prompt tokens a second), or prompts shorter or cached", "h100/1g.10gb: beside the weights there is room for"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: lacks %q", err, want)
		}
	}
	c.Models[0].Rates = []On{{On: "cpu", Prefill: 100, Decode: []Batch{{8, time.Second}}}}
	if err := c.Prepare(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Make(c); err == nil || !strings.Contains(err.Error(), "two numbers of sequences") {
		t.Errorf("latencies from one rate: %v", err)
	}
	c.Models[0].Targets = Targets{}
	if plan := makePlan(t, c); plan.Models[0].Chosen.Latency != nil {
		t.Error("latencies from one rate")
	}
}

// A benchmark of a machine that is known, taken as `weir bench batched` takes it, tells the latencies of that machine, whether its steps were
// filled with prompts or computed one each, as a scheduler does where more rows gain nothing.
func TestLatenciesFromABenchmark(t *testing.T) {
	reference.Slow(t)
	for name, most := range map[string]int{"steps of many prompts": 512, "steps of one prompt": 1} {
		t.Run(name, func(t *testing.T) { latenciesFromABenchmark(t, most) })
	}
}

// latenciesFromABenchmark has prompts that share a step up to so many rows.
func latenciesFromABenchmark(t *testing.T, most int) {
	t.Helper()
	config := scheduler.Config{MaxSeqs: 64, MaxBatchTokens: 512, ITLTarget: 200 * time.Millisecond}
	step := func(chunks ...scheduler.Chunk) float64 {
		p := scheduler.Plan{Chunks: chunks}
		for _, c := range chunks {
			p.Rows += c.Count
		}
		return bench.SmallMachine.Time(&p).Seconds()
	}
	prefill := func(n, prompt int) (seconds float64, steps int) {
		chunks, rows := []scheduler.Chunk(nil), 0
		for i := range n {
			chunks, rows = append(chunks, scheduler.Chunk{Count: prompt, LogitRows: 1}), rows+prompt
			if rows+prompt > most || i == n-1 {
				seconds, steps, chunks, rows = seconds+step(chunks...), steps+1, nil, 0
			}
		}
		return seconds, steps
	}
	decode := func(n, context int) float64 {
		return step(slices.Repeat([]scheduler.Chunk{{Start: context, Count: 1, LogitRows: 1}}, n)...)
	}
	result := bench.NewResult("batched")
	var rows []bench.BatchedRow
	for _, prompt := range []int{16, 64, 128, 512} {
		for _, n := range []int{1, 2, 4, 8, 16} {
			seconds, steps := prefill(n, prompt)
			rows = append(rows, bench.BatchedRow{Test: bench.BatchedTest{Prompt: prompt, Generate: 32, Sequences: n}, Steps: 32,
				Prefill: seconds, PrefillSteps: steps, Decode: 32 * decode(n, prompt+16)})
		}
	}
	result.AddBatched(rows)
	rates, err := FromBatched([]*bench.Result{result}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, load := range []Load{{Rate: 0.5, Prompt: 200, Output: 40}, {Rate: 1, Prompt: 200, Output: 40}, {Rate: 0.3, Prompt: 700, Output: 80, Spread: 0.5}} {
		lengths, err := Spread(load.Prompt, load.Output, load.Spread)
		if err != nil {
			t.Fatal(err)
		}
		r := &replica{demand: Demand{Rate: 1, Prompt: load.Prompt, Output: load.Output, Prefill: 1, Decode: 1, Sequences: 1}, lengths: lengths, rates: rates, config: config}
		got, err := r.simulate(load.Rate)
		if err != nil {
			t.Fatal(err)
		}
		r.rates = &Rates{Machine: &bench.SmallMachine}
		want, err := r.simulate(load.Rate)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range []struct {
			name      string
			got, want float64
		}{{"TTFT p50", got.TTFT.P50, want.TTFT.P50}, {"TTFT p99", got.TTFT.P99, want.TTFT.P99}, {"ITL p50", got.ITL.P50, want.ITL.P50}, {"ITL p99", got.ITL.P99, want.ITL.P99}} {
			if math.Abs(q.got/q.want-1) > 0.15 {
				t.Errorf("%+v: %s %.4g s from the benchmark, %.4g s of the machine", load, q.name, q.got, q.want)
			}
		}
	}
}

// What a plan says of longer steps is what a machine with longer steps does.
func TestSlowerStepsAreThoseOfASlowerMachine(t *testing.T) {
	lengths, err := Spread(200, 40, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := func(slower float64) *replica {
		long := func(d time.Duration) time.Duration { return time.Duration(slower * float64(d)) }
		m := bench.SmallMachine
		m.Step, m.Row, m.Output, m.Position, m.Bound = long(m.Step), long(m.Row), long(m.Output), long(m.Position), long(m.Bound)
		config := scheduler.Config{MaxSeqs: 64, MaxBatchTokens: 512, ITLTarget: long(200 * time.Millisecond)}
		return &replica{demand: Demand{Rate: 1, Prompt: 200, Output: 40, Prefill: 1, Decode: 1, Sequences: 1}, lengths: lengths,
			rates: &Rates{Machine: &m}, config: config}
	}
	const rate = 1.2
	got, err := at(1).slower(rate)
	if err != nil {
		t.Fatal(err)
	}
	want, err := at(slowdown).simulate(rate)
	if err != nil {
		t.Fatal(err)
	}
	same := func(a, b Quantiles) bool { return math.Abs(a.P50/b.P50-1) < 0.01 && math.Abs(a.P99/b.P99-1) < 0.01 }
	if !same(got.TTFT, want.TTFT) || !same(got.ITL, want.ITL) {
		t.Errorf("%v where steps are said to take longer, %v where they do", &got, &want)
	}
}

// Results of `vllm bench serve` at several numbers of clients are rates, too.
func TestRatesFromServingBenchmarks(t *testing.T) {
	folder := t.TempDir()
	var names []string
	for _, c := range []struct {
		clients   int
		itl, ttft float64
	}{{1, 8, 50}, {16, 12, 400}} {
		name := fmt.Sprintf("c%d.json", c.clients)
		text := fmt.Sprintf(`{"date":"20261126","backend":"openai","model_id":"m","num_prompts":32,"request_rate":"inf","max_concurrency":%d,"duration":9.5,
			"completed":32,"total_input_tokens":16000,"total_output_tokens":4096,"request_throughput":3.3,"median_itl_ms":%g,"median_ttft_ms":%g}`, c.clients, c.itl, c.ttft)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	c := &Catalogue{folder: folder, Instances: []Instance{{Name: "gpu", PricePerHour: 2}}, Models: []Model{{
		Name: "m", Load: Load{Rate: 10, Prompt: 500, Output: 128}, Rates: []On{{On: "gpu", Serve: names, Engine: "vllm"}},
	}}}
	makePlan(t, c)
	rates := c.Models[0].Rates[0].Given
	if rates.Prefill != 10_000 || rates.Sequences != 16 || math.Abs(rates.Decode-16/0.012) > 1e-6 || rates.Machine == nil {
		t.Errorf("%+v", rates)
	}
	for _, bad := range [][]string{{names[1]}, {}} {
		c.Models[0].Rates[0] = On{On: "gpu", Serve: bad}
		if err := c.Prepare(nil); err == nil {
			t.Errorf("rates from %q", bad)
		}
	}
}

// Lengths come from a detailed result or from a trace, and their rate with them.
func TestLengthsFromFiles(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	trace := write("trace.jsonl", `{"timestamp": 0, "input_length": 100, "output_length": 10, "hash_ids": [1]}
{"timestamp": 500, "input_length": 300, "output_length": 30, "hash_ids": [2]}
`)
	detailed := write("serve.json", `{"model_id":"m","request_throughput":4,"completed":2,"input_lens":[100,300,7],"output_lens":[10,30,0]}`)
	for _, path := range []string{trace, detailed} {
		lengths, rate, err := bench.ReadLengths(path)
		if err != nil || rate != 4 || !slices.Equal(lengths, []bench.Length{{Prompt: 100, Output: 10}, {Prompt: 300, Output: 30}}) {
			t.Errorf("%s: %v, %g, %v", path, lengths, rate, err)
		}
	}
	if _, _, err := bench.ReadLengths(write("other.json", `{"model_id":"m","request_throughput":4}`)); err == nil || !strings.Contains(err.Error(), "--save-detailed") {
		t.Error(err)
	}
}

// The shipped example is a catalogue that can be planned.
func TestTheExampleIsPlanned(t *testing.T) {
	reference.Slow(t)
	c, err := ReadCatalogue("../../configs/plan.example.yml", func(string) (float64, func(int) float64, error) { return 0, nil, errors.New("no file") })
	if err != nil {
		t.Fatal(err)
	}
	p := newPlanner(c)
	p.enough = 100
	plan := checkedPlan(t, p)
	var text strings.Builder
	if err := plan.Print(&text); err != nil || !strings.Contains(text.String(), "nvidia-smi mig -cgi ") || !strings.Contains(text.String(), "nvidia.com/mig-") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func FuzzCatalogue(f *testing.F) {
	raw, err := os.ReadFile("../../configs/plan.example.yml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte("instances: [{name: a, card: H100-80GB, mig: [1g.10gb]}]\nmodels: [{name: m, rates: [{on: a/1g.10gb}]}]\nzones: 3\n"))
	f.Add([]byte("instances: &a [{name: x}]\nmodels: *a\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 1<<16 {
			return
		}
		c, err := parseCatalogue(raw)
		if err != nil {
			return
		}
		for i := range c.Models {
			for j := range c.Models[i].Rates {
				if _, err := c.kind(c.Models[i].Rates[j].On); err != nil {
					t.Errorf("a checked catalogue has rates on nothing: %v", err)
				}
			}
		}
	})
}

// What is wrong with a catalogue is told in YAML's words.
func TestCataloguesFaultsNameNoGoTypes(t *testing.T) {
	for raw, want := range map[string]string{
		"instances: [{name: a, price: 3}]": "line 1: there is no key price here; configs/plan.example.yml has all of them",
		"models: 3":                        "line 1: a whole number `3`, want a list; configs/plan.example.yml shows it",
		"[a]":                              "line 1: a list, want a mapping; configs/plan.example.yml shows it",
		"zones: x":                         "line 1: a text `x`, want a whole number; configs/plan.example.yml shows it",
		"headroom: [1]":                    "line 1: a list, want a number; configs/plan.example.yml shows it",
	} {
		if _, err := parseCatalogue([]byte(raw)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", raw, err, want)
		}
	}
}
