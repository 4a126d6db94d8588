package llm

import (
	"errors"

	"weir/engine/gguf"
	"weir/engine/kernel"
)

// model is a loaded model: read-only after load, shared by all steps.
type model struct {
	hyper
	*weights
}

// outline is what a file's header and the options make of a model, before any
// weight is read: enough to say what it takes, and to refuse what cannot run.
type outline struct {
	hyper
	loader      *loader
	weights     *weights // without memory
	weightBytes int64
	budget      budget
}

// readOutline checks the header and the options against each other and against
// the machine's memory.
func readOutline(f *gguf.File, opts *Options) (*outline, error) {
	h, err := readHyper(f)
	if err != nil {
		return nil, err
	}
	o := &outline{hyper: h, loader: &loader{f: f, claimed: make(map[string]bool, len(f.Tensors))}}
	o.weights = o.loader.plan(h)
	if o.loader.err != nil {
		return nil, o.loader.err
	}
	if o.weightBytes, err = o.loader.arenaBytes(); err != nil {
		return nil, err
	}
	if o.budget, err = opts.plan(&h, o.weightBytes); err != nil {
		return nil, err
	}
	return o, nil
}

// load reads the weights.
func (o *outline) load(progress func(done, total int64)) (*model, error) {
	if err := o.loader.load(o.weights, progress); err != nil {
		return nil, errors.Join(err, o.weights.release())
	}
	o.rope.prepare(o.weights.divisors)
	return &model{hyper: o.hyper, weights: o.weights}, nil
}

// forward runs every row of b through the layers, storing keys and values, and
// leaves the normalised hidden states of b.output in b.hidden.
func (m *model) forward(c *kernel.CPU, kv *kernel.KV, b *batch) {
	rows := len(b.tokens)
	b.reserve(&m.hyper, rows, len(b.output))
	for r, id := range b.tokens {
		m.embed.DecodeRow(b.x[r*m.width:], int(id))
		m.rope.angles(b.cos[r*m.rope.half:][:m.rope.half], b.sin[r*m.rope.half:][:m.rope.half], b.pos[r])
	}
	for i := range m.layers {
		y := &m.layers[i]
		m.attention(c, kv, i, b)
		c.Products(b.att, rows, kernel.Norm{}, y.o.into(b.x, true))
		c.Gated(b.gate, b.x, rows, m.norm(y.ffnNorm), y.gate.into(nil, false), y.up.into(nil, false))
		c.Products(b.gate, rows, kernel.Norm{}, y.down.into(b.x, true))
	}
	for i, r := range b.output {
		copy(b.hidden[i*m.width:(i+1)*m.width], b.x[r*m.width:])
	}
	c.RMSNorm(b.hidden, b.hidden, m.outputNorm, len(b.output), m.eps)
}

// norm is a norm of this model's with the given weight.
func (m *model) norm(weight []float32) kernel.Norm {
	return kernel.Norm{Weight: weight, Eps: m.eps}
}

// logits multiplies rows hidden states, [rows][width], by the output matrix:
// dst is [rows][vocab].
func (m *model) logits(c *kernel.CPU, dst, hidden []float32, rows int) {
	c.MatMul(dst, m.output, hidden, rows, nil)
}
