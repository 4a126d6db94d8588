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
// growth; and every step advances the oldest running sequence of the highest active
// class, or preempts it for a tenant within its share of the blocks and advances
// that tenant's.
//
// A request is what a client asked for: the unit of queueing, fairness and
// cancellation. Its N choices are sequences: the unit of running, growing and
// preemption. The prompt is prefilled once and then forked.
package scheduler

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/admission"
	"weir/scheduler/answer"
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
	// On fast machines the bound is lower, see amortises. Default 1 s, negative
	// is none.
	StepLimit time.Duration
	RowPanel  int        // rows that the kernels take at a time: cut steps end on a whole number of them; default 4
	Cost      cost.Prior // of a step, before any was seen

	// Drafts guess the next tokens of outputs by looking up what followed the
	// last ones earlier in the sequence; the step that computes the next token
	// verifies them. They concern requests that Speculate.
	MaxDrafts int // per output and step (--num-speculative-tokens); 0 is off
	LookupMax int // tokens that are looked up together, at most (--prompt-lookup-max); default 4
	LookupMin int // and at least (--prompt-lookup-min); default 2, or LookupMax where that is 1

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

// LogitKind says which rows of a request's prompt need logits.
type LogitKind uint8

// Logit kinds.
const (
	LogitsLast LogitKind = iota // the last prompt row, to sample from
	LogitsAll                   // every prompt row (prompt logprobs)
	LogitsNone                  // none: the request ends when its prompt is in the cache
)

// Request is one request as the scheduler sees it. The prompt is shared with
// the caller and must not change until the request has ended.
type Request struct {
	Prompt    []inference.TokenID // at least one id
	MaxTokens int                 // output tokens per choice; 0 only with LogitsAll, and always with LogitsNone
	N         int                 // choices, at most MaxChoices; 0 is 1
	Logits    LogitKind
	NoCache   bool           // start without cached blocks; implied by LogitsAll
	Domain    kvcache.Domain // isolation domain of the prefix cache
	Chain     []kvcache.Hash // of the prompt, as Domain.Chain gives it; nil is hashed here
	Tenant    string         // unit of fairness
	Group     string         // requests of the tenant that share it are one call and take turns with others as one; "" is a call of its own
	Weight    int            // the tenant's share, 1 to admission.MaxWeight; 0 is 1
	Class     inference.Class
	OverQuota bool // shed first
	Retries   int  // times that the client has tried before: shed before first tries

	// Times, 0 is none. A request that still waits at WaitUntil ends with
	// inference.ErrQueueTimeout; one that has no token at FirstTokenBy, or has not
	// ended at DoneBy, ends with inference.ErrDeadline.
	FirstTokenBy, DoneBy, WaitUntil int64

	Spent *int64 // if not nil, grows by the compute time of the request's rows, in nanoseconds; rows computed again are left out

	Speculate bool // its outputs are drafted, up to Config.MaxDrafts tokens at a time
	User      any  // the caller's own; handed back in chunks and ends
}

// MaxChoices bounds N. Choices beyond the free slots wait for one.
const MaxChoices = 1 << 16

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
	Failed    []End          // requests that Plan ended: expired, or out of cache; and those that were shed since the last one
	Admitted  []ID           // requests that left the queue
	Resumed   []ID           // requests of which a preempted sequence runs again
	Preempted []ID           // requests of which a sequence was preempted
	Paused    []ID           // requests of which a sequence was paused
	Unpaused  []ID           // requests of which a paused sequence runs again
	Rows      int            // sum of Chunks[i].Count
	Decodes   int            // chunks that continue an output, each by one row and its drafts
	Drafts    int            // sum of Chunks[i].Drafts
	Estimate  time.Duration  // of the step; 0 before any step was timed
}

// Chunk is a run of consecutive positions of one sequence.
type Chunk struct {
	Request ID
	Choice  int // of the request; before the fork, the first live one stands for all
	User    any

	Start  int                 // position of the first row; rows [0,Start) are in the KV cache
	Count  int                 // rows of this chunk, at least 1
	Tokens []inference.TokenID // [Count] ids of these positions
	Blocks []kvcache.BlockID   // the sequence's block table; covers at least Start+Count rows

	// LogitRows is how many of the last rows need logits: 0 while a prompt is
	// incomplete or nothing but blocks is wanted, 1 for a row to sample from. With LogitsAll every prompt row
	// is asked for exactly once, also across preemptions: they arrive in order.
	LogitRows int
	// Samples is how many tokens to sample from the last row: 0, or 1 for the
	// chunk's choice, or several where a prompt ends that is forked (token i is
	// choice i's; those of ended choices are ignored). Choices beyond these
	// start later, when slots are free, with a chunk of their own.
	Samples int
	// Drafts is how many of the last tokens are guesses. Each of the last
	// 1+Drafts rows then needs logits. The engine samples from the first of
	// them, and from each next one while the token sampled before it equals the
	// guess in it: exactly the tokens that it would sample without drafts.
	Drafts int
	Forced bool // the drafts are those of Result.Forced
	Decode bool // a row that continues an output, and its drafts
	Final  bool // the last row of the request's prompt is in this chunk
}

