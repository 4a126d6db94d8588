package llm

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"weir/engine/gguf"
	"weir/engine/kernel/recurrence"
	"weir/internal/inference"
)

// ErrModel is wrapped by every refusal of a file whose container is sound but
// whose model the engine cannot run.
var ErrModel = errors.New("unusable model")

// hparams is what a model's metadata fix, as the file states it. Sizes are in
// elements. What a layer makes of them is in its plan.
type hparams struct {
	arch               architecture
	name               string
	depth              int // layers
	width              int
	heads              int
	kvHeads            int
	headDim            int // of queries, keys and values
	ffn                int
	vocab              int
	context            int // tokens the model was made for
	eps                float32
	scale              float32 // of attention scores
	rope               rope
	window             int     // sliding_window; 0 is none
	local              rope    // the rotation of layers with a window, of families where it is another one
	baseWithin         float64 // of the rotation of layers with a window, where the file has one; 0: that of the others
	types              int     // of tokens
	temper             temper
	pattern            []bool  // which layers have the window, as the file says; nil: it does not
	scoreCap, finalCap float32 // soft caps of scores and of logits; 0 is none
	factors            factors
	noRope             bool    // positions are not rotated
	curves             []xielu // of layers
	layered            layered // of families whose layers differ
	recurrent          recurrentParams
	sole               soleParams
	suppressed         []int32 // tokens that are never sampled
	dimensions         int     // of a text's vector, where the file says it; 0: it does not

	length int  // tokens that the longest sequence is to have, as configured
	long   bool // the frequencies of texts beyond rope.original are used

	experts       expertsPlan // of layers that have some
	expertsEvery  int         // of encoders: which layers have
	expertsStep   int         // of decoders: which layers have
	leading       int         // layers at the beginning that have none
	sharedExperts int         // that all rows pass through
	drafts        int         // layers of the file behind the others, which draft tokens

	causal  bool              // rows see no later ones
	pooling inference.Pooling // as the file has it
	ranking inference.Pooling // the rows that a classifier reads, where pooling is PoolingRank
	labels  []string          // of a classifier's scores

	decision decisionParams // of files with a decision head
	modern   modernParams   // of ModernBERT's family
}

// embeds reports whether the file is of a text encoder, and not of a model that
// generates.
func (h *hparams) embeds() bool { return h.arch.encoder || h.pooling != inference.PoolingNone }

// readHparams checks and collects the hyper-parameters.
func readHparams(f *gguf.File) (hparams, error) {
	if kind, _, _ := f.String("general.type"); kind == adapterType {
		return hparams{}, fmt.Errorf("%w: the file is an adapter (general.type is %q); serve its model and name it with --lora-modules NAME=FILE", ErrModel, kind)
	}
	name, ok, err := f.String("general.architecture")
	if err != nil {
		return hparams{}, fmt.Errorf("%w: %w", ErrModel, err)
	}
	if !ok {
		return hparams{}, fmt.Errorf("%w: general.architecture is missing; is this a language model?", ErrModel)
	}
	arch, err := architectureNamed(name)
	if err != nil {
		return hparams{}, err
	}
	m := &metadata{f: f, prefix: name}
	h := hparams{arch: arch}
	h.depth = m.size("block_count", 0)
	if h.arch.drafts {
		h.leaveDrafts(m)
	}
	h.width = m.size("embedding_length", 0)
	h.heads = m.size("attention.head_count", 0)
	h.readDecision(m)
	switch {
	case h.arch.layered:
		h.readLayered(m)
	case h.arch.recurrent != recurrence.None:
		h.recurrent.readHeads(m, &h)
		h.sole.read(m, &h)
	default:
		h.kvHeads = m.size("attention.head_count_kv", h.heads)
	}
	if !h.arch.layered && !h.arch.sole && h.decision.blocks == 0 {
		h.ffn = m.size("feed_forward_length", m.count("expert_feed_forward_length"))
	}
	h.context = m.size("context_length", 0)
	h.readEpsilon(m)
	h.readHeadDim(m)
	if h.scale = float32(m.number("attention.scale", 0)); h.scale == 0 {
		h.scale = float32(1 / math.Sqrt(float64(max(h.headDim, 1))))
	}
	h.rope = readRope(m, h.headDim, h.context)
	h.longRope(m)
	h.temper = readTemper(m, h.rope.original)
	h.readFactors(m)
	if h.arch.recurrent != recurrence.None {
		h.recurrent.read(m, &h)
	}
	h.readEncoder(m)
	if h.arch.layered {
		h.dimensions = m.count("embedding_length_out")
		h.readLocal(m)
		h.checkSources(m)
	}
	h.check(m)
	h.checkSections(m)
	if m.err != nil {
		return hparams{}, m.err
	}
	h.name, _, _ = f.String("general.name")
	return h, errors.Join(h.readVocab(f), h.readSuppressed(f))
}

