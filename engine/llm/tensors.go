package llm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weir/engine/gguf"
	"weir/engine/kernel/recurrence"
	"weir/engine/kernel/weight"
	"weir/internal/inference"
)

// loader collects what a model wants from a file, then reads it all. The
// first error sticks.
type loader struct {
	f       *gguf.File
	exact   func(tensor string) bool                 // whether a matrix is held as float32, whatever its type; nil: none is
	pairs   func(tensor *gguf.Tensor, cols int) bool // whether a matrix is held for products of bfloat16; nil: none is
	wants   []want
	claimed map[string]bool
	err     error
}

// want is one tensor, or some rows of it, and where it goes.
type want struct {
	tensor     *gguf.Tensor
	first      int   // row of the tensor
	order      []int // rows of the tensor, where they do not follow each other from the first one on; nil: they do
	rows, cols int
	held       gguf.Type       // of the matrix in memory: the tensor's, or F32
	paired     bool            // for products of bfloat16, instead
	matrix     **weight.Matrix // or
	vector     *[]float32
	memory     []byte // in the arena
}

func (l *loader) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf("%w: "+format, append([]any{ErrModel}, args...)...)
	}
}

// find looks a tensor up and checks its shape, dims in ggml's order.
func (l *loader) find(name string, p presence, dims ...int) *gguf.Tensor {
	if p == absent || l.err != nil {
		return nil
	}
	t, ok := l.f.Tensor(name)
	if !ok {
		if p == required {
			l.fail("tensor %s is missing", name)
		}
		return nil
	}
	l.claimed[name] = true
	if err := t.CheckSupported(); err != nil {
		l.fail("%w", err)
		return nil
	}
	if !shaped(t.Dims, dims) {
		l.fail("tensor %s has shape %v, the metadata make it %v", name, t.Dims, dims)
		return nil
	}
	return t
}

// shaped reports whether a tensor has these sizes. Files may leave the last ones out that are 1, as converters do with a matrix of one row.
func shaped(has []uint64, wants []int) bool {
	for i := range max(len(has), len(wants)) {
		one, other := uint64(1), uint64(1)
		if i < len(has) {
			one = has[i]
		}
		if i < len(wants) {
			other = uint64(wants[i])
		}
		if one != other {
			return false
		}
	}
	return true
}

// matrix wants a [rows][cols] weight.
func (l *loader) matrix(dst **weight.Matrix, name string, p presence, rows, cols int) {
	if t := l.find(name, p, cols, rows); t != nil {
		l.wants = append(l.wants, l.want(t, 0, rows, cols, dst))
	}
}

// want is a matrix of the rows of a tensor from first on, in the type that it has in memory.
func (l *loader) want(t *gguf.Tensor, first, rows, cols int, dst **weight.Matrix) want {
	w := want{tensor: t, first: first, rows: rows, cols: cols, held: t.Type, matrix: dst}
	switch {
	case l.exact != nil && l.exact(t.Name):
		w.held = gguf.TypeF32
	case l.pairs != nil && l.pairs(t, cols):
		w.held, w.paired = gguf.TypeBF16, true
	}
	return w
}

// vector wants n values as floats, whatever their stored type.
func (l *loader) vector(dst *[]float32, name string, p presence, n int) {
	if t := l.find(name, p, n); t != nil {
		l.wants = append(l.wants, want{tensor: t, rows: 1, cols: n, vector: dst})
	}
}

// table wants a [rows][cols] weight as floats.
func (l *loader) table(dst *[]float32, name string, p presence, rows, cols int) {
	if t := l.find(name, p, cols, rows); t != nil {
		l.wants = append(l.wants, want{tensor: t, rows: rows, cols: cols, vector: dst})
	}
}

func (l *loader) linear(dst *linear, name string, bias presence, rows, cols int) {
	dst.tensor = name
	l.matrix(&dst.w, name+".weight", required, rows, cols)
	l.vector(&dst.bias, name+".bias", bias, rows)
}

