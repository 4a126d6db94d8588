package llm

import (
	"cmp"
	"slices"
	"time"

	"weir/engine/gguf"
	"weir/internal/inference"
	"weir/scheduler/cost"
)

// Info describes a model and, once loaded, how it runs.
type Info struct {
	Architecture string
	Name         string // general.name, may be empty
	Params       uint64
	FileBytes    int64
	Digest       string // gguf.File.Digest in hexadecimal

	Layers        int
	Width         int
	Heads         int
	KVHeads       int
	HeadDim       int
	FeedForward   int
	Experts       int // of a layer that has some; 0 is none
	ExpertsUsed   int // of a row
	VocabSize     int
	ContextLength int
	Pooling       inference.Pooling
	Embeds        bool     // a text encoder, for OpenEncoder
	Dimensions    int      // of a text's vector; 0 with a classifier, and in language models
	Labels        []string // of a classifier's scores, where the file names them
	Scores        int      // of a classifier; 0 is none
	Decides       bool     // it has a decision head, which is read at marks
	DecisionType  string   // of a language model whose file says how it decides; "": as any chat model
	TokenTypes    int

	MaxModelLen     int
	KVType          string
	KVLayout        string        // attend.KVType.Layout
	KVCost          *float64      // nats of mean divergence that q8_0 costs beside f16; nil: not measured
	KVMeasured      time.Duration // what measuring it took of this load; 0: it was known, or it was not asked for
	KVBlocks        int           // usable ones
	BlockTokens     int
	KVTokens        int // tokens that the KV cache holds of sequences of MaxModelLen
	KVBytesPerToken int // in all layers, while no window has passed it
	KVBytesBehind   int // of these, what stays behind the windows
	KVBytes         int64
	WeightBytes     int64 // in memory
	DraftBytes      int64 // of the draft model: weights, keys and values; of an MTP head keys and values, since its weights are among WeightBytes; 0 without one
	DraftKVBytes    int64 // of DraftBytes, keys and values
	MTP             bool  // the file has an MTP head that Options.MTP can draft with
	MTPUsed         bool  // it drafts
	TableBytes      int64 // of a table in the file of which a step reads the rows of its tokens; no part of WeightBytes
	InputBytes      int64 // that the inputs of Gemma 4's layers take of the largest step's rows, or pass's; 0 of models without
	StateBytes      int64 // of the state that recurrent layers keep of a sequence, whatever its length; 0 of models without
	States          int   // that there is memory for: two of each sequence that runs, the others are checkpoints
	Threads         int

	// Windows are the layers by how far they see, those that see all first; nil: not known.
	Windows []LayerWindow

	kv     cacheShape
	kvStep int // rows
}

// CacheBytes is the memory that Options.KVBytes bounds: keys and values, those of a draft model or MTP head, and states of recurrent layers.
func (i *Info) CacheBytes() int64 { return i.KVBytes + i.DraftKVBytes + i.StateBytes*int64(i.States) }

// MemoryBytes is what the model takes in all: weights, those of a draft model, the largest step's inputs, and CacheBytes. Adapters are not counted.
func (i *Info) MemoryBytes() int64 {
	return i.WeightBytes + i.InputBytes + i.DraftBytes - i.DraftKVBytes + i.CacheBytes()
}

// Ranks reports whether the model is a reranker: a classifier of one label, or of those that converters of language models write, yes and no.
func (i *Info) Ranks() bool {
	return i.Scores == 1 || i.Scores == 2 && slices.Equal(i.Labels, []string{"yes", "no"})
}

// LayerWindow is the layers that see as far as each other.
type LayerWindow struct {
	Positions   int // 0 is all
	Layers      int
	KVBytes     int // that these layers read of a position
	QueryValues int // of a row, in these layers
}

// KVTables is how many block tables a sequence has in the KV cache: one, or more where layers differ in what they keep.
func (i *Info) KVTables() int { return max(len(i.kv.Tables), 1) }

// KVSequenceBytes is the memory that the KV cache takes for a sequence of so many tokens: layers with windows keep what those see.
func (i *Info) KVSequenceBytes(tokens int) int64 {
	if len(i.kv.Tables) == 0 || i.kv.plain() {
		return int64(tokens)*int64(i.KVBytesPerToken) + i.StateBytes
	}
	return i.kv.sequenceBytes(tokens, i.kvStep) + i.StateBytes
}

// Sequences is how many sequences of so many tokens the KV cache holds at once.
func (i *Info) Sequences(tokens int) int {
	blocks := (tokens + i.BlockTokens - 1) / max(i.BlockTokens, 1)
	if len(i.kv.Tables) > 0 {
		blocks = i.kv.need(tokens, i.kvStep)
	}
	n := i.KVBlocks / max(blocks, 1)
	if i.StateBytes > 0 {
		n = min(n, i.States/2)
	}
	return n
}