// Result is what the engine made of one chunk.
type Result struct {
	Tokens []inference.TokenID // [Samples] sampled ids; with drafts from 1 to 1+Drafts
	Stop   []bool              // [len(Tokens)] the token ends its choice; nil is none
	Err    error               // ends the chunk's choices with FinishError
	Late   bool                // nothing was sampled: the sequence gets no rows until Release, and computes its last row again then
	Forced []inference.TokenID // all but certain to follow Tokens: proposed as drafts, of requests that do not Speculate, too
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

// Scheduler is the step planner. It belongs to one goroutine, except Check,
// and it is the only user of its pool's tables.
type Scheduler struct {
	cfg         Config
	pool        *kvcache.Pool
	usable      int // blocks that live sequences may hold together
	blockTokens int
	watermark   int // blocks

	waiting   *admission.Queue
	requests  slab
	running   []*sequence // in order of precedence; the first is preempted only for another tenant's share of the blocks
	paused    []*sequence // without a slot, their blocks kept, in the same order
	resuming  []*sequence // preempted, in the same order
	partial   []*request  // with choices that wait for a slot, in order of admission
	dated     []*request  // admitted, with deadlines, in order of admission
	lately    turn        // what was started last, a waiting request or a waiting choice
	spare     []*sequence // ended, for reuse
	slots     int         // taken of MaxSeqs: running sequences and forks to come
	parties   parties     // tenants with live requests
	admitted  uint64      // requests ever; numbers them in order of admission
	plans     uint64      // calls of Plan
	company   company     // of the requests submitted
	shortened uint64      // plan of the last short step

	prefilling []*sequence // scratch of prompts
	oldest     *sequence   // of the running prompts, after prompts

	cost    *cost.Model
	lengths *answer.Lengths
	typical typical
	step    step // the plan in the making, or out until Commit
	trial   trial
	ends    []End
	shed    []End // by Submit since the last Plan
	stats   Stats
}

// New returns a scheduler over the pool, of which it must be the only user.
func New(cfg Config, pool *kvcache.Pool) (*Scheduler, error) {
	if pool == nil {
		return nil, errors.New("build scheduler: no block pool")
	}
	cfg, err := cfg.complete(pool.Usable())
	if err != nil {
		return nil, fmt.Errorf("build scheduler: %w", err)
	}
	queue, err := admission.New(admission.Config{
		MaxRequests: cfg.MaxWaiting, MaxTokens: cfg.MaxWaitingTokens, SharePercent: cfg.SharePercent, Lane: cfg.Lane,
	})
	if err != nil {
		return nil, fmt.Errorf("build scheduler: %w", err)
	}
	return &Scheduler{
		cfg: cfg, pool: pool, usable: pool.Usable(), blockTokens: pool.BlockTokens(),
		watermark: cfg.WatermarkBlocks, waiting: queue, cost: cost.New(cfg.Cost),
		lengths: answer.NewLengths(),
		trial:   trial{slacks: make([]int, pool.BlockTokens())},
		parties: parties{byKey: map[partyKey]*party{}, recent: map[partyKey]peak{}},
	}, nil
}

// complete fills in defaults and refuses what contradicts itself.
func (c Config) complete(usable int) (Config, error) {
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
		c.WatermarkBlocks = usable / 100
	}
	c.WatermarkBlocks = max(c.WatermarkBlocks, 0)
	if c.SharePercent == [inference.NumClasses]int{} {
		c.SharePercent = [inference.NumClasses]int{inference.Default: 10, inference.Batch: 5}
	}
	return c, nil
}

// Check refuses, in constant time, what has no meaning and what can never be
// served: with inference.ErrInvalid, ErrContextLength or ErrNeverFits, the latter
// two as *inference.LimitError. It reads only what New set: call it from anywhere.
func (s *Scheduler) Check(r *Request) error {
	if err := r.consistent(); err != nil {
		return err
	}
	return s.checkSize(len(r.Prompt), r.MaxTokens)
}