// fused wants matrices of the same inputs that may lie in one tensor, one behind
// the other; false where the file has no such tensor.
func (l *loader) fused(name string, bias presence, cols int, parts ...fusedPart) bool {
	rows := 0
	for _, p := range parts {
		rows += p.rows
	}
	if t, ok := l.f.Tensor(name + ".weight"); !ok || l.err != nil || t.Dims[len(t.Dims)-1] != uint64(rows) {
		return false
	}
	w, b := l.find(name+".weight", required, cols, rows), l.find(name+".bias", bias, rows)
	if w == nil {
		return true // the error is noted
	}
	first := 0
	for _, p := range parts {
		p.to.tensor, p.to.first = name, first
		l.wants = append(l.wants, l.want(w, first, p.rows, cols, &p.to.w))
		if b != nil {
			l.wants = append(l.wants, want{tensor: b, first: first, rows: p.rows, cols: 1, vector: &p.to.bias})
		}
		first += p.rows
	}
	return true
}

// fusedPart is one of the matrices of a fused tensor.
type fusedPart struct {
	to   *linear
	rows int // of an interleaved one, in each group
}

// interleaved wants matrices of the same inputs that lie in one tensor, some rows of each for one group after the other. Parts of the same matrix
// are neighbours in the list, and follow each other in the matrix.
func (l *loader) interleaved(name string, cols, groups int, parts ...fusedPart) {
	size := 0
	for _, p := range parts {
		size += p.rows
	}
	t := l.find(name+".weight", required, cols, size*groups)
	if t == nil {
		return // the error is noted
	}
	first, last := 0, (*linear)(nil)
	for _, p := range parts {
		if p.to != last {
			l.wants = append(l.wants, l.want(t, 0, 0, cols, &p.to.w))
		}
		w := &l.wants[len(l.wants)-1]
		for g := range groups {
			for r := range p.rows {
				w.order = append(w.order, g*size+first+r)
			}
		}
		w.rows, first, last = len(w.order), first+p.rows, p.to
	}
}

// norm wants a norm of n values.
func (l *loader) norm(dst *weight.Norm, name string, p normPlan, n int, eps float32) {
	if p.norm == absent {
		return
	}
	dst.Eps = eps
	weights := name + ".weight"
	if _, ok := l.f.Tensor(name); ok { // as Falcon H1's converter names one of them
		weights = name
	}
	l.vector(&dst.Weight, weights, p.norm, n)
	l.vector(&dst.Bias, name+".bias", p.bias, n)
	if _, ok := l.f.Tensor(name + ".bias"); !ok && p.bias == optional {
		dst.Bias = make([]float32, n)
	}
}

// list wants every tensor that a plan calls for.
func (l *loader) list(h *hparams, p *plan) *weights {
	w := &weights{
		layers: make([]layer, len(p.layers)), ropes: p.ropes, embedding: p.embedding, logits: p.logits, logitCap: p.logitCap, decides: p.decides,
		states: p.stateValues,
	}
	l.matrix(&w.embed, "token_embd.weight", required, h.vocab, h.width)
	if p.embedding.types > 0 {
		l.table(&w.typeRows, "token_types.weight", required, p.embedding.types, h.width)
	}
	if p.embedding.positions > 0 {
		l.table(&w.posRows, "position_embd.weight", required, p.embedding.positions, h.width)
	}
	l.norm(&w.embedNorm, "token_embd_norm", p.embedding.norm, h.width, h.eps)
	if p.head.pooling == inference.PoolingNone && !h.arch.encoder {
		l.matrix(&w.output, "output.weight", optional, h.vocab, h.width)
		w.wantPointer(l, h, p)
	} else {
		l.claimed["output.weight"] = true // an encoder of a language model does not need it
		w.wantHead(l, p.head, h)
	}
	l.norm(&w.outputNorm, cmp.Or(p.finalName, "output_norm"), p.finalNorm, h.width, h.eps)
	l.inputs(&w.inputs, h, p.inputs)
	l.divisors(&w.divisors, h)
	for i := range w.layers {
		y, at, first := &w.layers[i], fmt.Sprintf("blk.%d.", i), len(l.wants)
		y.attention.attentionPlan, y.recurrent.plan, y.feed.feedForwardPlan = p.layers[i].attention, p.layers[i].recurrence, p.layers[i].feed
		w.branches = w.branches || p.layers[i].branches()
		y.want(l, at, h)
		l.layerInput(&y.input, i, at, h, p.inputs)
		l.vector(&y.scale, at+"layer_output_scale.weight", p.layers[i].scaled, 1)
		w.layerBytes = max(w.layerBytes, wantedBytes(l.wants[first:]))
	}
	first, drafts := h.depth, h.drafts
	if p.mtp != nil {
		w.mtp = p.mtp.wantHead(l, h)
		first, drafts = first+1, drafts-1
	}
	l.leave(first, drafts)
	l.refuseUnknown()
	return w
}

