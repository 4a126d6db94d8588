package llm

import (
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/weight"
	"weir/kvcache"
)

// batch is one step's rows and the memory they pass through, reused from step
// to step. Rows of one span are neighbours. Its owner is the step loop.
type batch struct {
	tokens []int32
	types  []uint8 // of tokens, in models that know types
	pos    []int
	tables []tableRows // of the sequences' block tables
	start  startJob
	own    *inputsJob
	reads  uint64 // of its queries of attention, see [attend.Query]
	output []int  // rows whose hidden state is wanted, in ascending order
	logits []int  // of output, those whose logits are wanted, in ascending order; of the step's batches

	x, q       []float32  // [rows][...]
	widest     int        // values of a row of q in the layer with the most
	angles     []rotation // one per rotation of the plan
	inputs     []float32  // [rows][layers][inputs' width], of models whose layers have inputs of their own
	hidden     []float32  // [len(output)][width]
	headHidden []float32  // [rows][width] hidden states, of an MTP head's rows
	pairs      []float32  // [rows][2*width], see headInput
	scratch

	store   *states     // of recurrent layers
	carried []stateSpan // of the spans, in models with such layers
	adapted adaptedRows
	rounds  int        // of the spans of a sequence; 0: one
	turn    turnInLine // when the rows before a block's have passed a recurrent layer; the zero value: they have

	kept   *batch  // the rows of output, in the last layer
	blocks []block // see blockwise
	views  []batch // of workers, each with its own scratch
	line   *pipeline
}

// tableRows are a batch's rows as layers of one block table see them.
type tableRows struct {
	places []attend.Place // where each row's key and value go
	spans  []attend.Span  // of the same rows in every table
}

// scratch is the memory that a block of rows passes through.
type scratch struct {
	k, v, att, gate []float32     // [rows of a block][...]
	branch          []float32     // as above, of models whose branches have norms
	input           []float32     // as above, of models whose networks stand beside the attention
	mixing          mixing        // of models with experts
	curve           curveJob      // of networks with a curve
	low             lowRanks      // of rows with adapters
	mostBlock       int           // rows
	part            []attend.Span // the spans of a block
	parting         gateJob       // of attention with gates
	recurring
}

// rotation is how far each pair of a row turns under one of the plan's ropes.
type rotation struct {
	cos, sin []float32 // [rows][half]
}

func (b *batch) reset() {
	b.tokens, b.types, b.pos, b.output, b.logits, b.carried = b.tokens[:0], b.types[:0], b.pos[:0], b.output[:0], b.logits[:0], b.carried[:0]
	clear(b.adapted) // they may be unloaded
	b.rounds, b.adapted, b.headHidden = 0, b.adapted[:0], b.headHidden[:0]
	for i := range b.tables {
		b.tables[i].places, b.tables[i].spans = b.tables[i].places[:0], b.tables[i].spans[:0]
	}
}

// spans are the batch's, with the blocks of the first table.
func (b *batch) spans() []attend.Span { return b.tables[0].spans }

// take makes room for so many block tables.
func (b *batch) take(tables int) {
	for len(b.tables) < tables {
		b.tables = append(b.tables, tableRows{})
	}
}

// add appends a run of one sequence's rows, whose keys and values are in the blocks of its tables, and returns the first one's index.
func (b *batch) add(tokens []int32, start, blockTokens int, tables ...[]kvcache.BlockID) int {
	row := len(b.tokens)
	b.tokens = append(b.tokens, tokens...)
	for i := range tokens {
		b.pos = append(b.pos, start+i)
	}
	b.take(len(tables))
	for i, blocks := range tables {
		t := &b.tables[i]
		for pos := start; pos < start+len(tokens); pos++ {
			t.places = append(t.places, attend.Place{Block: blocks[pos/blockTokens], Token: pos % blockTokens, Position: pos})
		}
		t.spans = append(t.spans, attend.Span{Row: row, Count: len(tokens), Start: start, Blocks: blocks})
	}
	return row
}

// within is the batch's spans in a table, as far as they lie in a block, whose first row is row 0
// of the result.
func (b *batch) within(table int, r block) []attend.Span {
	spans := b.tables[table].spans
	if r.rows() == len(b.tokens) {
		return spans
	}
	b.part = b.part[:0]
	for _, s := range spans {
		lo, hi := max(s.Row, r.lo), min(s.Row+s.Count, r.hi)
		if lo >= hi {
			continue
		}
		b.part = append(b.part, attend.Span{Row: lo - r.lo, Count: hi - lo, Start: s.Start + lo - s.Row, Whole: s.Whole, Blocks: s.Blocks})
	}
	return b.part
}

// addText appends a whole text, of which every row sees all unless the model is
// causal, and returns the first row. types may be nil.
func (b *batch) addText(tokens []int32, types []uint8, causal bool, blockTokens int, tables ...[]kvcache.BlockID) int {
	row := b.add(tokens, 0, blockTokens, tables...)
	if types == nil {
		b.types = append(b.types, make([]uint8, len(tokens))...)
	} else {
		b.types = append(b.types, types...)
	}
	for i := range tables {
		if spans := b.tables[i].spans; !causal {
			spans[len(spans)-1].Whole = len(tokens)
		}
	}
	return row
}

