package llm

import (
	"cmp"
	"fmt"
	"sort"
	"strings"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/pool"
	"weir/engine/kernel/weight"
	"weir/internal/cpu"
	"weir/internal/inference"
	"weir/internal/unit"
	"weir/scheduler"
	"weir/scheduler/admission"
)

// Options say how to run a model. The zero value of a field means its default.
type Options struct {
	Pool        *pool.Pool            // compute threads shared with other engines, whose owner closes it; nil: the engine makes a pool of its own
	Service     *admission.Service    // counts what tenants use over all engines that share it; nil: this engine alone
	PoolWeight  int                   // share of Pool's time among engines that want it; 0 is 1
	Threads     int                   // compute threads without Pool; 0 is one per core
	Level       isa.Level             // instruction set; isa.Auto is the best of the machine
	KVType      attend.KVType         // of the cache; Auto goes by the size of heads, and by what is measured on Sample
	Fine        bool                  // all products are fine, see weight.Product: the exact weights' answers, and slower prompts
	DType       DType                 // of text encoders' products with matrices of floats
	KVBytes     int64                 // memory for the cache, states and a draft model's cache included; 0 is chosen from what the machine has free
	Sample      []inference.TokenID   // a text on which a model that is loaded is measured; nil: Auto goes by the size of heads alone
	CacheCosts  CacheCosts            // what was measured before; nil: each load measures
	OnMeasure   func(done, total int) // hears how far the measuring on Sample is, in rows; nil: none
	KVBlocks    int                   // blocks for the cache, null block included; overrides KVBytes
	BlockTokens int                   // tokens per block, a multiple of 16; 0 is 16

	// MaxModelLen is the longest sequence. 0 is the model's context, less where the
	// cache is smaller; above the context positions are extrapolated.
	MaxModelLen int

	Secret []byte // makes prefix hashes unpredictable; share it among replicas

	BlockEvents bool // keep a log of the prefix cache's changes, for Engine.BlockEvents

	KVSource   KVSource      // fetches KV blocks that requests say are elsewhere; nil: all are computed
	LeastFetch time.Duration // that fetching may take where computing would take less; 0: 50 ms
	Build      string        // of the program: blocks of another build are not taken, since its kernels may round otherwise

	// EndTokens end a choice unless the request ignores them. They are the
	// tokenizer's; the engine knows no text.
	EndTokens []inference.TokenID

	// Scheduler's MaxModelLen, Cost, Attention, RowPanel and Lane are set by Open.
	Scheduler scheduler.Config

	// Speculate is the default for requests whose Speculation is unset: whether
	// draft tokens are proposed, up to Scheduler.MaxDrafts.
	Speculate bool

	// Draft is a small model of the same vocabulary that proposes draft tokens where the text so far gives none; nil: there is none. It keeps as
	// many tokens as the cache, in a part of KVBytes. It may be closed when Open has returned.
	Draft *gguf.File

	// MTP has the file's own MTP head propose draft tokens in this way, instead of a draft model. It keeps keys and values of its one layer for as many
	// tokens as the cache, in a part of KVBytes.
	MTP bool

	MaxAdapters    int // that are loaded at once; 0 is any number
	MaxAdapterRank int // 0 is MostAdapterRank

	// CheckTensors decodes every weight once and refuses values that are not
	// finite. It costs about as much as one forward pass.
	CheckTensors bool

	// Stopped, if set, is asked while Open reads and measures the model, many times a second and from several goroutines. Its error
	// ends that, and Open returns it.
	Stopped func() error

	// OnStep, if set, is called after each step from the step loop; it must be
	// quick and must not call the engine.
	OnStep func(StepStats)

	// OnFinish, if set, is called in the same way when an admitted request has ended.
	OnFinish func(Phases)

	// OnFault, if set, is called in the same way with a bug that was caught: a panic in
	// a step, with its stack, or a broken invariant found by the idle check.
	OnFault func(string)

	// OnFetchFailed, if set, is called with why KV blocks of a request did not come from another replica and are computed. It
	// is called from a goroutine of the request.
	OnFetchFailed func(r *inference.Request, err error)

	// OnCancel, if set, is called in the same way after a cancel freed its blocks, with
	// the time since the cancel was asked for.
	OnCancel func(time.Duration)

	besideBytes int64                                   // memory that the draft model's weights will take
	beside      func(t attend.KVType, tokens int) int64 // memory for its keys and values, or an MTP head's, beside a cache of so many tokens; nil: none

	exact     func(tensor string) bool // matrices that are held as float32; nil: none
	keepAll   bool                     // rows stay although a window has passed: of one text at a time
	logitRows int                      // logitTile, or less in tests
	atPhase   func(phase)              // tests break the loop here
	inTime    func() error             // tests say which constraints are late
}

