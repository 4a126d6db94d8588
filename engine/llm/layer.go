package llm

import (
	"weir/engine/kernel"
	"weir/kvcache"
)

// layer is one decoder layer: x += o(attention(norm(x))); x += down(silu(gate)
// * up)(norm(x)).
type layer struct {
	attnNorm     []float32
	q, k, v, o   linear
	qNorm, kNorm []float32 // per head, or nil
	ffnNorm      []float32
	gate, up     linear
	down         linear
}

// batch is one step's rows and the memory they pass through, reused from step
// to step. Rows of one span are neighbours. Its owner is the step loop.
type batch struct {
	tokens []int32
	pos    []int
	places []kernel.Place // where each row's key and value go
	spans  []kernel.Span
	output []int // rows whose hidden state is wanted

	x, q, k, v, att, gate []float32 // [rows][...]
	cos, sin              []float32 // [rows][half]
	hidden                []float32 // [len(output)][width]
}

func (b *batch) reset() {
	b.tokens, b.pos, b.places = b.tokens[:0], b.pos[:0], b.places[:0]
	b.spans, b.output = b.spans[:0], b.output[:0]
}

// add appends a run of one sequence's rows and returns the first one's index.
func (b *batch) add(tokens []int32, start int, blocks []kvcache.BlockID, blockTokens int) int {
	row := len(b.tokens)
	b.tokens = append(b.tokens, tokens...)
	for i := range tokens {
		pos := start + i
		b.pos = append(b.pos, pos)
		b.places = append(b.places, kernel.Place{Block: blocks[pos/blockTokens], Token: pos % blockTokens})
	}
	b.spans = append(b.spans, kernel.Span{Row: row, Count: len(tokens), Start: start, Blocks: blocks})
	return row
}

// reserve makes room for rows rows of a model of this shape.
func (b *batch) reserve(h *hyper, rows, outputs int) {
	q, kv := h.heads*h.headDim, h.kvHeads*h.headDim
	grow(&b.x, rows*h.width)
	grow(&b.q, rows*q)
	grow(&b.att, rows*q)
	grow(&b.k, rows*kv)
	grow(&b.v, rows*kv)
	grow(&b.gate, rows*h.ffn)
	grow(&b.cos, rows*h.rope.half)
	grow(&b.sin, rows*h.rope.half)
	grow(&b.hidden, outputs*h.width)
}

// grow makes *s n long, with some room to grow, and keeps nothing of it.
func grow(s *[]float32, n int) {
	if cap(*s) < n {
		*s = make([]float32, n, n+n/4)
	}
	*s = (*s)[:n]
}

// attention reads b.x, leaves its output in b.att and stores the rows' keys and
// values.
func (m *model) attention(c *kernel.CPU, kv *kernel.KV, i int, b *batch) {
	h, y, rows := &m.hyper, &m.layers[i], len(b.tokens)
	c.Products(b.x, rows, m.norm(y.attnNorm), y.q.into(b.q, false), y.k.into(b.k, false), y.v.into(b.v, false))
	if y.qNorm != nil {
		c.RMSNorm(b.q, b.q, y.qNorm, rows*h.heads, h.eps)
		c.RMSNorm(b.k, b.k, y.kNorm, rows*h.kvHeads, h.eps)
	}
	c.Rope(b.q, rows, h.heads, h.headDim, b.cos, b.sin, h.rope.half, h.arch.style)
	c.Rope(b.k, rows, h.kvHeads, h.headDim, b.cos, b.sin, h.rope.half, h.arch.style)
	c.StoreKV(kv, i, b.k, b.v, b.places)
	c.Attention(b.att, b.q, kv, i, h.heads, b.spans, h.scale)
}