// want wants the tensors of the layer's parts.
func (y *layer) want(l *loader, at string, h *hparams) {
	if y.recurrent.plan.shape.Kind != recurrence.None {
		y.recurrent.want(l, at, h)
	}
	if y.attention.exists() {
		l.attention(&y.attention, at, h)
	}
	if !y.feed.exists() {
		return
	}
	before := l.feedNorm(at)
	if h.arch.sole || y.feed.beside {
		before = at + "attn_norm"
	}
	l.feed(&y.feed, at, before, h)
}

// leave passes over the tensors of n layers from the first one on.
func (l *loader) leave(first, n int) {
	for i := range n {
		at := fmt.Sprintf("blk.%d.", first+i)
		for t := range l.f.Tensors {
			if name := l.f.Tensors[t].Name; strings.HasPrefix(name, at) {
				l.claimed[name] = true
			}
		}
	}
}

// divisors wants what the rotary frequencies are divided by: one vector for all texts, or of two the one that the configured
// length asks for. A model with the other one computes other keys, so that the choice holds for all sequences.
func (l *loader) divisors(dst *[]float32, h *hparams) {
	freqs := optional
	if h.arch.layered && !h.arch.encoder { // its layers without a window turn a part of their pairs, which these tell
		freqs = required
	}
	l.vector(dst, "rope_freqs.weight", freqs, h.rope.half)
	if !h.arch.longRope {
		return
	}
	p := optional
	if h.rope.scaling == "longrope" {
		p = required
	}
	short := l.find("rope_factors_short.weight", p, h.rope.half)
	long := l.find("rope_factors_long.weight", p, h.rope.half)
	switch {
	case short == nil && long == nil:
		return
	case short == nil || long == nil:
		l.fail("of the tensors rope_factors_short.weight and rope_factors_long.weight one is missing")
		return
	case h.length > h.rope.original:
		h.long, short = true, long
	}
	l.wants = append(l.wants, want{tensor: short, rows: 1, cols: h.rope.half, vector: dst})
}

func (l *loader) norms(d *norms, p branchNorms, before, out, after string, h *hparams) {
	d.scale = p.scale
	l.norm(&d.before, before, p.before, h.width, h.eps)
	l.norm(&d.out, out, p.out, h.width, h.eps)
	l.norm(&d.after, after, p.after, h.width, h.eps)
}