// stopped is why loading is to end early; nil: it goes on.
func (o *Options) stopped() error {
	if o.Stopped == nil {
		return nil
	}
	return o.Stopped()
}

// DType is what a text encoder multiplies matrices of floats in.
type DType uint8

// Products of float32 lose nothing; those of bfloat16 round weights and activations to eight bits of precision, and take
// half the time where the processor has AVX512_BF16. Elsewhere all are of float32.
const (
	AutoDType DType = iota // bfloat16 where the file's type is, float32 elsewhere
	Float32
	BFloat16
)

// DTypes are the spellings of the types in settings.
var DTypes = []string{AutoDType: "auto", Float32: "float32", BFloat16: "bfloat16"}

// pairs says which matrices of an encoder are held for products of bfloat16: those of layers.
func (o *Options) pairs() func(t *gguf.Tensor, cols int) bool {
	level := o.Level
	if level == isa.Auto {
		level = isa.Best()
	}
	if o.DType == Float32 || !weight.HasPairs(level) {
		return nil
	}
	return func(t *gguf.Tensor, cols int) bool {
		if _, err := weight.PairBytes(1, cols); err != nil || !strings.HasPrefix(t.Name, "blk.") {
			return false
		}
		return t.Type == gguf.TypeBF16 || o.DType == BFloat16 && (t.Type == gguf.TypeF32 || t.Type == gguf.TypeF16)
	}
}

// StepStats describes one step.
type StepStats struct {
	PrefillTokens int
	DecodeTokens  int // decode rows, without draft rows
	DraftTokens   int // rows of drafts
	Sequences     int
	Preempted     int
	PlanTime      time.Duration // scheduling, before the forward pass
	StepTime      time.Duration // from plan to commit
	Estimate      time.Duration // of StepTime, before the step; 0 for the first
}

// Phases are where a request's time in the engine went, as vLLM divides it: a
// preempted request counts as admitted when it last ran again.
type Phases struct {
	Queue     time.Duration // submitted to admitted
	Prefill   time.Duration // admitted to first token; negative where none came
	Inference time.Duration // admitted to last token; negative where none came

	Preemptions int // of its sequences
}

// defaultKVShare is the part of free memory (after the weights) that the KV cache
// takes by default. The rest is for other programs and the page cache.
const defaultKVShare = 0.5

// maxLength bounds sequences, so that offsets into the cache stay small.
const maxLength = 1 << 27

// budget is the size of the cache and the sequences it allows.
type budget struct {
	shape       cacheShape
	maxModelLen int
	stepRows    int // the most that a step adds to a sequence
	states      int // slots for states
}

// size turns options into a cache of a type for a model of this shape and context, beside
// weights, and what else there is before it, of so many bytes. A sequence of MaxModelLen must fit: an explicit
// length that does not is refused, an implied one is lowered.
func (o *Options) size(s cacheShape, t attend.KVType, context int, weightBytes, stateBytes int64) (budget, error) {
	s = s.sized(t, o.blockTokens(), 1)
	if err := s.Check(); err != nil {
		return budget{}, err
	}
	length := cmp.Or(o.MaxModelLen, context)
	if length < 1 || length > maxLength {
		return budget{}, fmt.Errorf("max-model-len %d: must be from 1 to %d", length, maxLength)
	}
	states, err := o.stateSlots(stateBytes, weightBytes)
	if err != nil {
		return budget{}, err
	}
	weightBytes += int64(states) * stateBytes
	s = s.sized(t, o.blockTokens(), o.blocks(s, length, weightBytes, int64(states)*stateBytes))
	if fit := s.fit(length, o.stepRows()); fit < length {
		if o.MaxModelLen != 0 || fit < 1 {
			drafts := ""
			if o.beside != nil {
				drafts = " and beside as many tokens of the draft model's or MTP head's"
			}
			return budget{}, fmt.Errorf("a kv cache of %d tokens (%s), beside %s of weights%s, cannot hold one sequence of %d (%s); "+
				"lower --max-model-len or raise --kv-cache-memory-bytes",
				fit, unit.Bytes(s.Bytes()), unit.Bytes(weightBytes), drafts, length, unit.Bytes(s.sequenceBytes(length, o.stepRows())))
		}
		length = fit
	}
	if total := cpu.TotalMemoryBytes(); total > 0 && o.KVBytes > total-weightBytes+int64(states)*stateBytes { // which are a part of it
		return budget{}, fmt.Errorf("a kv cache of %s and %s of weights are more than the %s of memory that this machine or its container has; "+
			"lower --kv-cache-memory-bytes",
			unit.Bytes(o.KVBytes), unit.Bytes(weightBytes), unit.Bytes(total))
	}
	return budget{shape: s, maxModelLen: length, stepRows: o.stepRows(), states: states}, nil
}

