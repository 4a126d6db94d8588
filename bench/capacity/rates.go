package capacity

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/bench"
	"weir/scheduler/cost"
)

// Rates are what one replica of a model was measured to do on an instance.
type Rates struct {
	Prefill   float64 // prompt tokens a second
	Decode    float64 // output tokens a second of all Sequences together
	Sequences int     // the most that were measured at once

	Machine *bench.Machine // steps as they were measured; nil where that is not enough to tell latencies
	Off     float64        // how far the machine is from what was measured, in the mean, as a share
	WhyNot  error          // why there is no machine
}

// measured is a step, or so many equal ones, and how long one took.
type measured struct {
	load  cost.Load
	took  time.Duration
	count int // of output tokens a sequence; 0 is of a prompt
}

// stepRows is how many rows of prompts a step computes at most where a result does not say it: the default of --max-num-batched-tokens.
const stepRows = 512

// promptSteps is how many steps n prompts of so many tokens take at least, with so many rows in each.
func promptSteps(n, tokens, rows int) int { return (n*tokens + rows - 1) / rows }

// prompts is what n prompts of so many tokens took in so many steps.
func prompts(n, tokens, steps int, seconds float64) measured {
	per := func(total int) int { return max(1, total/steps) }
	return measured{
		load: cost.Load{Rows: per(n * tokens), Outputs: max(1, n/steps), Prompt: per(n * cost.Attended(0, tokens))},
		took: time.Duration(seconds / float64(steps) * 1e9),
	}
}

// outputs is what a step of n sequences that attend to so many tokens each took.
func outputs(n, context int, seconds float64) measured {
	return measured{load: cost.Load{Rows: n, Outputs: n, Decode: n * context}, took: time.Duration(seconds * 1e9), count: n}
}

// FromBatched reads the rates from results of `weir bench batched`: those of the test with the most sequences, or with so many as are asked
// for, their mean over the results, and steps from all tests. Several results of one machine tell more than one, where it is not always
// equally fast.
func FromBatched(results []*bench.Result, sequences int) (*Rates, error) {
	rates := &Rates{}
	var seen []measured
	for _, r := range results {
		one := batchedRates(r, sequences)
		if !(one.Prefill > 0 && one.Decode > 0) {
			return nil, fmt.Errorf("a result of kind %q has no rates of prompts and outputs for %d sequences: plan reads `weir bench batched -o json`",
				r.Kind, sequences)
		}
		if rates.Sequences > 0 && rates.Sequences != one.Sequences {
			return nil, fmt.Errorf("results of %d and of %d sequences: they are not of the same tests", rates.Sequences, one.Sequences)
		}
		n := float64(len(results))
		rates.Prefill, rates.Decode, rates.Sequences = rates.Prefill+one.Prefill/n, rates.Decode+one.Decode/n, one.Sequences
		seen = append(seen, batchedSteps(r)...)
	}
	if len(results) == 0 {
		return nil, errors.New("no result of weir bench batched")
	}
	rates.learn(seen)
	return rates, nil
}

// eachBatched calls use with the figures of a result's tests.
func eachBatched(r *bench.Result, use func(prompt, generate, n int, figure string, value float64)) {
	for _, row := range r.Rows {
		var prompt, generate, n int
		var figure string
		if got, _ := fmt.Sscanf(row.Name, "npp%d ntg%d npl%d %s", &prompt, &generate, &n, &figure); got == 4 && row.Value > 0 &&
			prompt >= 1 && generate >= 1 && n >= 1 && prompt <= mostTokens && generate <= mostTokens && n <= mostSequences {
			use(prompt, generate, n, figure, row.Value)
		}
	}
}

// batchedSteps are how long the steps of a result's tests took. A result that does not tell how many steps computed the prompts is taken to have
// filled each of them.
func batchedSteps(r *bench.Result) []measured {
	var seen []measured
	steps := make(map[bench.BatchedTest]int)
	eachBatched(r, func(prompt, generate, n int, figure string, value float64) {
		if figure == "N_PP" {
			steps[bench.BatchedTest{Prompt: prompt, Generate: generate, Sequences: n}] = int(min(value, float64(n*prompt)))
		}
	})
	eachBatched(r, func(prompt, generate, n int, figure string, value float64) {
		switch figure {
		case "T_PP":
			taken := max(steps[bench.BatchedTest{Prompt: prompt, Generate: generate, Sequences: n}], promptSteps(n, prompt, stepRows))
			seen = append(seen, prompts(n, prompt, taken, value))
		case "T_TG":
			seen = append(seen, outputs(n, prompt+generate/2, value/float64(generate)))
		}
	})
	return seen
}