// ExpertsTouched is how many experts of a layer a step of so many rows reads, on average; 0 of a model without experts.
func (i *Info) ExpertsTouched(rows int) float64 {
	return cost.Experts{Count: i.Experts, Use: i.ExpertsUsed}.Touched(rows)
}

// Describe reads what a file's metadata tell, and with opts the budget that
// Open would choose, without reading weights. The error says why Open would
// refuse the file.
func Describe(f *gguf.File, opts Options) (Info, error) {
	small, err := opts.reserveDraft(f)
	if err != nil {
		return Info{}, err
	}
	o, err := readOutline(f, &opts)
	if err != nil {
		return Info{}, err
	}
	if o.embeds() {
		if err := o.checkEncoder(); err != nil {
			return Info{}, err
		}
	}
	i := o.describe(f, opts.threads())
	if opts.Draft != nil {
		i.DraftKVBytes = draftKVBytes(i.KVTokens, &small)
		i.DraftBytes = small.WeightBytes + i.DraftKVBytes
	}
	return i, nil
}

func (o *outline) describe(f *gguf.File, threads int) Info {
	h, s, t := &o.hparams, o.budget.shape, o.budget.shape.Tables[0].Type
	i := Info{
		Architecture: h.arch.name, Name: h.name,
		Params: f.ParamCount(), FileBytes: f.FileBytes(), Digest: o.digest,
		Layers: h.depth, Width: h.width, Heads: h.heads, KVHeads: h.kvHeads, HeadDim: h.headDim,
		FeedForward: h.ffn, Experts: h.experts.count, ExpertsUsed: h.experts.use, VocabSize: h.vocab, ContextLength: h.context, Pooling: h.pooling,
		MaxModelLen: o.budget.maxModelLen,
		KVType:      t.String(), KVLayout: t.Layout(), KVCost: o.cacheCost, KVMeasured: o.measured, KVBlocks: s.blocks() - 1, BlockTokens: s.blockTokens(),
		KVTokens: s.tokens(o.budget.maxModelLen, o.budget.stepRows), KVBytesPerToken: s.TokenBytes(), KVBytesBehind: s.bytesBehind(),
		KVBytes:     s.Bytes(),
		WeightBytes: o.weightBytes, TableBytes: o.weights.inputs.tableBytes(), InputBytes: o.inputBytes, Threads: threads,
		StateBytes: 4 * int64(o.plan.stateValues), States: o.budget.states,
		DecisionType: h.decision.kind, Windows: o.windows(), kv: s, kvStep: o.budget.stepRows,
	}
	i.MTP = o.hasMTP() == nil
	if o.plan.mtp != nil {
		i.MTPUsed, i.DraftKVBytes = true, o.mtpShape(t, i.BlockTokens, i.KVTokens).Bytes()
		i.DraftBytes = i.DraftKVBytes
	}
	if h.embeds() {
		o.describeEncoder(&i)
	}
	return i
}

// windows sorts the layers by how far they see.
func (o *outline) windows() (list []LayerWindow) {
	for i := range o.plan.layers {
		a := &o.plan.layers[i].attention
		if !a.exists() {
			continue
		}
		w := LayerWindow{}
		if a.reach > 0 {
			w.Positions = a.reach + 1
		}
		k := slices.IndexFunc(list, func(o LayerWindow) bool { return o.Positions == w.Positions })
		if k < 0 {
			k, list = len(list), append(list, w)
		}
		own := o.budget.shape.Tables[a.table]
		list[k].Layers++
		list[k].KVBytes += own.TokenBytes() / own.Layers
		list[k].QueryValues += a.heads * a.headDim
	}
	slices.SortFunc(list, func(a, b LayerWindow) int { return cmp.Compare(uint(a.Positions-1), uint(b.Positions-1)) }) // 0 is further than any
	slices.Reverse(list)
	return list
}

// describeEncoder tells what an encoder gives. It has no KV cache.
func (o *outline) describeEncoder(i *Info) {
	i.Embeds, i.TokenTypes = true, max(o.plan.embedding.types, 1)
	i.Windows, i.kv = nil, cacheShape{}
	i.KVType, i.KVLayout, i.KVBlocks, i.BlockTokens, i.KVTokens, i.KVBytesPerToken, i.KVBytesBehind, i.KVBytes = "", "", 0, 0, 0, 0, 0, 0
	if i.Decides = o.decision.blocks > 0; i.Decides {
		i.TokenTypes = QuestionTypes
		return
	}
	if i.Scores = o.plan.head.labels; i.Scores > 0 {
		i.Labels = o.labels
		return
	}
	i.Dimensions = o.width
	for _, name := range o.plan.head.dense {
		if t, ok := o.loader.f.Tensor(name + ".weight"); ok && len(t.Dims) == 2 {
			i.Dimensions = int(t.Dims[1]) //nolint:gosec // the loader has checked it
		}
	}
}