// stateInterval is after how many rows of a long prompt its state is kept for others.
const stateInterval = 1024

// stateSlots is for how many states there is memory: two for each sequence of a full batch, and as many again and some more for checkpoints,
// within a part of the memory for the cache.
func (o *Options) stateSlots(stateBytes, weightBytes int64) (int, error) {
	if stateBytes == 0 {
		return 0, nil
	}
	const each, more, part, least = 4, 32, 2, 4
	wanted := int64(each*max(o.Scheduler.MaxSeqs, 1) + more)
	memory := int64(float64(max(cpu.AvailableMemoryBytes()-weightBytes, 0)) * defaultKVShare)
	switch {
	case o.KVBlocks > 0:
		memory = wanted * stateBytes * part
	case o.KVBytes > 0:
		memory = o.KVBytes
	}
	slots := min(wanted, memory/part/stateBytes, 1<<20)
	if slots < least {
		return 0, fmt.Errorf("a kv cache of %s, of which states of recurrent layers take half, has no room for %d of %s each; raise --kv-cache-memory-bytes",
			unit.Bytes(memory), least, unit.Bytes(stateBytes))
	}
	return int(slots), nil
}

// stepRows is the most rows that a step adds to a sequence: of a chunk of a prompt, and of drafts.
func (o *Options) stepRows() int {
	c, most := &o.Scheduler, o.mostRows()
	return max(min(cmp.Or(c.PrefillChunk, most), most), c.MaxDrafts+1)
}

// mostRows is the most rows of a step.
func (o *Options) mostRows() int {
	return cmp.Or(o.Scheduler.MaxBatchTokens, max(512, o.Scheduler.MaxSeqs))
}

// blockTokens is how many tokens a block has.
func (o *Options) blockTokens() int { return cmp.Or(o.BlockTokens, 16) }

// sizeWhole is the cache for one text of up to MaxModelLen, of which everything is kept.
func (o *Options) sizeWhole(s cacheShape, t attend.KVType) (budget, error) {
	s = s.whole(t, o.blockTokens(), o.MaxModelLen)
	return budget{shape: s, maxModelLen: o.MaxModelLen, stepRows: o.stepRows()}, s.Check()
}

// blocks sizes the pool, null block included. By default every sequence of a
// full batch can reach its full length, if half of the memory allows that the
// weights leave.
func (o *Options) blocks(s cacheShape, length int, weightBytes, stateBytes int64) int {
	switch {
	case o.KVBlocks > 0:
		return o.KVBlocks
	case o.KVBytes > 0:
		return o.fill(s, length, o.KVBytes-stateBytes)
	}
	full := int64(s.need(length, o.stepRows())) * int64(max(o.Scheduler.MaxSeqs, 1))
	free := int64(float64(max(cpu.AvailableMemoryBytes()-weightBytes, 0)) * defaultKVShare)
	return int(min(full+1, int64(o.fill(s, length, free))))
}

// fill is for how many blocks there is memory, null block included, beside what a draft model or MTP head keeps of as many tokens.
func (o *Options) fill(s cacheShape, length int, memory int64) int {
	t, each := s.Tables[0], int64(s.PageBytes())
	most := int(min(max(memory, 0)/each, 1<<27))
	if o.beside != nil {
		most = sort.Search(most, func(n int) bool { // there is no room for one block more
			tokens := s.sized(t.Type, t.BlockTokens, n+2).tokens(length, o.stepRows())
			return int64(n+1)*each+o.beside(t.Type, tokens) > memory
		})
	}
	return most + 1
}

// sizeTexts is the memory for keys and values of one layer of a pass, for a text
// encoder: exact, whatever KVType says, since they are read once.
func (o *Options) sizeTexts(s cacheShape, context int) (budget, error) {
	length := o.MaxModelLen
	if length == 0 {
		length = min(context, maxLength)
	}
	if length < 1 || length > context {
		return budget{}, fmt.Errorf("max-model-len %d: must be from 1 to the encoder's context of %d", length, context)
	}
	return budget{shape: s.whole(attend.KVF32, textBlock, max(2*mostRows, length)), maxModelLen: length}, nil
}

// textBlock is how many tokens of a text share a block: the least that a store has.
const textBlock = 16

// threads is how many workers compute.
func (o *Options) threads() int {
	switch {
	case o.Pool != nil:
		return o.Pool.Workers()
	case o.Threads > 0:
		return o.Threads
	default:
		return cpu.Threads()
	}
}

// compute returns what runs the engine's operations.
func (o *Options) compute() *kernel.CPU {
	var c *kernel.CPU
	if o.Pool != nil {
		c = kernel.Share(o.Pool, o.PoolWeight, o.Level)
	} else {
		c = kernel.NewCPU(o.threads(), o.Level)
	}
	c.SetFine(o.Fine)
	return c
}