// multiply computes products of norm(x), x being the block's rows, and what adapters add to them.
func (b *batch) multiply(c *kernel.CPU, r block, x []float32, norm weight.Norm, all ...weight.Product) {
	if low := b.low.of(b.adapted, r, all...); len(low) > 0 {
		c.AdaptedProducts(low, x, r.rows(), norm, all...)
		return
	}
	c.Products(x, r.rows(), norm, all...)
}

// keep makes a batch of the rows of output alone.
func (b *batch) keep(m *model) *batch {
	if b.kept == nil {
		b.kept = &batch{}
	}
	k, hidden := b.kept, b.hidden
	k.reads = b.reads
	k.reset()
	k.take(len(b.tables))
	for i, r := range b.output {
		k.tokens, k.pos = append(k.tokens, b.tokens[r]), append(k.pos, b.pos[r])
		k.output = append(k.output, i)
	}
	for i := range b.tables {
		k.tables[i].keep(b.tables[i].spans, b.output)
	}
	k.adapted = k.adapted.keep(b.adapted, b.output)
	k.reserve(m, len(k.tokens))
	k.hidden = hidden
	inputs := m.inputs.width * m.depth
	grow(&k.inputs, len(k.tokens)*inputs)
	for i, r := range b.output {
		copy(k.x[i*m.width:(i+1)*m.width], b.x[r*m.width:])
		copy(k.inputs[i*inputs:(i+1)*inputs], b.inputs[r*inputs:])
		for n := range m.ropes {
			half, from, to := m.ropes[n].half, &b.angles[n], &k.angles[n]
			copy(to.cos[i*half:(i+1)*half], from.cos[r*half:])
			copy(to.sin[i*half:(i+1)*half], from.sin[r*half:])
		}
	}
	return k
}

// keep makes spans of those rows of spans that output names.
func (t *tableRows) keep(spans []attend.Span, output []int) {
	for i, r := range output {
		for r >= spans[0].Row+spans[0].Count {
			spans = spans[1:]
		}
		if n := len(t.spans); i > 0 && r == output[i-1]+1 && r > spans[0].Row {
			t.spans[n-1].Count++
			continue
		}
		s := spans[0]
		s.Start += r - s.Row
		s.Row, s.Count = i, 1
		t.spans = append(t.spans, s)
	}
}

// queries are those of a block in a layer. Blocks may be in different layers, whose queries have other widths, at the same time: each has its
// own part of the memory.
func (b *batch) queries(a *attention, r block) []float32 {
	return b.q[r.lo*b.widest:][:r.rows()*a.heads*a.headDim]
}

// keepLogits moves the hidden states whose logits are wanted to the front.
func (b *batch) keepLogits(width int) {
	if len(b.logits) == len(b.output) {
		return
	}
	for i, at := range b.logits {
		copy(b.hidden[i*width:(i+1)*width], b.hidden[at*width:])
	}
}

// reserve makes room for the batch's rows in a model, of which blockRows pass
// through a layer at a time.
func (b *batch) reserve(m *model, blockRows int) {
	rows, q := len(b.tokens), 0
	for i := range m.layers {
		q = max(q, m.layers[i].attention.queryValues(), m.layers[i].recurrent.plan.behind+m.layers[i].recurrent.Width())
	}
	grow(&b.x, rows*m.width)
	grow(&b.q, rows*q)
	b.widest = q
	b.scratch.reserve(m, blockRows)
	grow(&b.hidden, len(b.output)*m.width)
	if len(b.angles) < len(m.ropes) {
		b.angles = make([]rotation, len(m.ropes))
	}
	for i := range m.ropes {
		grow(&b.angles[i].cos, rows*m.ropes[i].half)
		grow(&b.angles[i].sin, rows*m.ropes[i].half)
	}
}

func (s *scratch) reserve(m *model, rows int) {
	q, kv, ffn := 0, 0, m.inputs.width
	s.mostBlock = rows
	for i := range m.layers {
		if m.layers[i].feed.beside {
			grow(&s.input, rows*m.width)
		}
		a := &m.layers[i].attention
		q, kv, ffn = max(q, a.queryValues()), max(kv, a.kvHeads*a.headDim), max(ffn, m.layers[i].feed.width)
	}
	grow(&s.k, rows*kv)
	grow(&s.v, rows*kv)
	grow(&s.att, rows*q)
	grow(&s.gate, rows*ffn)
	s.recurring.reserve(m, rows)
	if m.branches {
		grow(&s.branch, rows*m.width)
	}
}

// grow makes *s n long, with some room to grow, and keeps nothing of it.
func grow(s *[]float32, n int) {
	if cap(*s) < n {
		*s = make([]float32, n, n+n/4)
	}
	*s = (*s)[:n]
}
