package scheduler

import (
	"time"

	"weir/scheduler/admission"
	"weir/scheduler/cost"
	"weir/scheduler/outputlen"
)

// CostEstimates is what requests are expected to take, as a value that other goroutines
// may keep while the scheduler goes on to learn.
type CostEstimates struct {
	prices      cost.Prices
	attention   cost.Attention
	outputTimes outputTimes
	answers     outputlen.Means
	known       bool // a step was timed
}

// estimateRows are the rows of a step by whose prices prompts are estimated.
const estimateRows = 64

// token is the work of an output token: until some were timed, that of its rows alone.
func (t *CostEstimates) token() float64 {
	if t.outputTimes.token > 0 {
		return t.outputTimes.token
	}
	return t.prices.Row + t.prices.Output
}

// Prompt is how long the rows of a prompt from one to another are expected to take in a machine that does nothing else.
func (t *CostEstimates) Prompt(from, to int) time.Duration {
	return time.Duration(t.prices.Step + t.prices.Of(cost.Load{Rows: to - from, Prompt: t.attention.Attended(from, to-from)}))
}

// Item is a request as the queue's Precheck counts it.
func (t *CostEstimates) Item(r *Request) admission.Item {
	it := admission.Item{
		Tenant: r.Tenant, Class: r.Class, Weight: r.Weight, OverQuota: r.OverQuota, Retries: r.Retries,
		Choices: max(r.N, 1), Tokens: len(r.Prompt), FirstTokenBy: r.FirstTokenBy, DoneBy: r.DoneBy,
	}
	rows := len(r.Prompt)
	prompt := t.prices.Step + t.prices.Of(cost.Load{Rows: rows, Outputs: 1, Prompt: t.attention.Attended(0, rows)})
	output, learned := t.answers.Of(r.MaxTokens)
	it.Work = uint64(prompt + t.token()*output*float64(it.Choices))
	if !t.known { // the work of requests compares, but how long it takes is not known yet
		return it
	}
	it.FirstToken = time.Duration(prompt)
	it.Done = it.FirstToken
	if learned { // many answers are half as long as the mean, and a deadline is refused only where it is surely missed
		it.Done += time.Duration(t.outputTimes.step * output / 2)
	}
	return it
}