func (l *loader) attention(a *attention, at string, h *hparams) {
	q, kv, width := a.queryValues(), a.kvHeads*a.headDim, a.heads*a.headDim
	l.norms(&a.norms, a.attentionPlan.norms, at+"attn_norm", at+"post_attention_norm", at+"attn_output_norm", h)
	switch {
	case a.readsFrom != ownKeys:
		l.linear(&a.q, at+"attn_q", a.qkvBias, q, h.width)
	case l.fused(at+"attn_qkv", a.qkvBias, h.width, fusedPart{&a.q, q}, fusedPart{&a.k, kv}, fusedPart{&a.v, kv}):
	default:
		l.linear(&a.q, at+"attn_q", a.qkvBias, q, h.width)
		l.linear(&a.k, at+"attn_k", a.qkvBias, kv, h.width)
		l.values(a, at, h.width, kv)
	}
	l.linear(&a.o, at+"attn_output", a.oBias, h.width, width)
	if a.headNorm {
		l.norm(&a.qNorm, at+"attn_q_norm", a.headNorms(), a.headDim, h.eps)
	}
	if a.headNorm && a.readsFrom == ownKeys {
		l.norm(&a.kNorm, at+"attn_k_norm", a.headNorms(), a.headDim, h.eps)
	}
	if a.valueNorm {
		a.values = weight.Norm{Weight: slices.Repeat([]float32{1}, a.headDim), Eps: h.eps}
	}
	l.norm(&a.qNorm, at+"attn_q_norm", a.rowNorm, width, h.eps)
	l.norm(&a.kNorm, at+"attn_k_norm", a.rowNorm, kv, h.eps)
	l.vector(&a.sinks, at+"attn_sinks.weight", a.attentionPlan.sinks, a.heads)
	l.norm(&a.again, at+"attn_norm_2", a.attentionPlan.again, h.width, h.eps)
}

// values wants the matrix of values, which a layer may lack whose keys can stand for values.
func (l *loader) values(a *attention, at string, width, kv int) {
	if _, ok := l.f.Tensor(at + "attn_v.weight"); ok || !a.valuesFromKeys {
		l.linear(&a.v, at+"attn_v", a.qkvBias, kv, width)
	}
}

// feedNorm is the norm before the network, which some converters name by what is before it.
func (l *loader) feedNorm(at string) string {
	const name, other = "ffn_norm", "post_attention_norm"
	if _, ok := l.f.Tensor(at + name + ".weight"); ok || l.claimed[at+other+".weight"] {
		return at + name
	}
	if _, ok := l.f.Tensor(at + other + ".weight"); ok {
		return at + other
	}
	return at + name
}

// feed wants the network's tensors, and the norm before it.
func (l *loader) feed(f *feedForward, at, before string, h *hparams) {
	l.norms(&f.norms, f.feedForwardPlan.norms, before, at+"post_ffw_norm", at+"layer_output_norm", h)
	switch {
	case f.experts.count > 0 && !f.experts.apart:
		l.mixture(f, at, h)
		return
	case f.plain:
		l.linear(&f.up, at+"ffn_up", f.bias, f.width, h.width)
	case l.fused(at+"ffn_up", f.bias, h.width, fusedPart{&f.gate, f.width}, fusedPart{&f.up, f.width}):
	default:
		l.linear(&f.gate, at+"ffn_gate", f.bias, f.width, h.width)
		l.linear(&f.up, at+"ffn_up", f.bias, f.width, h.width)
	}
	l.linear(&f.down, at+"ffn_down", f.bias, h.width, f.width)
	if f.experts.apart {
		l.mixture(f, at, h)
	}
}

// refuseUnknown: a tensor that is not asked for means a model that is more than
// this engine would compute, and a wrong answer is worse than none. Files
// repeat rope_freqs per layer in old conversions; those are known copies.
func (l *loader) refuseUnknown() {
	var extra []string
	for i := range l.f.Tensors {
		name := l.f.Tensors[i].Name
		if !l.claimed[name] && !strings.HasSuffix(name, ".attn.rot_embd.inv_freq") && !strings.HasSuffix(name, "rotary_emb.inv_freq") {
			extra = append(extra, name)
		}
	}
	if len(extra) > 0 {
		l.fail("%d tensors have no place in this architecture (%s); the file is of another model",
			len(extra), strings.Join(extra[:min(4, len(extra))], ", "))
	}
}
