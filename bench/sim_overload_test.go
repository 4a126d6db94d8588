package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/internal/reference"
)

// overload is Poisson traffic of 8 tenants on the small machine, for 4 minutes:
// three times the two requests a second or so that the machine serves. One tenant
// sends as much as all others together.
func overload(seed uint64) SimOptions {
	rng := rand.New(rand.NewPCG(seed, 77))
	o := SimOptions{Scheduler: servedConfig(), Machine: SmallMachine, Noise: Noise{Deviation: 0.05}, Seed: seed, Precheck: true}
	o.Scheduler.MaxWaiting, o.Scheduler.MaxSeqs = 96, 16
	for at := time.Duration(0); at < 4*time.Minute; {
		at += time.Duration(rng.ExpFloat64() / 6 * float64(time.Second))
		o.Requests = append(o.Requests, SimRequest{
			At: at, Label: "all", Tenant: fmt.Sprint(max(0, rng.IntN(15)-7)), Class: inference.Default,
			Prompt: 50 + rng.IntN(200), Output: 8 + int(rng.ExpFloat64()*30), MaxTokens: 256,
		})
	}
	return o
}

// share counts cases.
type share struct{ of, all int }

func (s *share) add(yes bool) {
	s.all++
	if yes {
		s.of++
	}
}

func (s share) percent() float64 { return 100 * float64(s.of) / float64(max(s.all, 1)) }

// What the precheck foresees of waits, and when it says that it pays to try again,
// beside what happened: at three times the load, the first minute left aside, in
// which the queue fills.
func TestWaitsAreForeseen(t *testing.T) {
	var waits, retries []float64
	for seed := range uint64(5) {
		o := overload(seed)
		r, err := Simulate(o)
		if err != nil {
			t.Fatal(err)
		}
		last := map[string]*SimOutcome{} // of the tenant's requests that were let in
		for i := range r.Outcomes {
			out := &r.Outcomes[i]
			before := last[out.Request.Tenant]
			var limit *inference.LimitError
			switch settled := out.Sent > time.Minute; {
			case errors.As(out.Err, &limit):
				if left := before.Admitted - out.Sent; settled && left > 0 {
					retries = append(retries, limit.RetryAfter.Seconds()/left.Seconds())
				}
			case out.Err != nil:
				t.Fatal(out.Err)
			default:
				last[out.Request.Tenant] = out
				if settled && out.Expected > 0 {
					waits = append(waits, out.Expected.Seconds()/(out.Admitted-out.Sent).Seconds())
				}
			}
		}
	}
	for _, tc := range []struct {
		what   string
		ratios []float64
	}{{"waits", waits}, {"times to try again", retries}} {
		slices.Sort(tc.ratios)
		var near share
		for _, r := range tc.ratios {
			near.add(r > 0.7 && r < 1.3)
		}
		n := len(tc.ratios)
		middle := tc.ratios[n/2]
		t.Logf("%d %s: foreseen over true p10 %.2f, p50 %.2f, p90 %.2f; %.0f %% within 30 %%",
			n, tc.what, tc.ratios[n/10], middle, tc.ratios[n*9/10], near.percent())
		if middle < 0.8 || middle > 1.25 || near.percent() < 50 {
			t.Errorf("the %s are not foreseen", tc.what)
		}
	}
}

// Deadlines at three times the load: what is refused at once although it would
// have been in time, what is let in and comes too late, and how much more is in
// time than where nothing is refused.
func TestDeadlinesUnderOverload(t *testing.T) {
	reference.Slow(t)
	const due = 12 * time.Second
	var wrong, missed, missedWithout share
	inTime, inTimeWithout := 0, 0
	for seed := range uint64(5) {
		run := func(o SimOptions) *SimResult {
			r, err := Simulate(o)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		// The verdict on each beside its fate, where nothing is refused for its deadline.
		for _, out := range run(overload(seed)).Outcomes {
			if refused := 0.85*float64(out.Expected) > float64(due); out.Err == nil && refused {
				wrong.add(out.TTFT() <= due)
			}
		}
		dated := overload(seed)
		for i := range dated.Requests {
			dated.Requests[i].FirstTokenIn = due
		}
		for _, out := range run(dated).Outcomes {
			if !errors.Is(out.Err, inference.ErrDeadlineUnreachable) && !errors.Is(out.Err, inference.ErrTenantQueueFull) && !errors.Is(out.Err, inference.ErrQueueFull) {
				missed.add(out.Err != nil)
			}
			if out.Err == nil {
				inTime++
			}
		}
		dated.Precheck = false
		for _, out := range run(dated).Outcomes {
			if errors.Is(out.Err, inference.ErrDeadline) || out.Err == nil {
				missedWithout.add(out.Err != nil)
			}
			if out.Err == nil {
				inTimeWithout++
			}
		}
	}
	t.Logf("%d verdicts that 12 s cannot be met, %.1f %% of them false; of those let in %.1f %% missed (%.1f %% where nothing is refused); in time %d (%d)",
		wrong.all, wrong.percent(), missed.percent(), missedWithout.percent(), inTime, inTimeWithout)
	if wrong.percent() > 10 || missed.percent() > missedWithout.percent() {
		t.Error("refusals of deadlines are false, or of no use")
	}
}
