package configs

import (
	"math"
	"time"

	"weir/internal/inference"
	"weir/scheduler"
)

// defaultScheduler spells out what the scheduler would choose itself, so that
// every value can be shown.
func defaultScheduler() scheduler.Config {
	return scheduler.Config{
		MaxSeqs: 64, MaxBatchTokens: 512, PrefillChunk: 512, MaxPrefills: 2,
		MaxWaiting: 1024, OvertakeLimit: 64, PreemptLimit: 3, MinRunTokens: 8,
		MaxWait: 10 * time.Minute, SharePercent: [inference.NumClasses]int{inference.Default: 10, inference.Batch: 5},
		ITLTarget: 200 * time.Millisecond, MaxDrafts: 8, LookupMax: 4, LookupMin: 2,
		CapOutput: true,
	}
}

// schedulerSettings are the rows of the table for the step planner and its queue.
func schedulerSettings(c *Config) []Setting {
	const anySize = math.MaxInt32
	return []Setting{
		{Key: "scheduler.max_model_len", Flag: "max-model-len",
			Usage:   "longest sequence in tokens; 0 is the model's own context",
			binding: bindInt(&c.Scheduler.MaxModelLen, 0, anySize, "")},
		{Key: "scheduler.max_num_seqs", Flag: "max-num-seqs", Usage: "sequences that run at once, at most",
			binding: bindInt(&c.Scheduler.MaxSeqs, 1, 65536, "")},
		{Key: "scheduler.max_num_batched_tokens", Flag: "max-num-batched-tokens",
			Usage:   "tokens that one step computes at most, prefill and decode together",
			binding: bindInt(&c.Scheduler.MaxBatchTokens, 1, 1<<20, "")},
		{Key: "scheduler.itl_target_ms", Flag: "itl-target-ms",
			Usage: "target for the inter-token latency: while sequences decode, prefill gets the tokens that fit in this " +
				"time by estimate; 0 is no target",
			binding: bindMilliseconds(&c.Scheduler.ITLTarget, 0, 60_000)},
		{Key: "scheduler.itl_target_interactive_ms", Flag: "itl-target-interactive-ms",
			Usage:   "target for the inter-token latency of the class interactive; 0 is that of itl_target_ms",
			binding: bindMilliseconds(&c.Scheduler.ClassITLTarget[inference.Interactive], 0, 60_000)},
		{Key: "scheduler.itl_target_batch_ms", Flag: "itl-target-batch-ms",
			Usage: "target for the inter-token latency of the class batch, which holds where nothing else decodes; " +
				"0 is no target",
			binding: bindMilliseconds(&c.Scheduler.ClassITLTarget[inference.Batch], 0, 60_000)},
		{Key: "scheduler.long_prefill_token_threshold", Flag: "long-prefill-token-threshold",
			Usage:   "tokens of one prompt that one step computes at most; a prompt with more is a long one",
			binding: bindInt(&c.Scheduler.PrefillChunk, 1, 1<<20, "")},
		{Key: "scheduler.max_long_partial_prefills", Flag: "max-long-partial-prefills",
			Usage:   "long prompts that are prefilled at once, at most",
			binding: bindInt(&c.Scheduler.MaxPrefills, 1, 65536, "")},
		{Key: "scheduler.max_num_queued_reqs", Flag: "max-num-queued-reqs",
			Usage: "choices in the waiting queue at most; further requests get 503, or 429 where their tenant has its " +
				"share",
			binding: bindInt(&c.Scheduler.MaxWaiting, 1, anySize, "")},
		{Key: "scheduler.max_num_queued_tokens", Flag: "max-num-queued-tokens",
			Usage:   "prompt tokens in the waiting queue at most; 0 is no limit",
			binding: bindInt(&c.Scheduler.MaxWaitingTokens, 0, anySize, "")},
		{Key: "scheduler.queue_timeout_ms", Flag: "queue-timeout-ms",
			Usage:   "how long a request may wait in the queue before it ends with 503; 0 is without end",
			binding: bindMilliseconds(&c.Scheduler.MaxWait, 0, 86_400_000)},
		{Key: "scheduler.share_default_percent", Flag: "share-default-percent",
			Usage:   "part of the work of the class interactive that the class default gets in any case while it waits",
			binding: bindInt(&c.Scheduler.SharePercent[inference.Default], 1, 50, "")},
		{Key: "scheduler.share_batch_percent", Flag: "share-batch-percent",
			Usage:   "part of the work of higher classes that the class batch gets in any case while it waits",
			binding: bindInt(&c.Scheduler.SharePercent[inference.Batch], 1, 50, "")},
		{Key: "scheduler.overtake_limit", Flag: "overtake-limit",
			Usage:   "times that later requests may overtake a waiting one",
			binding: bindInt(&c.Scheduler.OvertakeLimit, 1, anySize, "")},
		{Key: "scheduler.preempt_limit", Flag: "preempt-limit",
			Usage:   "preemptions of one sequence after which only the oldest running one may preempt it",
			binding: bindInt(&c.Scheduler.PreemptLimit, 1, anySize, "")},
		{Key: "scheduler.output_estimate", Flag: "output-estimate",
			Usage:   "output tokens that admission expects of each choice; 0 learns them from answers that have ended",
			binding: bindInt(&c.Scheduler.OutputEstimate, 0, anySize, "")},
		{Key: "scheduler.num_speculative_tokens", Flag: "num-speculative-tokens",
			Usage: "draft tokens per sequence and step at most, fewer where they do not pay; 0 turns speculative " +
				"decoding off",
			binding: bindInt(&c.Scheduler.MaxDrafts, 0, 1024, "")},
		{Key: "scheduler.prompt_lookup_max", Flag: "prompt-lookup-max",
			Usage:   "length of the longest n-gram that is looked up to propose draft tokens",
			binding: bindInt(&c.Scheduler.LookupMax, 1, 1024, "")},
		{Key: "scheduler.prompt_lookup_min", Flag: "prompt-lookup-min",
			Usage:   "length of the shortest n-gram that may propose draft tokens",
			binding: bindInt(&c.Scheduler.LookupMin, 1, 1024, "")},
	}
}
