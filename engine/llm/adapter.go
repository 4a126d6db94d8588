package llm

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"weir/engine/gguf"
	"weir/engine/kernel/weight"
	"weir/internal/arena"
)

// ErrAdapter is wrapped by errors about the file of an adapter that cannot be used with a model.
var ErrAdapter = errors.New("unusable adapter")

// MostAdapterRank is the largest rank of an adapter, unless [Options] have a smaller one.
const MostAdapterRank = 512

// AdapterOptions say how an adapter is read.
type AdapterOptions struct {
	Name  string
	Scale float32 // by which all that it adds is multiplied; 0 is 1
}

// AdapterInfo describes a loaded adapter.
type AdapterInfo struct {
	Name    string
	Digest  string // gguf.File.Digest in hexadecimal
	Rank    int    // the largest of its tensors
	Alpha   float32
	Scale   float32 // of the options
	Tensors int     // of the model that it changes
	Bytes   int64   // in memory
}

// mostAdapterScale bounds what adapters are scaled by, far above all that are made: answers behind larger ones overflow.
const mostAdapterScale = 1e6

// adapter is a LoRA adapter: to what a matrix W makes of x it adds scale*B(A x), A being [rank][inputs] and B [outputs][rank]. Its
// memory goes back once it was unloaded and the last request has ended that computes with it.
type adapter struct {
	info   AdapterInfo
	id     uint64 // in the order of loading
	deltas map[*weight.Matrix]*delta
}

// delta is what an adapter adds to the products with one matrix.
type delta struct {
	a, b  *weight.Matrix
	scale float32
}

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

// readAdapter reads the adapter of a file that fits the model. Errors wrap ErrAdapter and name what does not fit.
func readAdapter(m *model, f *gguf.File, opts AdapterOptions, maxRank int) (*adapter, error) {
	if opts.Scale == 0 {
		opts.Scale = 1
	}
	x := &adapterFile{f: f, model: m, opts: opts, rank: cmp.Or(maxRank, MostAdapterRank)}
	x.loader = loader{f: f, exact: inexact(f), claimed: make(map[string]bool, len(f.Tensors))}
	x.readKeys()
	a := x.list()
	if x.err != nil {
		return nil, x.err
	}
	digest, err := f.Digest()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAdapter, err)
	}
	memory := new(tensorMemory)
	if err := x.loader.fill(memory, func(int64, int64) {}, func() error { return nil }); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrAdapter, err), memory.release())
	}
	if err := x.checkValues(a); err != nil {
		return nil, errors.Join(err, memory.release())
	}
	runtime.AddCleanup(a, func(m *arena.Arena) { _ = m.Release() }, memory.arena)
	a.info = AdapterInfo{
		Name: opts.Name, Digest: hex.EncodeToString(digest[:]), Rank: a.info.Rank, Alpha: x.alpha, Scale: opts.Scale,
		Tensors: a.info.Tensors, Bytes: memory.bytes,
	}
	return a, nil
}

// inexact tells the matrices of a file that are held as float32: quantised ones, whose products would round what is added.
func inexact(f *gguf.File) func(tensor string) bool {
	return func(name string) bool {
		t, ok := f.Tensor(name)
		return ok && t.Type != gguf.TypeF32 && t.Type != gguf.TypeF16 && t.Type != gguf.TypeBF16
	}
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
	a := &adapter{deltas: make(map[*weight.Matrix]*delta)}
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
	return a
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
	first := &delta{scale: x.opts.Scale}
	if x.alpha != 0 {
		first.scale *= x.alpha / float32(rank)
	}
	if s := float64(first.scale); !(math.Abs(s) <= mostAdapterScale) {
		x.fail("what %s adds is scaled by %v, of the option scale and adapter.lora.alpha %v by the rank %d; at most %v is taken", low.Name, s, x.alpha, rank, float64(mostAdapterScale))
		return
	}
	l := &x.loader
	l.wants = append(l.wants, l.want(low, 0, rank, cols, &first.a))
	for i, p := range parts {
		d := first
		if i > 0 {
			d = &delta{scale: first.scale}
			l.wants = append(l.wants, l.want(low, 0, rank, cols, &d.a))
		}
		l.wants = append(l.wants, l.want(high, p.first, p.w.Rows, rank, &d.b))
		a.deltas[p.w] = d
	}
}

// checkValues refuses values that are not finite.
func (x *adapterFile) checkValues(a *adapter) error {
	for w, d := range a.deltas {
		for _, m := range []*weight.Matrix{d.a, d.b} {
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
