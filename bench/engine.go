package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// EngineTest is one row of `bench engine`: a prompt of so many tokens, then so
// many generated ones, after a context of Depth that is in the cache already.
type EngineTest struct {
	Prompt, Generate int
	Depth            int
}

// String names the test as llama-bench does: pp512, tg128, pp512+tg128, and
// the depth behind an @.
func (t EngineTest) String() string {
	name := fmt.Sprintf("pp%d+tg%d", t.Prompt, t.Generate)
	switch {
	case t.Generate == 0:
		name = fmt.Sprintf("pp%d", t.Prompt)
	case t.Prompt == 0:
		name = fmt.Sprintf("tg%d", t.Generate)
	}
	if t.Depth > 0 {
		name += fmt.Sprintf(" @ d%d", t.Depth)
	}
	return name
}

// length is the longest sequence that the test makes.
func (t EngineTest) length() int { return t.Depth + max(t.Prompt, 1) + t.Generate + 1 }

// EngineOptions say what RunEngine measures.
type EngineOptions struct {
	Tests       []EngineTest
	Repetitions int
	NoWarmup    bool

	Progress func(test EngineTest, done, total int) // called after each repetition
}

// Length is the longest sequence of all tests and of the warm-up, in tokens:
// what the engine must be able to hold.
func (o EngineOptions) Length() int {
	longest := 0
	for _, t := range o.Tests {
		longest = max(longest, t.length())
	}
	return longest + 1
}

// Check refuses what cannot be measured. Contexts are taken from the prefix
// cache, which keeps whole blocks.
func (o EngineOptions) Check(blockTokens int) error {
	if o.Repetitions < 1 {
		return fmt.Errorf("repetitions %d: must be at least 1", o.Repetitions)
	}
	if len(o.Tests) == 0 {
		return errors.New("no test: give a prompt length or a count of tokens to generate")
	}
	for _, t := range o.Tests {
		switch {
		case t.Prompt < 0 || t.Generate < 0 || t.Depth < 0:
			return fmt.Errorf("test %s: counts must not be negative", t)
		case t.Prompt+t.Generate == 0:
			return errors.New("test with a prompt of 0 tokens and 0 to generate: nothing to measure")
		case t.Depth%blockTokens != 0:
			return fmt.Errorf("test %s: the depth must be a multiple of the block size %d", t, blockTokens)
		}
	}
	return nil
}

// EngineRow is a measured test.
type EngineRow struct {
	Test    EngineTest
	Seconds []float64 // of each repetition
}

// tokens that the test's time is for.
func (r EngineRow) tokens() int { return r.Test.Prompt + r.Test.Generate }

// Rates are tokens per second of each repetition.
func (r EngineRow) Rates() []float64 {
	rates := make([]float64, len(r.Seconds))
	for i, s := range r.Seconds {
		rates[i] = float64(r.tokens()) / s
	}
	return rates
}

// RunEngine measures one sequence alone, as llama-bench does. pp is the time
// from the start of the first step to the end of the step that gives the first
// token; tg is that of the steps after it, one token each; both together run
// from the first start to the last end. Sampling is greedy and part of a step.
// Every repetition has tokens and a domain of its own, so that the prefix
// cache gives it nothing but its depth.
func (r *Rig) RunEngine(ctx context.Context, o EngineOptions) ([]EngineRow, error) {
	if err := o.Check(r.Info().BlockTokens); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(EngineTest, int, int) {}
	}
	if !o.NoWarmup {
		if err := r.warmUp(ctx, o); err != nil {
			return nil, fmt.Errorf("warm up: %w", err)
		}
	}
	var out []EngineRow
	for i, t := range o.Tests {
		row := EngineRow{Test: t}
		for n := range o.Repetitions {
			d, err := r.measure(ctx, t)
			if err != nil {
				return nil, fmt.Errorf("measure %s: %w", t, err)
			}
			row.Seconds = append(row.Seconds, d.Seconds())
			o.Progress(t, i*o.Repetitions+n+1, len(o.Tests)*o.Repetitions)
		}
		out = append(out, row)
	}
	return out, nil
}

// warmUp touches all weights and starts the workers: a whole prompt, or one
// token, as the tests need.
func (r *Rig) warmUp(ctx context.Context, o EngineOptions) error {
	t := EngineTest{Generate: 1}
	for _, test := range o.Tests {
		t.Prompt = max(t.Prompt, test.Prompt)
	}
	_, err := r.measure(ctx, t)
	return err
}

func (r *Rig) measure(ctx context.Context, t EngineTest) (time.Duration, error) {
	domain, past := r.domain(), r.tokens(t.Depth)
	if t.Depth > 0 {
		if _, err := r.generate(ctx, domain, past, 1); err != nil {
			return 0, fmt.Errorf("fill the context: %w", err)
		}
	}
	prompt := max(t.Prompt, 1)
	steps, err := r.generate(ctx, domain, append(past, r.tokens(prompt)...), t.Generate+1)
	if err != nil {
		return 0, err
	}
	if err := expectRows(steps, prompt, t.Generate); err != nil {
		return 0, err
	}
	last := steps[len(steps)-1].end
	if t.Prompt > 0 {
		return last.Sub(steps[0].start()), nil
	}
	return last.Sub(steps[0].end), nil // the first step read the one token that there has to be
}

// Fill adds the rows to a result.
func (r *Rig) Fill(result *Result) {
	info := r.Info()
	result.Threads = info.Threads
	result.Model.Digest = info.Digest
	result.set("cpu_level", r.level)
	result.set("kv_cache_dtype", info.KVType)
	result.set("parameters", info.Params)
	result.set("file_bytes", info.FileBytes)
}

// AddEngine appends the rows of RunEngine.
func (r *Result) AddEngine(rows []EngineRow) {
	for _, row := range rows {
		r.Add(row.Test.String(), "tok/s", row.Rates()...)
	}
}

// sampleDeviation is the standard deviation of a sample, as llama-bench prints it; 0
// where there is one value.
func sampleDeviation(values []float64) float64 {
	n := len(values)
	if n < 2 {
		return 0
	}
	return Deviation(values) * math.Sqrt(float64(n)/float64(n-1))
}
