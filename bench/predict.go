package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The protocols that RunPredict speaks.
const (
	PredictV1     = "v1"     // POST /v1/models/{model}:predict, rows as JSON
	PredictV2     = "v2"     // POST /v2/models/{model}/infer, data as JSON
	PredictBinary = "binary" // the same with binary tensors both ways
	PredictGRPC   = "grpc"   // inference.GRPCInferenceService with raw contents
)

// PredictTarget is a model behind a server of predict protocols, with one input of
// shape [rows, Columns] and type FP32.
type PredictTarget struct {
	URL     string // http://host:port
	GRPC    string // host:port
	Model   string
	Input   string
	Columns int
	APIKey  string
}

// Describe fills what is empty from the server's V2 metadata: the first model, its
// input's name and columns.
func (t *PredictTarget) Describe(ctx context.Context) error {
	if t.Model == "" {
		var index struct{ Models []string }
		if err := t.get(ctx, "/v2/models", &index); err != nil {
			return err
		}
		if len(index.Models) == 0 {
			return errors.New("the server lists no model at /v2/models; name one with --model")
		}
		t.Model = index.Models[0]
	}
	if t.Input != "" && t.Columns > 0 {
		return nil
	}
	var about struct {
		Inputs []struct {
			Name, Datatype string
			Shape          []int
		}
	}
	if err := t.get(ctx, "/v2/models/"+t.Model, &about); err != nil {
		return err
	}
	if len(about.Inputs) != 1 || about.Inputs[0].Datatype != "FP32" || len(about.Inputs[0].Shape) != 2 || about.Inputs[0].Shape[1] < 1 {
		return fmt.Errorf("model %s takes %v; this benchmark sends one FP32 input of shape [-1 columns]", t.Model, about.Inputs)
	}
	t.Input, t.Columns = about.Inputs[0].Name, about.Inputs[0].Shape[1]
	return nil
}

func (t *PredictTarget) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.URL+path, http.NoBody)
	if err != nil {
		return err
	}
	if t.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+t.APIKey)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: status %d; name the model, its input and its columns by flags", path, res.StatusCode)
	}
	return json.NewDecoder(res.Body).Decode(into)
}

// PredictLoad is what is sent and how fast.
type PredictLoad struct {
	Protocol    string
	Rows        int     // of each request
	Connections int     // each has one request at a time
	Rate        float64 // requests per second with Poisson arrivals; 0: each connection sends when its answer is there
	Duration    time.Duration
	Warmup      time.Duration // before it, not counted
	Seed        uint64
}

// PredictRun is what one load measured. Latencies are in milliseconds; with a rate they
// count from the time at which a request was due, so that a stalled server is charged
// for those who waited behind it.
type PredictRun struct {
	PredictLoad
	Requests, Errors          int
	PerSecond                 float64
	P50, P99, P999, Max, Mean float64
	FirstError                error
}

// predictBodies is how many different requests are sent in turn: models must not see
// one row again and again.
const predictBodies = 256

// sender sends request i and reads its answer. It belongs to one goroutine.
type sender interface {
	send(ctx context.Context, i int) error
	close()
}

// RunPredict sends a load and measures it.
func RunPredict(ctx context.Context, t PredictTarget, l PredictLoad) (PredictRun, error) {
	dial, err := dialer(&t, &l)
	if err != nil {
		return PredictRun{}, err
	}
	senders := make([]sender, l.Connections)
	for i := range senders {
		if senders[i], err = dial(ctx); err != nil {
			return PredictRun{}, err
		}
		defer senders[i].close()
	}
	warm := l
	if warm.Duration = l.Warmup; l.Warmup > 0 {
		warm.run(ctx, senders)
	}
	return l.run(ctx, senders), ctx.Err()
}

// dialer makes the connections of a protocol.
func dialer(t *PredictTarget, l *PredictLoad) (func(context.Context) (sender, error), error) {
	r := rand.New(rand.NewPCG(l.Seed, 0))
	rows := make([][]float32, predictBodies)
	for i := range rows {
		for range l.Rows * t.Columns {
			rows[i] = append(rows[i], float32(r.IntN(1000))/100)
		}
	}
	switch l.Protocol {
	case PredictV1, PredictV2, PredictBinary:
		return httpDialer(t, l, rows)
	case PredictGRPC:
		return grpcDialer(t, l, rows), nil
	}
	return nil, fmt.Errorf("protocol %q is unknown; known are %s, %s, %s, %s", l.Protocol, PredictV1, PredictV2, PredictBinary, PredictGRPC)
}

