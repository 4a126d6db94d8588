package llm

import (
	"weir/engine/kernel/attend"
	"weir/kvcache"
)

// batch is one step's rows and the memory they pass through, reused from step
// to step. Rows of one span are neighbours. Its owner is the step loop.
type batch struct {
	tokens []int32
	pos    []int
	places []attend.Place // where each row's key and value go
	spans  []attend.Span
	output []int // rows whose hidden state is wanted

	x, q, k, v, att, gate []float32  // [rows][...]
	angles                []rotation // one per rotation of the plan
	hidden                []float32  // [len(output)][width]
}

// rotation is how far each pair of a row turns under one of the plan's ropes.
type rotation struct {
	cos, sin []float32 // [rows][half]
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
		b.places = append(b.places, attend.Place{Block: blocks[pos/blockTokens], Token: pos % blockTokens})
	}
	b.spans = append(b.spans, attend.Span{Row: row, Count: len(tokens), Start: start, Blocks: blocks})
	return row
}

// reserve makes room for the batch's rows in a model.
func (b *batch) reserve(m *model) {
	rows, q, kv, ffn := len(b.tokens), 0, 0, 0
	for i := range m.layers {
		a := &m.layers[i].attention
		q, kv = max(q, a.heads*a.headDim), max(kv, a.kvHeads*a.headDim)
		ffn = max(ffn, m.layers[i].feed.width)
	}
	grow(&b.x, rows*m.width)
	grow(&b.q, rows*q)
	grow(&b.att, rows*q)
	grow(&b.k, rows*kv)
	grow(&b.v, rows*kv)
	grow(&b.gate, rows*ffn)
	grow(&b.hidden, len(b.output)*m.width)
	if len(b.angles) < len(m.ropes) {
		b.angles = make([]rotation, len(m.ropes))
	}
	for i := range m.ropes {
		grow(&b.angles[i].cos, rows*m.ropes[i].half)
		grow(&b.angles[i].sin, rows*m.ropes[i].half)
	}
}

// grow makes *s n long, with some room to grow, and keeps nothing of it.
func grow(s *[]float32, n int) {
	if cap(*s) < n {
		*s = make([]float32, n, n+n/4)
	}
	*s = (*s)[:n]
}
