package llm

import (
	"fmt"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler"
	"weir/scheduler/cost"
)

// draftModel is a small model with the vocabulary of the engine's, which proposes draft tokens. It is the scheduler's Proposer: the step loop calls it
// amid planning, on the threads that compute the step. It has a KV cache of its own, whose blocks it gives and takes without the scheduler:
// texts that it lacks blocks for get no drafts.
type draftModel struct {
	model     *model
	cpu       *kernel.CPU // the engine's
	vocab     int         // of the engine's model: other ids are no drafts
	kv        *attend.Pages
	kvBytes   int64
	length    int // of the longest text and its drafts
	cache     kvcache.Config
	attention cost.Attention
	cost      *cost.Model

	pool      *kvcache.Pool
	read      map[scheduler.SequenceID]*draftSequence
	calls     uint64
	copies    []kvcache.Copy
	batch     batch
	tables    [][]kvcache.BlockID
	proposals []proposal // of the call
	logits    []float32
	best      []inference.TokenID // of the rows of logits
}

// draftSequence is what is computed of a sequence.
type draftSequence struct {
	table        kvcache.Table
	tail         []inference.TokenID // drafts behind the table's final rows whose rows are computed
	after        inference.TokenID   // draft behind the table's final rows, once these are all of a text
	drafts       []inference.TokenID
	call         uint64 // that asked for it last
	hiddenStates        // with an MTP head
}

// proposal is a text of a call.
type proposal struct {
	*draftSequence
	index int  // of the call's texts
	from  int  // first row to compute
	rows  int  // 0: a call before has read all of the text, which has not grown since
	whole bool // the last row of the text is among them: drafts follow
}

// maxProposals bounds the texts of a call, and so the logits that exist at a time.
const maxProposals = logitTile

// openDraftModel reads the draft model of an engine that is built, of which small tells.
func openDraftModel(e *Engine, small *Info, progress func(done, total int64)) (_ *draftModel, err error) {
	opts := Options{
		KVType: e.opts.KVType, BlockTokens: e.info.BlockTokens, KVBlocks: draftBlocks(e.info.KVTokens, small), Level: e.opts.Level,
		Scheduler: scheduler.Config{MaxSeqs: e.opts.Scheduler.MaxSeqs, MaxDrafts: e.opts.Scheduler.MaxDrafts},
	}
	o, err := readOutline(e.opts.Draft, &opts)
	if err != nil {
		return nil, err
	}
	g := &draftModel{cpu: e.cpu, vocab: e.model.vocab}
	if g.model, err = o.load(progress, e.opts.stopped); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = g.close()
		}
	}()
	b := &o.budget
	if g.kv, err = attend.NewPages(b.shape.Tables); err != nil {
		return nil, err
	}
	g.kvBytes, g.length = b.shape.Bytes(), b.maxModelLen
	g.model.formKeys(g.cpu, g.kv, b.maxModelLen)
	g.attention = g.model.attention()
	g.cost = cost.New(g.model.price(o.weightBytes, e.cpu.Threads()))
	for range 2 { // the second time is what a row takes
		began := time.Now()
		if err := g.model.try(g.cpu, g.kv, b.shape.blockTokens(), e.opts.stopped); err != nil {
			return nil, err
		}
		g.cost.Observe(cost.Load{Rows: 1, Outputs: 1, Decode: 1}, time.Since(began))
	}
	g.cache = kvcache.Config{
		Blocks: b.shape.blocks(), BlockTokens: b.shape.blockTokens(), Windows: b.shape.windows, StepRows: b.stepRows,
		ModelDigest: o.digest, KVType: b.shape.Tables[0].Type.String(), Secret: e.opts.Secret,
	}
	g.tables = make([][]kvcache.BlockID, len(g.model.cacheShape.Tables))
	return g, nil
}

// reserveDraft tells of the draft model, if there is one, whatever its cache, and refuses one that cannot propose for the model of a file.
func (o *Options) reserveDraft(f *gguf.File) (Info, error) {
	switch {
	case o.Draft == nil:
		return Info{}, nil
	case o.MTP:
		return Info{}, fmt.Errorf("%w: --speculative-model and --speculative-mtp both propose draft tokens; leave one of them out", ErrModel)
	}
	const length = 64
	small, err := Describe(o.Draft, Options{KVType: o.KVType, BlockTokens: o.BlockTokens, MaxModelLen: length, KVBlocks: 1 << 10, Level: o.Level})
	switch {
	case err != nil:
	case small.Embeds:
		err = fmt.Errorf("%w: it is a text encoder (%s), which proposes no tokens", ErrModel, small.Architecture)
	case small.StateBytes > 0:
		err = fmt.Errorf("%w: %s has recurrent layers; a draft model must have attention alone", ErrModel, small.Architecture)
	default:
		err = checkVocabulary(o.Draft, f)
	}
	if err != nil {
		return Info{}, fmt.Errorf("read the draft model: %w", err)
	}
	o.besideBytes = small.WeightBytes
	o.beside = func(_ attend.KVType, tokens int) int64 { return draftKVBytes(tokens, &small) }
	return small, nil
}

// draftBlocks is how many blocks a draft model's cache has, null block included, beside a cache of so many tokens: for as many, at least two blocks of
// them, whatever its windows are.
func draftBlocks(tokens int, small *Info) int {
	page := int64(small.kv.PageBytes())
	return int((int64(max(tokens, 2*small.BlockTokens))*int64(small.KVBytesPerToken)+page-1)/page) + 1
}

// draftKVBytes is the memory of these.
func draftKVBytes(tokens int, small *Info) int64 {
	return int64(draftBlocks(tokens, small)) * int64(small.kv.PageBytes())
}

// maxVocabularyDifference is by how many tokens vocabularies may differ in length: files of one family pad it differently.
const maxVocabularyDifference = 512

// checkVocabulary refuses a draft model whose tokens are others.
func checkVocabulary(draft, f *gguf.File) error {
	own, _, err := draft.Strings("tokenizer.ggml.tokens")
	if err != nil {
		return err
	}
	tokens, _, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil {
		return err
	}
	if d := len(own) - len(tokens); d > maxVocabularyDifference || -d > maxVocabularyDifference {
		return fmt.Errorf("%w: the draft model has %d tokens and the model %d; both must have one vocabulary", ErrModel, len(own), len(tokens))
	}
	for i := range min(len(own), len(tokens)) {
		if own[i] != tokens[i] {
			return fmt.Errorf("%w: token %d is %.40q in the draft model and %.40q in the model; both must have one vocabulary", ErrModel, i, own[i], tokens[i])
		}
	}
	return nil
}

// reset forgets everything, for a scheduler that knows nothing either.
func (g *draftModel) reset() (err error) {
	g.pool, err = kvcache.New(g.cache)
	g.read = make(map[scheduler.SequenceID]*draftSequence)
	return err
}

func (g *draftModel) close() error {
	if g == nil {
		return nil
	}
	if g.kv != nil {
		_ = g.kv.Close()
	}
	return g.model.release()
}

// bytes is the memory that it takes, of an MTP head beside the model's weights.
func (g *draftModel) bytes() int64 {
	return g.model.bytes + g.kvBytes
}
