package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/admission"
	"weir/scheduler/cost"
)

// Config limits the scheduler. Zero fields take the defaults named.
type Config struct {
	MaxSeqs        int // sequences running at once (--max-num-seqs); default 256
	MaxBatchTokens int // rows per step (--max-num-batched-tokens), at least MaxSeqs; default max(512, MaxSeqs)
	MaxModelLen    int // most tokens of a sequence, prompt and output (--max-model-len); required
	PrefillChunk   int // most rows of one prompt in one step; default MaxBatchTokens
	MaxPrefills    int // prompts longer than PrefillChunk that prefill at once, beside one of each tenant that others crowd; default 2

	// ITLTarget is how long running outputs should wait at most for their next
	// token: a step beside them is planned to take as much of it as is safe,
	// which is learned (cost.Model.Share), and prompts get the rows that fit,
	// always some. 0 is off. A class can have its own target; where that is 0 it is
	// ITLTarget, and for Batch none. The strictest target among the classes that
	// outputs run of holds for the step.
	ITLTarget      time.Duration
	ClassITLTarget [inference.NumClasses]time.Duration
	// StepLimit bounds the estimated time of every step, for the sake of who
	// arrives or cancels meanwhile; a step may have 64 prompt rows in any case.
	// On fast machines the bound is lower, see maxStepRatio. Default 1 s, negative
	// is none.
	StepLimit time.Duration
	RowPanel  int            // rows that the kernels take at a time: cut steps end on a whole number of them; default 4
	Cost      cost.Prior     // of a step, before any was seen
	Attention cost.Attention // what rows attend to; nil: everything before them

	// Drafts are proposed for outputs by looking up what followed the
	// last ones earlier in the sequence; the step that computes the next token
	// verifies them. They concern requests that Speculate.
	MaxDrafts int // per output and step (--num-speculative-tokens); 0 is off
	LookupMax int // tokens that are looked up together, at most (--prompt-lookup-max); default 4
	LookupMin int // and at least (--prompt-lookup-min); default 2, or LookupMax where that is 1
	// Proposer proposes what is neither looked up nor forced; nil: there is none.
	Proposer Proposer

	// EveryDraft proposes drafts whatever they are expected to save, for tests of what verifies them.
	EveryDraft bool

	MaxWaiting       int // choices of the requests in the queue; default 1024
	MaxWaitingTokens int // prompt tokens in the queue; 0 is no limit
	OvertakeLimit    int // times a request may be overtaken before it becomes a barrier; default 64

	PreemptLimit    int // preemptions of a sequence, after which only the oldest one may displace it; default 3
	MinRunTokens    int // tokens a sequence produces before it is a preferred victim; default 8
	WatermarkBlocks int // blocks left free by admission while anything runs; default 1 % of the pool, negative is none

	// OutputEstimate is the output length, in tokens, that admission assumes
	// of a choice (or its MaxTokens where that is less). Large values trade
	// concurrency for fewer preemptions. 0 learns it from the answers that
	// ended, per tenant and by MaxTokens, and starts at 256.
	OutputEstimate int

	// CapOutput lets a request in whose MaxTokens exceed what the pool could
	// ever hold; its output is cut to what fits and ends with FinishLength.
	// Otherwise such a request is refused.
	CapOutput bool

	MaxWait time.Duration // how long a request may wait, as Request.WaitUntil; 0 is without end

	// SharePercent is each lower class's guaranteed share; all zero means 10 %
	// for Default and 5 % for Batch.
	SharePercent [inference.NumClasses]int

	Lane *admission.Lane // joins the tenants' counters to those of other schedulers of the process; nil is none
}

// complete fills in defaults and refuses what contradicts itself.
func (c Config) complete(pool *kvcache.Pool) (Config, error) {
	for _, f := range []struct {
		name  string
		value *int
		def   int
	}{
		{"MaxSeqs", &c.MaxSeqs, 256},
		{"MaxBatchTokens", &c.MaxBatchTokens, max(512, c.MaxSeqs)},
		{"MaxModelLen", &c.MaxModelLen, 0},
		{"PrefillChunk", &c.PrefillChunk, c.MaxBatchTokens},
		{"MaxPrefills", &c.MaxPrefills, 2},
		{"RowPanel", &c.RowPanel, 4},
		{"MaxWaiting", &c.MaxWaiting, 1024},
		{"MaxWaitingTokens", &c.MaxWaitingTokens, 0},
		{"OvertakeLimit", &c.OvertakeLimit, 64},
		{"PreemptLimit", &c.PreemptLimit, 3},
		{"MinRunTokens", &c.MinRunTokens, 8},
		{"OutputEstimate", &c.OutputEstimate, 0},
		{"MaxDrafts", &c.MaxDrafts, 0},
		{"LookupMax", &c.LookupMax, 4},
		{"LookupMin", &c.LookupMin, 0},
	} {
		if *f.value < 0 {
			return c, fmt.Errorf("%s is %d, want 0 (for the default) or more", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.def
		}
	}
	if c.LookupMin == 0 {
		c.LookupMin = min(2, c.LookupMax)
	}
	if c.PrefillChunk == 0 || c.PrefillChunk > c.MaxBatchTokens {
		c.PrefillChunk = c.MaxBatchTokens
	}
	c.PrefillChunk, c.MaxDrafts = min(c.PrefillChunk, pool.StepRows()), min(c.MaxDrafts, pool.StepRows()-1)
	switch {
	case c.ITLTarget < 0 || slices.Min(c.ClassITLTarget[:]) < 0:
		return c, fmt.Errorf("ITLTarget is %v, of classes %v, want 0 (for none) or more", c.ITLTarget, c.ClassITLTarget)
	case c.LookupMin > c.LookupMax:
		return c, fmt.Errorf("LookupMin is %d, want at most LookupMax (%d)", c.LookupMin, c.LookupMax)
	case c.MaxModelLen < 1:
		return c, errors.New("MaxModelLen is missing: it is the model's context in tokens")
	case c.MaxBatchTokens < c.MaxSeqs:
		return c, fmt.Errorf("MaxBatchTokens is %d, want at least MaxSeqs (%d), a row for every running sequence",
			c.MaxBatchTokens, c.MaxSeqs)
	}
	if c.StepLimit == 0 {
		c.StepLimit = time.Second
	}
	if c.WatermarkBlocks == 0 {
		c.WatermarkBlocks = pool.Usable() / 100
	}
	c.WatermarkBlocks = max(c.WatermarkBlocks, 0)
	if c.SharePercent == [inference.NumClasses]int{} {
		c.SharePercent = [inference.NumClasses]int{inference.Default: 10, inference.Batch: 5}
	}
	return c, nil
}