// latencies are what one connection has measured.
type latencies struct {
	took  []time.Duration
	first error
	fails int
}

func (l PredictLoad) run(ctx context.Context, senders []sender) PredictRun {
	var due []float64
	if l.Rate > 0 {
		n := max(1, int(l.Rate*l.Duration.Seconds()))
		due = gammaArrivals(rand.New(rand.NewPCG(l.Seed, 1)), n, l.Rate, 1)
	}
	samples := make([]latencies, len(senders))
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for k, s := range senders {
		wg.Go(func() {
			own := &samples[k]
			for ctx.Err() == nil {
				i := int(next.Add(1) - 1)
				at := time.Now()
				switch {
				case l.Rate == 0:
					if at.Sub(start) >= l.Duration {
						return
					}
				case i >= len(due):
					return
				default:
					at = start.Add(time.Duration(due[i] * float64(time.Second)))
					time.Sleep(time.Until(at))
				}
				err := s.send(ctx, i%predictBodies)
				own.took = append(own.took, time.Since(at))
				if err != nil {
					own.fails++
					if own.first == nil {
						own.first = err
					}
				}
			}
		})
	}
	wg.Wait()
	return l.sum(samples, time.Since(start))
}

func (l PredictLoad) sum(samples []latencies, took time.Duration) PredictRun {
	run := PredictRun{PredictLoad: l}
	var all []time.Duration
	total := time.Duration(0)
	for i := range samples {
		all = append(all, samples[i].took...)
		run.Errors += samples[i].fails
		if run.FirstError == nil {
			run.FirstError = samples[i].first
		}
	}
	run.Requests = len(all)
	if len(all) == 0 {
		return run
	}
	for _, d := range all {
		total += d
	}
	slices.Sort(all)
	at := func(q float64) float64 {
		return 1e3 * all[min(len(all)-1, int(q*float64(len(all))))].Seconds()
	}
	run.PerSecond = float64(len(all)-run.Errors) / took.Seconds()
	run.P50, run.P99, run.P999, run.Max = at(0.5), at(0.99), at(0.999), at(1)
	run.Mean = 1e3 * total.Seconds() / float64(len(all))
	return run
}

const (
	searchSteps = 6
	keptUp      = 0.98 // of the rate that was asked for
)

// SearchPredict finds the highest rate of Poisson arrivals at which the 99th percentile
// stays within most milliseconds, by halving between 0 and what a closed loop reaches.
// runs are all that it measured, the closed loop first.
func SearchPredict(ctx context.Context, t PredictTarget, l PredictLoad, most float64) (best PredictRun, runs []PredictRun, err error) {
	l.Rate = 0
	closed, err := RunPredict(ctx, t, l)
	if err != nil {
		return best, nil, err
	}
	runs = append(runs, closed)
	if closed.PerSecond == 0 {
		return best, runs, closed.FirstError
	}
	low, high := 0.0, closed.PerSecond
	for step := range searchSteps {
		l.Rate, l.Seed = (low+high)/2, l.Seed+1
		if step == 0 {
			l.Rate = 0.9 * high
		}
		run, err := RunPredict(ctx, t, l)
		if err != nil {
			return best, runs, err
		}
		runs = append(runs, run)
		if run.P99 <= most && run.Errors == 0 && run.PerSecond >= keptUp*l.Rate {
			best, low = run, l.Rate
		} else {
			high = l.Rate
		}
	}
	return best, runs, nil
}

// WritePredict is a table of runs.
func WritePredict(runs []PredictRun) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s %5s %5s %10s %10s %9s %9s %9s %7s\n", "protocol", "rows", "conns", "rate", "requests/s", "p50 ms", "p99 ms", "p99.9 ms", "errors")
	for i := range runs {
		r := &runs[i]
		rate := "closed"
		if r.Rate > 0 {
			rate = fmt.Sprintf("%.0f", r.Rate)
		}
		fmt.Fprintf(&b, "%-8s %5d %5d %10s %10.0f %9.3f %9.3f %9.3f %7d\n",
			r.Protocol, r.Rows, r.Connections, rate, r.PerSecond, r.P50, r.P99, r.P999, r.Errors)
	}
	return b.String()
}