// readEpsilon reads what norms add to means of squares. Nemotron's converter writes it under either name.
func (h *hparams) readEpsilon(m *metadata) {
	const key, other = "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"
	if h.arch.layerNorm || h.arch.sole && !m.has(key) {
		h.eps = float32(m.number(other, math.NaN()))
	} else {
		h.eps = float32(m.number(key, math.NaN()))
	}
}

// readHeadDim reads the size of heads: without a key the width is divided among them, except where layers have heads of two sizes.
func (h *hparams) readHeadDim(m *metadata) {
	const keys, values = "attention.key_length", "attention.value_length"
	fallback := h.width / max(h.heads, 1)
	if h.arch.layered {
		fallback = 0
	}
	h.headDim = m.size(keys, fallback)
	switch v := m.size(values, h.headDim); {
	case v == h.headDim:
	case !m.has(keys):
		m.fail(keys, "is missing; %s is %d, and an embedding_length of %d gives each of %d heads %d", values, v, h.width, h.heads, h.headDim)
	default:
		m.fail(values, "is %d and key_length %d; they must be equal", v, h.headDim)
	}
}

// readWindow reads how far layers with a window see. It refuses 0 in families that were trained with one: that would hide all positions.
func (h *hparams) readWindow(m *metadata) {
	const key = "attention.sliding_window"
	if h.window = m.count(key); h.window > 0 || h.arch.trained == 0 {
		return
	}
	if h.arch.period > 0 && m.has(key) {
		m.fail(key, "is 0, with which layers see nothing; published models of %s have %d", h.arch.name, h.arch.trained)
	}
	h.window = h.arch.trained
}

// leaveDrafts leaves the layers out that draft tokens, which are the last ones of the file.
func (h *hparams) leaveDrafts(m *metadata) {
	const key = "nextn_predict_layers"
	if h.drafts = m.count(key); h.drafts >= h.depth {
		m.fail(key, "is %d, and the file has %d layers", h.drafts, h.depth)
		h.drafts = 0
	}
	h.depth -= h.drafts
	for i := h.depth; h.arch.mtp && i < h.depth+h.drafts; i++ {
		if isLayer(m.f, i) {
			m.fail(key, "is %d, and tensor blk.%d.nextn.eh_proj.weight is missing: block %d of %d is a layer of the model", h.drafts, i, i, h.depth+h.drafts)
			return
		}
	}
}

// isLayer reports whether a block is there and drafts nothing.
func isLayer(f *gguf.File, block int) bool {
	at := fmt.Sprintf("blk.%d.", block)
	_, drafts := f.Tensor(at + "nextn.eh_proj.weight")
	_, exists := f.Tensor(at + "attn_norm.weight")
	return exists && !drafts
}

// checkSections holds the pairs that turn by an image's positions against the rotation, which is one for texts.
func (h *hparams) checkSections(m *metadata) {
	const key = "rope.dimension_sections"
	list, _, err := m.f.Ints(m.prefix + "." + key)
	m.keep(err)
	var pairs int64
	for _, n := range list {
		if n < 0 || n > maxSize {
			m.fail(key, "holds %d", n)
			return
		}
		pairs += n
	}
	switch {
	case pairs == 0:
	case !h.arch.sections:
		m.fail(key, "is %v: the positions of images are not supported in this architecture", list)
	case pairs != int64(h.rope.half):
		m.fail(key, "is %v, %d pairs, and a head has %d", list, pairs, h.rope.half)
	}
}

// factors are what some families multiply with.
type factors struct {
	embedding float32
	branch    float32 // what attention and networks add
	logits    float32
}

// readFactors reads what a family's files have of factors and parameters. A factor is 1 where its key is missing, or 0, as llama.cpp writes it.
func (h *hparams) readFactors(m *metadata) {
	factor := func(key string) float32 {
		v := cmp.Or(m.number(key, 1), 1)
		if !(v > 0 && v < math.MaxFloat32) || float32(1/v) == 0 {
			m.fail(key, "is %v, must be positive", v)
			return 1
		}
		return float32(v)
	}
	if h.arch.factors {
		h.factors = factors{embedding: factor("embedding_scale"), branch: factor("residual_scale"), logits: factor("logit_scale")}
		h.noRope = !m.flag("rope.scaling.finetuned", true)
	}
	if h.arch.curves {
		h.curves = readCurves(m, h.depth)
	}
}

// longRope accepts rope.scaling.type longrope where the family has it.
func (h *hparams) longRope(m *metadata) {
	switch {
	case h.rope.scaling != "longrope":
	case !h.arch.longRope:
		m.fail("rope.scaling.type", "is %q; supported are none, linear, yarn", h.rope.scaling)
	case h.rope.factor != 1:
		m.fail("rope.scaling.factor", "is %v with longrope; built is 1", h.rope.factor)
	}
}

