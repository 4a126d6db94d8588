package llm

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"weir/engine/gguf"
	"weir/engine/kernel/vector"
	"weir/engine/kernel/weight"
)

// adapterFile is an adapter's file that is checked against a model.
type adapterFile struct {
	f      *gguf.File
	model  *model
	opts   AdapterOptions
	rank   int // the largest
	alpha  float32
	loader loader
	err    error
}

// checkAdapter holds a file against a model, and returns what the file changes, without its memory.
func checkAdapter(m *model, f *gguf.File, opts AdapterOptions, maxRank int) (*adapterFile, *adapter, error) {
	if opts.Scale == 0 {
		opts.Scale = 1
	}
	x := &adapterFile{f: f, model: m, opts: opts, rank: cmp.Or(maxRank, MostAdapterRank)}
	x.loader = loader{f: f, claimed: make(map[string]bool, len(f.Tensors))}
	x.readKeys()
	a := x.list()
	if x.err != nil {
		return nil, nil, x.err
	}
	a.info.Name, a.info.Alpha, a.info.Scale = opts.Name, x.alpha, opts.Scale
	var err error
	if a.info.Bytes, err = x.loader.arenaBytes(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrAdapter, err)
	}
	return x, a, nil
}

func (x *adapterFile) fail(format string, args ...any) {
	if x.err == nil {
		x.err = fmt.Errorf("%w: "+format, append([]any{ErrAdapter}, args...)...)
	}
}

// text is a string of the file's metadata.
func (x *adapterFile) text(key string) string {
	v, _, err := x.f.String(key)
	if err != nil {
		x.fail("%w", err)
	}
	return v
}

// adapterType is the general.type of adapters.
const adapterType = "adapter"

// readKeys checks what the file says of itself.
func (x *adapterFile) readKeys() {
	if t := x.text("general.type"); t != adapterType {
		x.fail("general.type is %.80q, not \"adapter\": the file is no adapter; give one that convert_lora_to_gguf.py made", t)
	}
	if t := x.text("adapter.type"); t != "lora" {
		x.fail("adapter.type is %.80q; known is \"lora\"", t)
	}
	if arch := x.text("general.architecture"); arch != x.model.arch.name {
		x.fail("general.architecture is %.80q, and the model's is %q: the adapter is of another model", arch, x.model.arch.name)
	}
	if _, ok := x.f.Value("adapter.alora.invocation_tokens"); ok {
		x.fail("adapter.alora.invocation_tokens: activated adapters, which begin amid a prompt, are not supported")
	}
	alpha, _, err := x.f.Float("adapter.lora.alpha")
	switch {
	case err != nil:
		x.fail("%w", err)
	case math.IsNaN(alpha) || math.IsInf(alpha, 0) || alpha < 0:
		x.fail("adapter.lora.alpha is %v, must be a number from 0 on", alpha)
	}
	x.alpha = float32(alpha)
}

// The two tensors of a matrix.
const lowA, lowB = ".lora_a", ".lora_b"

// list wants the tensors of the adapter, which are all that the file has.
func (x *adapterFile) list() *adapter {
	a := &adapter{deltas: make(map[*weight.Matrix]*weight.LowRank)}
	targets := x.adaptable()
	for i := range x.f.Tensors {
		name := x.f.Tensors[i].Name
		base, isA := strings.CutSuffix(name, lowA)
		if !isA {
			var isB bool
			if base, isB = strings.CutSuffix(name, lowB); !isB {
				x.fail("tensor %s: its name ends neither in %s nor in %s", name, lowA, lowB)
				continue
			}
			if _, ok := x.f.Tensor(base + lowA); !ok {
				x.fail("tensor %s has no %s%s beside it", name, base, lowA)
			}
			continue
		}
		b, ok := x.f.Tensor(base + lowB)
		if !ok {
			x.fail("tensor %s has no %s%s beside it", name, base, lowB)
			continue
		}
		parts := targets[strings.TrimSuffix(base, ".weight")]
		if parts == nil || !strings.HasSuffix(base, ".weight") {
			x.fail("tensor %s changes %s, and the model has no such matrix that an adapter may change: those are attn_q, attn_k, attn_v, "+
				"attn_output, ffn_gate, ffn_up and ffn_down of its layers, without experts, recurrent layers, embeddings, norms and biases", name, base)
			continue
		}
		x.want(a, parts, &x.f.Tensors[i], b)
	}
	if len(a.deltas) == 0 {
		x.fail("the file has no tensors")
	}
	x.arrange(a)
	return a
}

// arrange has the tensors lie in memory in the order in which a step reads them: of products of the same rows all A first, then all B.
func (x *adapterFile) arrange(a *adapter) {
	order := make(map[**weight.Matrix]int, 2*len(a.deltas))
	together := func(all ...*linear) {
		for _, l := range all {
			if d := a.deltas[l.w]; d != nil {
				order[&d.A] = len(order)
			}
		}
		for _, l := range all {
			if d := a.deltas[l.w]; d != nil {
				order[&d.B] = len(order)
			}
		}
	}
	for i := range x.model.layers {
		at, f := &x.model.layers[i].attention, &x.model.layers[i].feed
		together(&at.q, &at.k, &at.v)
		together(&at.o)
		together(&f.gate, &f.up)
		together(&f.down)
	}
	slices.SortStableFunc(x.loader.wants, func(a, b want) int { return cmp.Compare(order[a.matrix], order[b.matrix]) })
}

