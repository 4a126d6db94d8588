package llm

import (
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
