package llm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/weight"
	"weir/scheduler/cost"
)

// model is a loaded model: read-only after load, shared by all steps.
type model struct {
	hparams
	*weights
	cacheShape cacheShape // without its type and size
	params     uint64
	mtpHead    *model // its MTP head; nil: there is none
}

// transfers reports whether blocks are all that there is of a sequence, so that others can go on with them.
func (m *model) transfers() bool { return m.cacheShape.plain() && m.states == 0 }

// price is what a step of this model may cost, in nanoseconds of an ordinary
// machine, before one was timed. What counts is the relation of the parts: how
// many rows fit into the time that reading the weights takes anyway, and what
// attention adds as sequences grow.
func (m *model) price(weightBytes int64, threads int) cost.Prior {
	const (
		readBytes = 20  // bytes per nanosecond, all threads together
		multiply  = 100 // operations per nanosecond and thread, in matrix products
		attend    = 10  // the same in attention
	)
	products := multiply * float64(threads)
	row, position := 0, 0 // operations: of a row in all matrices, of a row with one earlier position
	for i := range m.layers {
		row += m.rowOperations(&m.layers[i])
		position += 4 * m.layers[i].attention.heads * m.layers[i].attention.headDim
	}
	experts := m.expertBytes()
	return cost.Prior{
		Experts:  cost.Experts{Count: m.experts.count, Use: m.experts.use},
		Reading:  float64(experts) / readBytes,
		Step:     float64(weightBytes-experts) / readBytes,
		Row:      float64(row) / products,
		Output:   float64(2*m.width*m.vocab) / products,
		Position: float64(position) / (attend * float64(threads)),
	}
}

// rowOperations are those of a row in a layer's matrices.
func (m *model) rowOperations(y *layer) int {
	a, f := &y.attention, &y.feed
	heads := 2 * a.heads
	if a.readsFrom == ownKeys {
		heads += 2 * a.kvHeads
	}
	return 2*m.width*heads*a.headDim + 2*3*m.width*(f.width+f.experts.use*f.experts.width) + y.recurrent.operations(m.width)
}

// attention is how far the layers see, for what rows cost: nil where all see all. Layers cost as much as their queries have values.
func (m *model) attention() (list cost.Attention) {
	total, some := 0, false
	for i := range m.layers {
		total += m.layers[i].attention.heads * m.layers[i].attention.headDim
	}
	for i := range m.layers {
		a, w := &m.layers[i].attention, cost.Window{}
		if !a.exists() {
			continue
		}
		if a.reach > 0 {
			w.Positions, some = a.reach+1, true
		}
		k := slices.IndexFunc(list, func(o cost.Window) bool { return o.Positions == w.Positions })
		if k < 0 {
			k, list = len(list), append(list, w)
		}
		list[k].Share += float64(a.heads*a.headDim) / float64(total)
	}
	if !some {
		return nil
	}
	return list
}

// formKeys tells the store how to keep the keys of each layer; length is the longest sequence.
func (m *model) formKeys(c *kernel.CPU, kv *attend.Pages, length int) {
	for i := range m.layers {
		a := &m.layers[i].attention
		if !a.exists() {
			continue
		}
		var r *rope
		if a.rope != noRope {
			r = &m.ropes[a.rope]
		}
		a.formKeys(c, kv, r, length)
	}
}

// outline is what a file's header and the options make of a model, before any
// weight is read: enough to say what it takes, and to refuse what cannot run.
type outline struct {
	hparams
	plan        plan
	loader      *loader
	weights     *weights // without memory
	weightBytes int64
	inputBytes  int64 // of a step's rows, see Info
	budget      budget
	digest      string   // gguf.File.Digest in hexadecimal
	cacheCost   *float64 // nats that a q8_0 cache costs; nil: not measured
	measured    time.Duration
}