// want wants the two tensors of a matrix, or of several that lie in one tensor of the model.
func (x *adapterFile) want(a *adapter, parts []*linear, low, high *gguf.Tensor) {
	cols, rows := parts[0].w.Cols, 0
	for _, p := range parts {
		rows += p.w.Rows
	}
	rank := 0
	if len(low.Dims) > 1 {
		rank = int(min(low.Dims[1], math.MaxInt32))
	} else if len(low.Dims) == 1 {
		rank = 1
	}
	switch {
	case rank < 1 || !shaped(low.Dims, []int{cols, rank}):
		x.fail("tensor %s has shape %v; of the model's %s it must be [%d, the rank]", low.Name, low.Dims, parts[0].tensor, cols)
		return
	case rank > x.rank:
		x.fail("tensor %s: its rank %d is greater than max_lora_rank %d; raise --max-lora-rank", low.Name, rank, x.rank)
		return
	case !shaped(high.Dims, []int{rank, rows}):
		x.fail("tensor %s has shape %v; with the rank %d of %s and the model's %s it must be [%d, %d]", high.Name, high.Dims, rank, low.Name, parts[0].tensor, rank, rows)
		return
	}
	for _, t := range []*gguf.Tensor{low, high} {
		if err := t.CheckSupported(); err != nil {
			x.fail("%w", err)
			return
		}
	}
	a.info.Rank = max(a.info.Rank, rank)
	a.info.Tensors++
	first := &weight.LowRank{Scale: x.opts.Scale}
	if x.alpha != 0 {
		first.Scale *= x.alpha / float32(rank)
	}
	if s := float64(first.Scale); !(math.Abs(s) <= mostAdapterScale) {
		x.fail("what %s adds is scaled by %v, of the option scale and adapter.lora.alpha %v by the rank %d; at most %v is taken", low.Name, s, x.alpha, rank, float64(mostAdapterScale))
		return
	}
	l := &x.loader
	lows, highs := x.held(low), x.held(high)
	add := func(t *gguf.Tensor, held gguf.Type, first, rows, cols int, to **weight.Matrix) {
		w := l.want(t, first, rows, cols, to)
		w.held = held
		l.wants = append(l.wants, w)
	}
	for i, p := range parts {
		d := first
		if i > 0 {
			d = &weight.LowRank{Scale: first.Scale}
		}
		add(low, lows, 0, rank, cols, &d.A)
		add(high, highs, p.first, p.w.Rows, rank, &d.B)
		a.deltas[p.w] = d
	}
}

// held is the type that a tensor has in memory: its own if it is one of floats, since products with quantised matrices would round what is added.
// Floats that are those of a half-precision type, as converters write them of adapters that were trained in it, take half the memory, of which a
// step reads all.
func (x *adapterFile) held(t *gguf.Tensor) gguf.Type {
	switch t.Type {
	case gguf.TypeF16, gguf.TypeBF16:
		return t.Type
	case gguf.TypeF32:
	default:
		return gguf.TypeF32
	}
	raw := make([]byte, t.Bytes)
	if err := x.f.ReadTensor(t, raw); err != nil {
		x.fail("%w", err)
	}
	brain, half := true, true
	for _, v := range vector.Floats(raw) {
		brain = brain && math.Float32bits(v)<<16 == 0
		if half = half && vector.F16ToF32(vector.F32ToF16(v)) == v; !brain && !half {
			return gguf.TypeF32
		}
	}
	if brain {
		return gguf.TypeBF16
	}
	return gguf.TypeF16
}

// digest tells adapters apart that were read, by which matrices they change and all their values: those of a file that changes while it is read
// are in no other digest.
func (x *adapterFile) digest() string {
	h := sha256.New()
	for i := range x.loader.wants {
		w := &x.loader.wants[i]
		fmt.Fprintf(h, "%q %d %d %d %v\n", w.tensor.Name, w.first, w.rows, w.cols, w.held)
		h.Write(w.memory)
	}
	fmt.Fprintf(h, "%v", x.alpha)
	return hex.EncodeToString(h.Sum(nil))
}

// checkValues refuses values that are not finite.
func (x *adapterFile) checkValues(a *adapter) error {
	for w, d := range a.deltas {
		for _, m := range []*weight.Matrix{d.A, d.B} {
			row := make([]float32, m.Cols)
			for r := range m.Rows {
				if m.DecodeRow(row, r); !finite(row) {
					return fmt.Errorf("%w: a matrix of %d x %d, of the model's %s, holds a value that is not finite; the file is damaged",
						ErrAdapter, m.Rows, m.Cols, x.nameOf(w))
				}
			}
		}
	}
	return nil
}

// adaptable are the matrices that an adapter may change, by the tensor of the file that they are parts of, in order.
func (x *adapterFile) adaptable() map[string][]*linear {
	m := x.model
	list := make(map[string][]*linear)
	add := func(all ...*linear) {
		for _, l := range all {
			if l.w != nil {
				list[l.tensor] = append(list[l.tensor], l)
			}
		}
	}
	for i := range m.layers {
		if a := &m.layers[i].attention; a.exists() {
			add(&a.q, &a.k, &a.v, &a.o)
		}
		if f := &m.layers[i].feed; f.experts.count == 0 {
			add(&f.gate, &f.up, &f.down)
		}
	}
	return list
}

// nameOf is the tensor that has a matrix which an adapter may change.
func (x *adapterFile) nameOf(w *weight.Matrix) string {
	for name, parts := range x.adaptable() {
		if slices.ContainsFunc(parts, func(l *linear) bool { return l.w == w }) {
			return name
		}
	}
	return "matrices"
}
