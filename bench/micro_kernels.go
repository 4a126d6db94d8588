package bench

import (
	"fmt"
	"math/rand/v2"

	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/vector"
	"weir/engine/kernel/weight"
	"weir/internal/arena"
	"weir/internal/roofline"
	"weir/kvcache"
)

// products are matrix products with weights of one type, by rows.
func (m *micro) products(t gguf.Type) microGroup {
	return microGroup{len(m.o.Rows), func() ([]microCase, func() error, error) {
		matrices, memory, err := m.matrices(t)
		if err != nil {
			return nil, nil, fmt.Errorf("prepare products of %s: %w", t, err)
		}
		most := 0
		for _, n := range m.o.Rows {
			most = max(most, n)
		}
		x, dst := m.floats(most*m.o.Inputs), make([]float32, most*m.o.Outputs)
		bytes, err := weight.MatrixBytes(t, m.o.Outputs, m.o.Inputs)
		if err != nil {
			return nil, nil, err
		}
		var cases []microCase
		turn := 0
		for _, n := range m.o.Rows {
			work := roofline.Work{Bytes: float64(bytes)}
			if ops := 2 * float64(n) * float64(m.o.Outputs) * float64(m.o.Inputs); isFloat(t) {
				work.FloatOps = ops
			} else {
				work.Int8Ops = ops
			}
			shape := fmt.Sprintf("%d x %d, %d rows", m.o.Outputs, m.o.Inputs, n)
			cases = append(cases, microCase{MicroRow{Kernel: "product", Type: t.String(), Shape: shape, Rows: n, Work: work}, func() {
				m.cpu.MatMul(dst, matrices[turn], x[:n*m.o.Inputs], n, nil)
				turn = (turn + 1) % len(matrices)
			}})
		}
		return cases, memory.Release, nil
	}}
}

// matrices are as many of a type as no cache holds.
func (m *micro) matrices(t gguf.Type) ([]*weight.Matrix, *arena.Arena, error) {
	bytes, err := weight.MatrixBytes(t, m.o.Outputs, m.o.Inputs)
	if err != nil {
		return nil, nil, err
	}
	const line = 64
	count := int(m.o.Cold/int64(bytes)) + 2
	memory, err := arena.New(int64(count) * int64(bytes+line))
	if err != nil {
		return nil, nil, err
	}
	matrices := make([]*weight.Matrix, count)
	for i := range matrices {
		mem, err := memory.Alloc(bytes, line)
		if err == nil {
			matrices[i], err = m.matrix(t, mem)
		}
		if err != nil {
			_ = memory.Release()
			return nil, nil, err
		}
	}
	return matrices, memory, nil
}

// matrix packs the same few rows over and over.
func (m *micro) matrix(t gguf.Type, mem []byte) (*weight.Matrix, error) {
	p, err := weight.NewPacker(t, m.o.Outputs, m.o.Inputs, mem)
	if err != nil {
		return nil, err
	}
	rows := sensibleBytes(weight.PackRows*p.RowBytes(), m.random)
	for left := m.o.Outputs; left > 0; left -= weight.PackRows {
		if err := p.Add(rows[:min(left, weight.PackRows)*p.RowBytes()]); err != nil {
			return nil, err
		}
	}
	return p.Matrix()
}

// sensibleBytes read as small, normal numbers at any place and in every format
// of floats, so that scales are ordinary in all types of weights.
func sensibleBytes(n int, r *rand.Rand) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0x20 | byte(r.IntN(16))
	}
	return b
}

// attentionShape is a batch of sequences that stand after a context.
type attentionShape struct{ sequences, rows, context int }

// attentionShapes: decode of few and many, short and long; prompts at their
// beginning and far on.
var attentionShapes = []attentionShape{
	{1, 1, 4096}, {8, 1, 1024}, {8, 1, 4096}, {32, 1, 1024}, {1, 512, 0}, {1, 512, 3584},
}

// Heads of a model of a billion parameters.
const (
	microHeads, microKVHeads, microHeadDim = 32, 8, 64
	microBlock                             = 16
)

func (s attentionShape) String() string {
	if s.rows > 1 {
		return fmt.Sprintf("%d rows after %d", s.rows, s.context)
	}
	return fmt.Sprintf("%d x %d", s.sequences, s.context)
}

// length is the positions that a sequence's last row sees.
func (s attentionShape) length() int {
	if s.rows == 1 {
		return s.context
	}
	return s.context + s.rows
}

// work of one call: positions are read once for all rows of a sequence, and
// each row and head takes a product with the key and one with the value.
func (s attentionShape) work(t attend.KVType, positionBytes int) roofline.Work {
	last := float64(s.length())
	positions := float64(s.rows) * (last - float64(s.rows-1)/2)
	ops := 4 * float64(s.sequences) * positions * microHeads * microHeadDim
	w := roofline.Work{Bytes: float64(s.sequences) * last * float64(positionBytes)}
	if t == attend.KVQ8 {
		w.Int8Ops = ops
	} else {
		w.FloatOps = ops
	}
	return w
}

