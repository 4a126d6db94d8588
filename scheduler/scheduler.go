// Package scheduler plans the steps of the engine: which sequences advance in
// the next forward pass, by how many rows, in which KV blocks.
//
// It is a pure, deterministic state machine. One goroutine calls
//
//	Submit, Cancel → Plan → (copies, forward pass, sampling) → Commit
//
// in a loop; time enters as an argument, ids are slab index + generation, and
// no map is iterated, so the same calls give the same plans. A step in steady
// state allocates nothing. The engine, the simulator and the fuzzer run this
// same code.
//
// Three rules keep it free of deadlock and livelock: what can never fit is
// refused at the door; what is admitted fits now, together with its predicted
// growth; and the oldest running sequence of the highest active class is never
// preempted, so that every step advances it.
//
// A request is what a client asked for: the unit of queueing, fairness and
// cancellation. Its N choices are sequences: the unit of running, growing and
// preemption. The prompt is prefilled once and then forked.
package scheduler

import (
	"fmt"

	"weir/internal/inference"
	"weir/kvcache"
)

// Config limits the scheduler. Zero fields take the defaults named.
type Config struct {
	MaxSeqs        int // sequences running at once (--max-num-seqs); default 256
	MaxBatchTokens int // rows per step (--max-num-batched-tokens), at least MaxSeqs; default max(512, MaxSeqs)
	MaxModelLen    int // most tokens of a sequence, prompt and output (--max-model-len); required
	PrefillChunk   int // most rows of one prompt in one step; default MaxBatchTokens
	MaxPrefills    int // prompts longer than PrefillChunk that prefill at once; default 2

	MaxWaiting       int // requests in the queue; default 1024
	MaxWaitingTokens int // prompt tokens in the queue; 0 is no limit
	OvertakeLimit    int // times a request may be overtaken before it becomes a barrier; default 64

	PreemptLimit    int // preemptions of a sequence, after which only the oldest one may displace it; default 3
	MinRunTokens    int // tokens a sequence produces before it is a preferred victim; default 8
	WatermarkBlocks int // blocks left free by admission while anything runs; default 1 % of the pool, negative is none

	// OutputEstimate is the output length, in tokens, that admission assumes
	// of a request (or its MaxTokens where that is less); default 256. Large
	// values trade concurrency for fewer preemptions.
	OutputEstimate int

	// CapOutput lets a request in whose MaxTokens exceed what the pool could
	// ever hold; its output is cut to what fits and ends with FinishLength.
	// Otherwise such a request is refused.
	CapOutput bool

	// SharePercent is each lower class's guaranteed share; all zero means 10 %
	// for Default and 5 % for Bulk.
	SharePercent [inference.NumClasses]int
}

// LogitKind says which rows of a request's prompt need logits.
type LogitKind uint8

// Logit kinds.
const (
	LogitsLast LogitKind = iota // the last prompt row, to sample from
	LogitsAll                   // every prompt row (prompt logprobs)
	LogitsNone                  // no row: the hidden states are pooled
)

// Request is one request as the scheduler sees it. The prompt is shared with
// the caller and must not change until the request has ended.
type Request struct {
	Prompt    []inference.TokenID // at least one id
	MaxTokens int                 // output tokens per choice; 0 only with LogitsAll or LogitsNone
	N         int                 // choices; 0 is 1
	Logits    LogitKind
	NoCache   bool           // start without cached blocks; implied by LogitsAll and LogitsNone
	Domain    kvcache.Domain // isolation domain of the prefix cache
	Chain     []kvcache.Hash // of the prompt, as Domain.Chain gives it; nil is hashed here
	Tenant    string         // unit of fairness
	Weight    int            // the tenant's share, 1 to admission.MaxWeight; 0 is 1
	Class     inference.Class
	Deadline  int64 // a request still waiting then is ended with ErrExpired; 0 is none
	User      any   // the caller's own; handed back in chunks and ends
}

// ID names a request: slab index and generation, never 0. Index is small and
// dense, so callers may keep their own per-request state in a slice.
type ID uint64

// Index is the request's slot; it is reused after the request has ended.
func (id ID) Index() int { return int(uint32(id)) }

// String prints index and generation.
func (id ID) String() string { return fmt.Sprintf("%d.%d", uint32(id), uint32(id>>32)) }

// Plan is one step. The caller owns it and passes the same one again, so that
// its slices are reused. Everything in it is valid until the next Commit,
// Abandon or Cancel.
type Plan struct {
	Copies    []kvcache.Copy // row copies to execute in order, before any chunk writes
	Chunks    []Chunk        // rows to run, all in one forward pass
	Failed    []End          // requests that Plan ended: expired, or out of cache
	Admitted  []ID           // requests that left the queue
	Resumed   []ID           // requests of which a preempted sequence runs again
	Preempted []ID           // requests of which a sequence was preempted
	Rows      int            // sum of Chunks[i].Count
	Decodes   int            // chunks that are one decode row
}

// Chunk is a run of consecutive positions of one sequence.
type Chunk struct {
	Request ID
	Choice  int // choice of the request; 0 before the fork
	User    any

	Start  int                 // position of the first row; rows [0,Start) are in the KV cache
	Count  int                 // rows of this chunk, at least 1
	Tokens []inference.TokenID // [Count] ids of these positions
	Blocks []kvcache.BlockID   // the sequence's block table; covers at least Start+Count rows

	// LogitRows is how many of the last rows need logits: 0 while a prompt is
	// incomplete, 1 for a row to sample from. With LogitsAll every prompt row
	// is asked for exactly once, also across preemptions: they arrive in order.
	LogitRows int
	// Samples is how many tokens to sample from the last row: 0 or 1, or N
	// where a prompt ends that is forked into N choices (token i is choice
	// i's; those of cancelled choices are ignored).
	Samples int
	Decode  bool // a single row that continues an output
	Final   bool // the last row of the request's prompt is in this chunk
}

// Result is what the engine made of one chunk.
type Result struct {
	Tokens []inference.TokenID // [Samples] sampled ids
	Stop   []bool              // [Samples] the token ends its choice; nil is none
	Err    error               // ends the chunk's choices with FinishError
}

// End reports that a choice, or all remaining ones, ended.
type End struct {
	Request ID
	Choice  int // -1 is every choice that had not ended
	User    any
	Finish  inference.FinishReason
	Err     error // with FinishError and FinishCancelled, why
	Done    bool  // the request has no choice left and its ID is dead
}