// batchedRates are those of the test with so many sequences, or the most, and of these the one with the longest prompts.
func batchedRates(r *bench.Result, sequences int) Rates {
	var rates Rates
	longest := 0
	eachBatched(r, func(prompt, _, n int, figure string, value float64) {
		if sequences > 0 && n != sequences || n < rates.Sequences || n == rates.Sequences && prompt < longest {
			return
		}
		switch figure {
		case "S_PP":
			rates.Prefill, rates.Sequences, longest = value, n, prompt
		case "S_TG":
			rates.Decode, rates.Sequences, longest = value, n, prompt
		}
	})
	return rates
}

// Bounds of what a result may say.
const (
	mostTokens    = 1 << 20
	mostSequences = 1 << 16
)

// FromServe reads the rates from results of `vllm bench serve` or `weir bench serve` at several --max-concurrency: the median inter-token
// latency of each is a step of so many sequences, and the median time to the first token of a single client is a prompt.
func FromServe(results []*bench.Result, rows int) (*Rates, error) {
	rates := &Rates{}
	var seen []measured
	for _, r := range results {
		value := func(name string) float64 {
			if i := slices.IndexFunc(r.Rows, func(w bench.Row) bool { return w.Name == name }); i >= 0 {
				return r.Rows[i].Value
			}
			return 0
		}
		var n int
		if !r.Member("max_concurrency", &n) || n < 1 || n > mostSequences {
			return nil, errors.New("a result without max_concurrency: measure at --max-concurrency 1 and at some more, --request-rate inf")
		}
		done, itl := value("completed"), value("median_itl_ms")/1000
		prompt, output := value("total_input_tokens")/done, value("total_output_tokens")/done
		if !(done > 0 && itl > 0 && prompt >= 1 && output >= 1 && prompt <= mostTokens && output <= mostTokens) {
			return nil, fmt.Errorf("a result of %g answers with %g + %g tokens and a median ITL of %g s: plan needs all of them above 0",
				done, prompt, output, itl)
		}
		seen = append(seen, outputs(n, int(prompt+output/2), itl))
		if n > rates.Sequences {
			rates.Sequences, rates.Decode = n, float64(n)/itl
		}
		if ttft := value("median_ttft_ms") / 1000; n == 1 && ttft > 0 {
			seen = append(seen, prompts(1, int(prompt), promptSteps(1, int(prompt), rows), ttft))
			rates.Prefill = prompt / ttft
		}
	}
	if !(rates.Prefill > 0) {
		return nil, errors.New("no result has max_concurrency 1, which tells how long a prompt takes")
	}
	rates.learn(seen)
	return rates, nil
}

// Batch is the inter-token latency of so many sequences at once.
type Batch struct {
	Sequences int           `yaml:"sequences"`
	ITL       time.Duration `yaml:"itl"`
}

// FromNumbers are rates that somebody knows: prompt tokens a second, and the inter-token latency of some numbers of sequences that hold so
// many tokens each.
func FromNumbers(prefill float64, batches []Batch, context, rows int) (*Rates, error) {
	if !(prefill > 0) || len(batches) == 0 {
		return nil, errors.New("want prefill_tokens_per_second and at least one line of decode")
	}
	rates := &Rates{Prefill: prefill}
	seen := []measured{prompts(1, rows, 1, float64(rows)/prefill)}
	for _, b := range batches {
		if b.Sequences < 1 || b.Sequences > mostSequences || b.ITL <= 0 {
			return nil, fmt.Errorf("an inter-token latency of %v for %d sequences, want both above 0", b.ITL, b.Sequences)
		}
		seen = append(seen, outputs(b.Sequences, context, b.ITL.Seconds()))
		if b.Sequences > rates.Sequences {
			rates.Sequences, rates.Decode = b.Sequences, float64(b.Sequences)/b.ITL.Seconds()
		}
	}
	rates.learn(seen)
	return rates, nil
}

// learn makes a machine of what was measured.
func (r *Rates) learn(seen []measured) {
	counts := map[int]bool{}
	var steps []cost.Observation
	for _, m := range seen {
		if m.count > 0 {
			counts[m.count] = true
		}
		steps = append(steps, cost.Observation{Load: m.load, Took: m.took})
	}
	if len(counts) < 2 {
		r.WhyNot = errors.New("latencies need decode rates of two numbers of sequences or more, as `weir bench batched --npl 1,4,16` gives")
		return
	}
	r.Machine = &bench.Machine{Learned: cost.Fit(cost.Prior{}, steps)}
	r.Off = r.Machine.Learned.Error()
}