// checkSize refuses what is too long for the model or too large for the pool.
func (s *Scheduler) checkSize(promptTokens, maxTokens int) error {
	switch {
	case maxTokens > s.cfg.MaxModelLen || promptTokens+maxTokens > s.cfg.MaxModelLen:
		return &inference.LimitError{
			Err: inference.ErrContextLength, What: "prompt tokens + max_tokens",
			Need: promptTokens + min(maxTokens, math.MaxInt-promptTokens), Limit: s.cfg.MaxModelLen,
			Remedy: "shorten the prompt, lower max_tokens or raise --max-model-len",
		}
	}
	if s.cfg.CapOutput {
		maxTokens = min(maxTokens, 1)
	}
	if need := s.blocksFor(finalRows(promptTokens, maxTokens)); need > s.usable {
		return &inference.LimitError{
			Err: inference.ErrNeverFits, What: "KV blocks", Need: need, Limit: s.usable,
			Remedy: "shorten the prompt, lower max_tokens or give the KV cache more memory",
		}
	}
	return nil
}

// finalRows is how many rows of KV a sequence ends with: the last output token
// is sampled but never computed.
func finalRows(promptTokens, outputTokens int) int { return promptTokens + max(outputTokens, 1) - 1 }

func (s *Scheduler) blocksFor(rows int) int { return (rows + s.blockTokens - 1) / s.blockTokens }

// Bounds are those of the waiting queue. They never change: read them from anywhere.
func (s *Scheduler) Bounds() admission.Bounds { return s.waiting.Bounds() }

// Submit queues a request, or refuses it: what Check says, or as
// *inference.LimitError inference.ErrQueueFull or ErrTenantQueueFull.
func (s *Scheduler) Submit(now int64, r Request) (ID, error) {
	if r.N == 0 {
		r.N = 1
	}
	if end := now + int64(s.cfg.MaxWait); s.cfg.MaxWait > 0 && (r.WaitUntil == 0 || r.WaitUntil > end) {
		r.WaitUntil = end
	}
	err := s.Check(&r)
	if err == nil {
		err = r.late(now)
	}
	if err != nil {
		s.stats.Refused++
		return 0, err
	}
	q := s.requests.take()
	q.ticket, err = s.offer(admission.Item{
		Ref: uint64(q.id), Tenant: r.Tenant, Class: r.Class, Group: r.Group, Weight: r.Weight, OverQuota: r.OverQuota, Retries: r.Retries,
		Choices: r.N, Tokens: len(r.Prompt), Cost: s.promptCost(len(r.Prompt), 0), Until: r.waitsUntil(), Due: r.firstDeadline(),
	})
	if err != nil {
		s.requests.put(q)
		s.stats.Refused++
		return 0, err
	}
	s.company.note(now, r.Tenant)
	s.pool.Protect(r.Domain, now+int64(protectionTime))
	q.open(r, s.usable*s.blockTokens)
	q.answers, q.party = s.lengths.Of(r.Tenant), s.parties.join(now, &q.Request)
	s.stats.Submitted++
	return q.id, nil
}

// offer queues an item. Where there is no room for it, requests of lower classes
// give way, which the next Plan reports.
func (s *Scheduler) offer(it admission.Item) (admission.Ticket, error) {
	for {
		ref, ok := s.waiting.Shed(it)
		if !ok {
			return s.waiting.Offer(it)
		}
		if r := s.requests.find(ID(ref)); r != nil {
			s.shed = append(s.shed, End{
				Request: r.id, Choice: -1, User: r.User, Finish: inference.FinishCancelled, Err: inference.ErrShed, Done: true,
			})
			s.endRequest(r, shed)
		}
	}
}

// consistent refuses values and combinations that have no meaning.
func (r *Request) consistent() error {
	switch {
	case len(r.Prompt) < 1:
		return fmt.Errorf("%w: the prompt is empty", inference.ErrInvalid)
	case r.MaxTokens < 0:
		return fmt.Errorf("%w: max_tokens is %d, want 0 or more", inference.ErrInvalid, r.MaxTokens)
	case r.N < 0 || r.N > MaxChoices:
		return fmt.Errorf("%w: n is %d, want 1 to %d", inference.ErrInvalid, r.N, MaxChoices)
	case r.Logits > LogitsNone:
		return fmt.Errorf("%w: logit kind %d", inference.ErrInvalid, r.Logits)
	case r.Logits == LogitsLast && r.MaxTokens == 0:
		return fmt.Errorf("%w: max_tokens is 0 and nothing else is asked for", inference.ErrInvalid)
	case r.Logits == LogitsNone && (r.MaxTokens > 0 || r.N > 1):
		return fmt.Errorf("%w: max_tokens is %d and n is %d of a request for its prompt's blocks alone, want 0 and 1", inference.ErrInvalid, r.MaxTokens, r.N)
	}
	return nil
}

// Progress reports how far a request has come; false when it has ended.
func (s *Scheduler) Progress(id ID) (inference.Progress, bool) {
	r := s.requests.find(id)
	if r == nil {
		return inference.Progress{}, false
	}
	ahead, _ := s.waiting.Position(r.ticket)
	return inference.Progress{Position: ahead, PrefillTokens: r.prefilled, CachedTokens: r.cached}, true
}
