package capacity

import (
	"strings"
	"testing"

	"weir/bench"
	"weir/scheduler"
)

func TestPlanByEachLimit(t *testing.T) {
	in := Demand{Rate: 10, Prompt: 1000, Output: 100, Cached: 0.5, Prefill: 500, Decode: 200, Sequences: 10, Headroom: 0.25}
	p, err := in.Need()
	if err != nil {
		t.Fatal(err)
	}
	// 1 s of prompt and 0.5 s of output for each request: 15 replicas, 20 with headroom.
	if p.Work != 1.5 || p.Replicas != 20 || p.Total != 20 {
		t.Errorf("%+v", p)
	}
	// The prompts take half of the time of a replica at 3/4: a sequence stays 1 + 100 x 10 / 200 / 0.5 = 11 s.
	if p.Stay != 11 || p.Live != 110 {
		t.Errorf("a stay of %g s, %g sequences; want 11 and 110", p.Stay, p.Live)
	}
	in.Zones, in.Rows, in.RowsReplica = 3, 1000, 400
	if p, err = in.Need(); err != nil || p.Predicted != 4 || p.Total != 30+6 {
		t.Errorf("%+v, %v: want 20 of 30 and 4 of 6 without a zone", p, err)
	}
	in.Slots, in.KVTokens = 4, 2000
	if p, err = in.Need(); err != nil || p.Replicas != 77 {
		t.Errorf("%+v, %v: want 110 x 1050 / 2000 / 0.75 = 77 by KV cache", p, err)
	}
	if text := p.String(); !strings.Contains(text, "110.0 x 1050 / 2000 / 0.75 = 77.00 replicas") {
		t.Error(text)
	}
}

func TestPlanReadsABenchmark(t *testing.T) {
	r := bench.NewResult("batched")
	r.AddBatched([]bench.BatchedRow{
		{Test: bench.BatchedTest{Prompt: 128, Generate: 32, Sequences: 4}, Prefill: 1, Decode: 1},
		{Test: bench.BatchedTest{Prompt: 128, Generate: 32, Sequences: 16}, Prefill: 4, Decode: 2},
	})
	if in, err := FromBatched([]*bench.Result{r}, 0); err != nil || in.Prefill != 512 || in.Decode != 256 || in.Sequences != 16 || in.Machine == nil {
		t.Errorf("%+v, %v", in, err)
	}
	if in, err := FromBatched([]*bench.Result{r}, 4); err != nil || in.Decode != 128 || in.Sequences != 4 {
		t.Errorf("%+v, %v", in, err)
	}
	if _, err := FromBatched([]*bench.Result{r}, 5); err == nil {
		t.Error("rates of 5 sequences are found where none were measured")
	}
}

func TestPlanRefusesWhatItCannotKnow(t *testing.T) {
	good := Demand{Rate: 1, Prompt: 10, Output: 10, Prefill: 1, Decode: 1, Sequences: 1}
	for _, spoil := range []func(*Demand){
		func(in *Demand) { in.Rate = 0 }, func(in *Demand) { in.Headroom = 1 }, func(in *Demand) { in.Rows = 1 },
		func(in *Demand) { in.Prefill = 0 }, func(in *Demand) { in.Sequences = 0 }, func(in *Demand) { in.Cached = 1 },
		func(in *Demand) { in.KVTokens = 15 }, func(in *Demand) { in.Zones = -1 },
	} {
		in := good
		if spoil(&in); true {
			if _, err := in.Need(); err == nil {
				t.Errorf("%+v is planned", in)
			}
		}
	}
}

// The simulator's server, saturated by clients that always wait, ends as many requests a second as the plan says that one replica can:
// within 15 %, from rates that are measured apart, as `weir bench batched` does.
func TestPlanAgainstTheSimulator(t *testing.T) {
	run := func(clients, n, prompt, output int) *bench.SimResult {
		o := bench.SimOptions{Scheduler: scheduler.Config{MaxSeqs: 64, MaxBatchTokens: 512}, Machine: bench.SmallMachine, Clients: clients, Seed: 1, NoGaps: true}
		for range n {
			o.Requests = append(o.Requests, bench.SimRequest{Prompt: prompt, Output: output})
		}
		r, err := bench.Simulate(o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, c := range []struct{ clients, prompt, output int }{{16, 300, 60}, {8, 800, 50}, {32, 150, 150}} {
		const rounds = 12
		n := rounds * c.clients
		in := Demand{Rate: 1, Prompt: float64(c.prompt), Output: float64(c.output), Sequences: c.clients}
		in.Prefill = float64(n*c.prompt) / run(c.clients, n, c.prompt, 1).Duration.Seconds()
		long := run(c.clients, c.clients, 1, c.prompt/2+c.output)
		in.Decode = float64(c.clients*(c.prompt/2+c.output)) / long.Duration.Seconds()
		p, err := in.Need()
		if err != nil {
			t.Fatal(err)
		}
		got := float64(n) / run(c.clients, n, c.prompt, c.output).Duration.Seconds()
		if want := 1 / p.Compute; want < 0.85*got || want > 1.15*got {
			t.Errorf("%d clients, %d + %d tokens: the plan says %.3f requests a second (prefill %.0f, decode %.0f), the simulator %.3f",
				c.clients, c.prompt, c.output, want, in.Prefill, in.Decode, got)
		}
	}
}
