package llm

import (
	"fmt"
	"math"
	"sync/atomic"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
	"weir/engine/kernel/weight"
)

// Gemma 4's small models give every layer an input of its own: a product of the token's embedding, and of most models a row of a table
// that is larger than all other weights together. A token needs one row of the table, which is read from the file in each step, so that the
// table is no part of the weights in memory. The system keeps in its page cache what is read often.

// inputsPlan says that layers have inputs of their own (per-layer embeddings).
type inputsPlan struct {
	width int  // of a layer's input; 0: layers have none
	table bool // tokens have rows of their own; otherwise inputs are made of embeddings alone
}

// inputs are the tensors that layers' inputs are made of.
type inputs struct {
	inputsPlan
	project linear      // per_layer_model_proj, [layers*width][width of the model]
	norm    weight.Norm // per_layer_proj_norm, of one layer's
	tensor  *gguf.Tensor
	table   *gguf.Rows // per_layer_token_embd, a row of [layers][width] of each token; nil without
}

// layerInput is what a layer does with its input: x += norm(project(act(gate x) * input)).
type layerInput struct {
	first         int // of the input's values in a row of batch.inputs
	gate, project linear
	norm          weight.Norm
}

// inputs wants what layers' inputs are made of.
func (l *loader) inputs(w *inputs, h *hparams, p inputsPlan) {
	if w.inputsPlan = p; p.width == 0 {
		return
	}
	if p.width > maxSize/h.depth {
		l.fail("%s.embedding_length_per_layer_input is %d: too many values for %d layers", h.arch.name, p.width, h.depth)
		return
	}
	all := p.width * h.depth
	l.linear(&w.project, "per_layer_model_proj", absent, all, h.width)
	l.norm(&w.norm, "per_layer_proj_norm", rmsNorm, p.width, h.eps)
	if p.table {
		w.tensor = l.find("per_layer_token_embd.weight", required, all, h.vocab)
	}
}

// layerInput wants a layer's part of them.
func (l *loader) layerInput(d *layerInput, layer int, at string, h *hparams, p inputsPlan) {
	if p.width == 0 {
		return
	}
	d.first = layer * p.width
	l.linear(&d.gate, at+"inp_gate", absent, p.width, h.width)
	l.linear(&d.project, at+"proj", absent, h.width, p.width)
	l.norm(&d.norm, at+"post_norm", rmsNorm, h.width, h.eps)
}

// open keeps the table's file open beyond the loading.
func (w *inputs) open(f *gguf.File) (err error) {
	if w.tensor != nil {
		w.table, err = f.Rows(w.tensor)
	}
	return err
}

// close lets go of it.
func (w *inputs) close() error {
	if w.table == nil {
		return nil
	}
	return w.table.Close()
}

// tableBytes is the size of the table, which lies in the file alone.
func (w *inputs) tableBytes() int64 {
	if w.tensor == nil {
		return 0
	}
	return w.tensor.Bytes
}

// rowBytes is the memory that the inputs of a row take while a step computes it, with what grow adds.
func (w *inputs) rowBytes(layers int) int64 { return int64(w.width) * int64(layers) * 4 * 5 / 4 }

// makeInputs fills b.inputs, [rows][layers][width], of the rows that begin has made.
func (b *batch) makeInputs(m *model, c *kernel.CPU) {
	w, rows := &m.inputs, len(b.tokens)
	if w.width == 0 || rows == 0 {
		return
	}
	n := w.width * m.depth
	grow(&b.inputs, rows*n)
	m.products(c, b, block{0, rows}, b.x, weight.Norm{}, w.project.into(b.inputs, false))
	if b.own == nil {
		b.own = &inputsJob{}
	}
	j := b.own
	j.begin(m, b, c)
	c.Run(j, rows, 1)
	if err := j.fault.Load(); err != nil {
		panic(tableFault{fmt.Errorf("the model's file: %w", *err)}) // the loop recovers it: the step's requests fail
	}
}

// tableFault is the panic of a forward pass whose rows of the table can not be read.
type tableFault struct{ error }

// recoverTable makes a tableFault the error of a function that runs the model outside of an engine's loop, and defers this.
func recoverTable(err *error) {
	switch v := recover().(type) {
	case nil:
	case tableFault:
		*err = v.error
	default:
		panic(v)
	}
}

// inputsJob makes one row's inputs of the product: (norm(product / root of the model's width) + root of the width * row of the table) / root of 2.
type inputsJob struct {
	m     *model
	b     *batch
	level isa.Level
	raw   [][]byte    // of each worker, a row of the table
	own   [][]float32 // as above, decoded
	fault atomic.Pointer[error]
}

func (j *inputsJob) begin(m *model, b *batch, c *kernel.CPU) {
	j.m, j.b, j.level = m, b, c.Level()
	j.fault.Store(nil)
	for m.inputs.table != nil && len(j.raw) < c.Threads() {
		j.raw = append(j.raw, make([]byte, m.inputs.tensor.RowBytes()))
		j.own = append(j.own, make([]float32, m.inputs.width*m.depth))
	}
}

func (j *inputsJob) Do(worker, r int) {
	w := &j.m.inputs
	n := w.width * j.m.depth
	row := j.b.inputs[r*n : (r+1)*n]
	f := float32(1 / math.Sqrt(float64(j.m.width)))
	for i := range row {
		row[i] *= f
	}
	for i := 0; i < n; i += w.width {
		w.norm.Apply(j.level, row[i:i+w.width], row[i:i+w.width])
	}
	if w.table == nil {
		return
	}
	raw, own := j.raw[worker], j.own[worker]
	if err := w.table.Read(raw, int(j.b.tokens[r])); err != nil {
		j.failed(err)
		return
	}
	weight.Decode(w.tensor.Type, own, raw)
	scale := squareRoot(w.width)
	for i, v := range own {
		row[i] = (row[i] + v*scale) * (1 / math.Sqrt2)
	}
}

// failed is a function of its own so that an error costs memory only where there is one.
func (j *inputsJob) failed(err error) { j.fault.Store(&err) }

// takeInput adds what a layer makes of its input to x, of a block's rows.
func (y *layer) takeInput(m *model, c *kernel.CPU, b *batch, r block) {
	w := m.inputs.width
	if w == 0 {
		return
	}
	x, gate := r.of(b.x, m.width), y.input.gate.into(b.gate, false)
	gate.Act = vector.GELU
	m.products(c, b, r, x, weight.Norm{}, gate)
	for i := range r.rows() {
		own := b.inputs[(r.lo+i)*m.depth*w+y.input.first:][:w]
		for k, v := range own {
			b.gate[i*w+k] *= v
		}
	}
	n := norms{out: y.input.norm}
	m.close(c, b, r, b.gate, &y.input.project, &n)
}

// scaleRows multiplies rows by the layer's factor.
func (y *layer) scaleRows(x []float32) {
	if y.scale == nil {
		return
	}
	f := y.scale[0]
	for i := range x {
		x[i] *= f
	}
}

// makeValues makes a block's values of its keys where the layer has no matrix of values, and norms them.
func (a *attention) makeValues(c *kernel.CPU, b *batch, r block) {
	if a.v.w == nil {
		copy(b.v, b.k[:r.rows()*a.kvHeads*a.headDim])
	}
	if a.valueNorm {
		c.Norm(b.v, b.v, a.values, r.rows()*a.kvHeads)
	}
}