// attention over a cache of as many layers as no processor's cache holds.
func (m *micro) attention(t attend.KVType, s attentionShape) microGroup {
	return microGroup{1, func() ([]microCase, func() error, error) {
		blocks := (s.length() + microBlock - 1) / microBlock
		shape := attend.KVShape{
			Type: t, Layers: 1, KVHeads: microKVHeads, HeadDim: microHeadDim,
			BlockTokens: microBlock, Blocks: s.sequences*blocks + 1,
		}
		position := shape.TokenBytes()
		layer := int64(s.sequences) * int64(s.length()) * int64(position)
		shape.Layers = int(min(m.o.Cold/layer+1, 64))
		pages, err := attend.NewPages(attend.Tables{shape})
		if err != nil {
			return nil, nil, fmt.Errorf("prepare attention: %w", err)
		}
		kv, spans := pages.Table(0), make([]attend.Span, s.sequences)
		for i := range spans {
			spans[i] = attend.Span{Row: i * s.rows, Count: s.rows, Start: s.length() - s.rows}
			for b := range blocks {
				spans[i].Blocks = append(spans[i].Blocks, kvcache.BlockID(1+i*blocks+b))
			}
			m.store(kv, spans[i].Blocks, s.length())
		}
		q := m.floats(s.sequences * s.rows * microHeads * microHeadDim)
		out := make([]float32, len(q))
		turn := 0
		row := MicroRow{Kernel: "attention", Type: t.String(), Shape: s.String(), Work: s.work(t, position)}
		return []microCase{{row, func() {
			m.cpu.Attention(attend.Query{Out: out, Q: q, KV: kv, Layer: turn, Heads: microHeads, Spans: spans, Scale: 0.125})
			turn = (turn + 1) % kv.Layers
		}}}, pages.Close, nil
	}}
}

// store fills a sequence's positions in every layer.
func (m *micro) store(kv *attend.KV, blocks []kvcache.BlockID, length int) {
	const chunk = 256
	x := m.floats(chunk * kv.KVHeads * kv.HeadDim)
	for from := 0; from < length; from += chunk {
		places := make([]attend.Place, min(chunk, length-from))
		for i := range places {
			at := from + i
			places[i] = attend.Place{Block: blocks[at/microBlock], Token: at % microBlock, Position: at}
		}
		for l := range kv.Layers {
			m.cpu.StoreKV(kv, l, x, x, places)
		}
	}
}

// Widths of the operations on rows, of the same model.
const (
	microWidth = 2048
	microFFN   = 8192
)

// operations on rows, whose activations are in the caches, and a round of the
// pool without work.
func (m *micro) operations() microGroup {
	rows := []int{1, 64, 512}
	return microGroup{3*len(rows) + 1, func() ([]microCase, func() error, error) {
		most := rows[len(rows)-1]
		x, up, factors := m.floats(most*microFFN), m.floats(most*microFFN), m.floats(microWidth)
		cos, sin := m.floats(most*microHeadDim/2), m.floats(most*microHeadDim/2)
		dst := make([]float32, most*microWidth)
		var cases []microCase
		add := func(name string, n, width, passes int, call func()) {
			bytes := float64(passes * 4 * n * width)
			shape := fmt.Sprintf("%d x %d", n, width)
			cases = append(cases, microCase{MicroRow{Kernel: name, Shape: shape, Work: roofline.Work{Bytes: bytes}, InCache: true}, call})
		}
		for _, n := range rows {
			add("norm", n, microWidth, 2, func() { m.cpu.Norm(dst, x, weight.Norm{Weight: factors, Eps: 1e-5}, n) })
			add("rope", n, microHeads*microHeadDim, 2, func() {
				m.cpu.Rope(dst, n, vector.Rotation{
					Style: vector.RopeNeox, Heads: microHeads, HeadDim: microHeadDim, Half: microHeadDim / 2, Cos: cos, Sin: sin,
				})
			})
			add("swiglu", n, microFFN, 3, func() { m.cpu.Gate(vector.SiLU, x, up, n, microFFN) })
		}
		cases = append(cases, microCase{MicroRow{Kernel: "round", Shape: "empty", InCache: true}, func() {
			m.cpu.Run(emptyJob{}, 2*m.cpu.Threads(), 1)
		}})
		return cases, func() error { return nil }, nil
	}}
}

// emptyJob is a job without work.
type emptyJob struct{}

// Do returns at once.
func (emptyJob) Do(int, int) {}