// readTemper reads what sharpens attention. Its length is the context before stretching, where the file names no other.
func readTemper(m *metadata, original int) temper {
	return temper{scale: m.number("attention.temperature_scale", 0), length: cmp.Or(m.count("attention.temperature_length"), original)}
}

// readEncoder reads the keys that text encoders have.
func (h *hparams) readEncoder(m *metadata) {
	h.readWindow(m)
	h.local = h.rope.unscaled()
	if h.baseWithin = m.number("rope.freq_base_swa", 0); h.baseWithin < 0 {
		m.fail("rope.freq_base_swa", "is %v, must not be negative", h.baseWithin)
	}
	h.local.base = cmp.Or(h.baseWithin, 10000)
	h.pattern = m.windowPattern(h.depth)
	h.scoreCap, h.finalCap = m.cap("attn_logit_softcapping"), m.cap("final_logit_softcapping")
	if n, ok, err := m.f.Uint("tokenizer.ggml.token_type_count"); err == nil && ok {
		h.types = int(min(n, maxSize))
	}
	if h.experts = readExperts(m, h); h.experts.count > 0 && h.arch.encoder {
		h.expertsEvery = m.size("moe_every_n_layers", 0)
	}
	h.causal = m.flag("attention.causal", !h.arch.encoder)
	h.pooling = m.pooling("pooling_type", inference.PoolingNone)
	h.ranking = m.pooling("classifier.pooling_type", inference.PoolingNone)
	list, _, err := m.f.Strings(m.prefix + ".classifier.output_labels")
	m.keep(err)
	if h.labels = list; h.arch.modern {
		h.readModern(m)
	}
}

// check holds the sizes against each other and refuses what is not built.
func (h *hparams) check(m *metadata) {
	if tensors := len(m.f.Tensors); h.depth > tensors {
		m.fail("block_count", "is %d, and the file has %d tensors, one for each block at least", h.depth, tensors)
	}
	if h.headDim < 1 || h.headDim%2 != 0 {
		m.fail("attention.key_length", "gives heads of %d values, must be even and positive", h.headDim)
	}
	if h.heads%h.kvHeads != 0 {
		m.fail("attention.head_count", "is %d, not a multiple of head_count_kv %d", h.heads, h.kvHeads)
	}
	if n, ok, _ := m.f.Uint(m.prefix + ".expert_count"); ok && n > 0 && h.arch.experts == absent {
		m.fail("expert_count", "is %d: mixtures of experts are not supported yet", n)
	}
	switch {
	case h.arch.encoder && h.causal:
		m.fail("attention.causal", "is true, and %s is an encoder of whole texts", h.arch.name)
	case !h.embeds() && !h.causal:
		m.fail("attention.causal", "is false in a model without pooling_type: it neither generates nor embeds")
	}
	if h.window == 1 && !h.arch.encoder {
		m.fail("attention.sliding_window", "is 1, of which a row sees itself alone; must be at least 2")
	}
	if h.eps < 0 {
		m.fail("attention.layer_norm_epsilon", "is %v, must not be negative", h.eps)
	}
}

// readVocab takes the vocabulary's size from the embedding and holds the
// tokenizer's against it.
func (h *hparams) readVocab(f *gguf.File) error {
	t, ok := f.Tensor("token_embd.weight")
	if !ok || len(t.Dims) != 2 {
		return fmt.Errorf("%w: tensor token_embd.weight is missing or not a matrix", ErrModel)
	}
	if t.Dims[0] != uint64(h.width) || t.Dims[1] < 1 || t.Dims[1] > 1<<24 {
		return fmt.Errorf("%w: token_embd.weight is %v, width is %d", ErrModel, t.Dims, h.width)
	}
	h.vocab = int(t.Dims[1])
	if words, ok, err := f.Strings("tokenizer.ggml.tokens"); err == nil && ok && len(words) != h.vocab {
		return fmt.Errorf("%w: the tokenizer has %d tokens and token_embd.weight %d rows", ErrModel, len(words), h.vocab)
	}
	return nil
}

// readSuppressed reads the tokens that a model is not to give: some checkpoints give markers that nothing reads.
func (h *hparams) readSuppressed(f *gguf.File) error {
	const key = "tokenizer.ggml.suppress_tokens"
	list, _, err := f.Ints(key)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrModel, err)
	}
	for _, id := range list {
		if id < 0 || id >= int64(h.vocab) {
			return fmt.Errorf("%w: %s holds %d, outside of the vocabulary of %d", ErrModel, key, id, h.vocab)
		}
		h.suppressed = append(h.suppressed, int32(id))
	}
	return nil
}