// readOutline checks the header and the options against each other and against
// the machine's memory.
func readOutline(f *gguf.File, opts *Options) (*outline, error) {
	h, err := readHparams(f)
	if err != nil {
		return nil, err
	}
	h.length = cmp.Or(opts.MaxModelLen, h.context)
	o := &outline{hparams: h, plan: h.arch.plan(&h), loader: &loader{f: f, exact: opts.exact, claimed: make(map[string]bool, len(f.Tensors))}}
	switch {
	case h.embeds():
		o.plan.asEncoder(&h)
		o.plan.dealTexts()
		o.loader.pairs = opts.pairs()
	case opts.keepAll:
		o.plan.deal(everything)
	default:
		o.plan.deal(h.length)
	}
	if len(o.plan.tables) == 0 {
		return nil, fmt.Errorf("%w: all %d layers are recurrent; models without any attention are not supported", ErrModel, h.depth)
	}
	if opts.MTP && !h.embeds() {
		if err := o.planMTP(); err != nil {
			return nil, err
		}
	}
	o.weights = o.loader.list(&o.hparams, &o.plan)
	if o.loader.err != nil {
		return nil, o.loader.err
	}
	if o.weightBytes, err = o.loader.arenaBytes(); err != nil {
		return nil, err
	}
	if err := o.recall(f, opts); err != nil {
		return nil, err
	}
	shape := o.plan.cacheShape()
	switch {
	case h.embeds():
		o.budget, err = opts.sizeTexts(shape, h.context)
		o.inputBytes = o.weights.inputs.rowBytes(o.depth) * int64(max(mostRows, o.budget.maxModelLen))
	case opts.keepAll && opts.MaxModelLen > 0:
		o.budget, err = opts.sizeWhole(shape, o.kvType(opts))
	default:
		o.budget, err = o.sized(opts)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// sized is the budget beside the weights and the inputs of layers, which take no part of the memory that a cache leaves for a step.
func (o *outline) sized(opts *Options) (budget, error) {
	o.inputBytes = o.weights.inputs.rowBytes(o.depth) * int64(opts.mostRows())
	with := *opts
	if o.plan.mtp != nil {
		with.beside = func(t attend.KVType, tokens int) int64 { return o.mtpShape(t, with.blockTokens(), tokens).Bytes() }
	}
	return with.size(o.plan.cacheShape(), o.kvType(opts), o.context, o.weightBytes+o.inputBytes+opts.besideBytes, 4*int64(o.plan.stateValues))
}

// load reads the weights.
func (o *outline) load(progress func(done, total int64), stopped func() error) (*model, error) {
	if err := o.loader.load(o.weights, progress, stopped); err != nil {
		return nil, errors.Join(err, o.weights.release())
	}
	if err := o.weights.inputs.open(o.loader.f); err != nil {
		return nil, errors.Join(err, o.weights.release())
	}
	o.weights.fine = o.arch.encoder && o.weights.eightBits()
	o.weights.settle()
	return &model{
		hparams: o.hparams, weights: o.weights, cacheShape: o.plan.cacheShape(), params: o.loader.f.ParamCount(), mtpHead: o.mtpModel(),
	}, nil
}

// shapes is the model that load would make, whose matrices have no more than their shapes.
func (o *outline) shapes() *model {
	for _, w := range o.loader.wants {
		if w.matrix != nil {
			*w.matrix = &weight.Matrix{Type: w.held, Rows: w.rows, Cols: w.cols}
		}
	}
	return &model{hparams: o.hparams, weights: o.weights}
}

// eightBits reports whether every matrix that multiplies hidden states is q8_0: with
// fewer bits what they lack outweighs what activations lose.
func (w *weights) eightBits() bool {
	for i := range w.layers {
		a, f := &w.layers[i].attention, &w.layers[i].feed
		for _, m := range []*weight.Matrix{a.q.w, a.k.w, a.v.w, w.layers[i].recurrent.mixed.w, f.first()} {
			if m != nil && m.Type != gguf.TypeQ8_0 {
				return false
			}
		}
	}
	return true
}
