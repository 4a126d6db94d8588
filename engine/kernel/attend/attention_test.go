package attend

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/pool"
	"weir/engine/kernel/vector"
	"weir/internal/reference"
	"weir/kvcache"
)

// sequence is a run of tokens with keys and values, laid out over blocks in
// descending order.
type sequence struct {
	k, v   []float32
	blocks []kvcache.BlockID
}

func randoms(r *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

func near(a, b []float32) float64 {
	diff, norm := 0.0, 0.0
	for i := range a {
		diff += float64(a[i]-b[i]) * float64(a[i]-b[i])
		norm += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(diff / (norm + 1e-30))
}

// device is an Attention with a pool of its own, which Close ends.
type device struct {
	*Attention
	pool *pool.Pool
}

func newDevice(threads int, level isa.Level) *device {
	if level == isa.Auto {
		level = isa.Best()
	}
	p := pool.New(threads)
	return &device{New(p.Join(1), level), p}
}

func (d *device) Close() { d.pool.Close() }

// newSequence takes the blocks below and including last.
func newSequence(r *rand.Rand, kv *KV, length, last int) *sequence {
	width := kv.KVHeads * kv.HeadDim
	s := &sequence{k: randoms(r, length*width), v: randoms(r, length*width)}
	s.place(kv, last)
	return s
}

func (s *sequence) place(kv *KV, last int) {
	length := len(s.k) / (kv.KVHeads * kv.HeadDim)
	s.blocks = make([]kvcache.BlockID, (length+kv.BlockTokens-1)/kv.BlockTokens)
	for i := range s.blocks {
		s.blocks[i] = kvcache.BlockID(last - i)
	}
}

func (s *sequence) store(c *device, kv *KV) {
	width := kv.KVHeads * kv.HeadDim
	places := make([]Place, len(s.k)/width)
	for i := range places {
		places[i] = Place{s.blocks[i/kv.BlockTokens], i % kv.BlockTokens, i}
	}
	c.Store(kv, 0, s.k, s.v, places)
}

// oneTable makes a store of one table.
func oneTable(t testing.TB, s KVShape) *KV {
	t.Helper()
	p, err := NewPages(Tables{s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p.Table(0)
}

// newKV makes a store of one layer full of NaNs, as stale memory may be.
func newKV(t testing.TB, typ KVType, blockTokens, blocks, kvHeads, dim int) *KV {
	t.Helper()
	kv := oneTable(t, KVShape{Type: typ, Layers: 1, KVHeads: kvHeads, HeadDim: dim, BlockTokens: blockTokens, Blocks: blocks})
	for i := range kv.data {
		kv.data[i] = 0xff
	}
	return kv
}

// reference is softmax(q.K*scale) V over the first length positions, in
// doubles.
func (s *sequence) reference(out, q []float32, head, heads, length int, scale float64) {
	dim, sum, top := len(q), 0.0, math.Inf(-1)
	scores, acc := make([]float64, length), make([]float64, dim)
	for p := range length {
		k := s.k[(p*heads+head)*dim:]
		for i := range dim {
			scores[p] += float64(q[i]) * float64(k[i]) * scale
		}
		top = max(top, scores[p])
	}
	for p := range length {
		v := s.v[(p*heads+head)*dim:]
		w := math.Exp(scores[p] - top)
		sum += w
		for i := range dim {
			acc[i] += w * float64(v[i])
		}
	}
	for i := range dim {
		out[i] = float32(acc[i] / sum)
	}
}

// f16Least is the smallest float16 of full precision.
const f16Least = 1.0 / (1 << 14)

var kvTypes = []KVType{KVF32, KVF16, KVQ8, KVQ4}

func TestAttentionEqualsTheDefinition(t *testing.T) {
	limits := map[KVType]float64{KVF32: 2e-6, KVF16: 1e-3, KVQ8: 2e-2, KVQ4: 0.25}
	shapes := []headShape{{32, 2, 3}, {64, 2, 4}, {128, 1, 8}, {96, 1, 1}, {80, 2, 2}, {48, 1, 5}, {8, 2, 7}, {20, 1, 40}, {256, 2, 1}, {512, 1, 4}}
	lengths := []int{1, 15, 16, 17, 31, 33, 511, 512, 513, 1025}
	if testing.Short() {
		lengths = []int{1, 17, 513}
	}
	var devices []*device
	for _, level := range isa.Levels() {
		c := newDevice(3, level)
		defer c.Close()
		devices = append(devices, c)
	}
	for _, typ := range kvTypes {
		for _, s := range shapes {
			if typ.rounds() && s.dim%32 != 0 {
				continue
			}
			r := rand.New(rand.NewPCG(3, uint64(s.dim)))
			for _, length := range lengths {
				few := s.dim > 128 || s.dim != 64 && !reference.Long()
				if few && length > 33 && length != 513 || length > 33 && s.dim != 64 && reference.Quick() {
					continue // as other heads, of which more take longer
				}
				for i, e := range attentionErrors(t, devices, r, typ, s, length) {
					if !(e <= limits[typ]) {
						t.Errorf("%v %v, %+v, %d tokens: relative error %g, limit %g", isa.Levels()[i], typ, s, length, e, limits[typ])
					}
				}
			}
		}
	}
}

// headShape is heads of dim values: kvHeads of keys, each with group of queries.
type headShape struct{ dim, kvHeads, group int }

// attentionErrors are the distances from the reference, by device, of the last rows of two
// sequences, one of length tokens and a shorter one.
func attentionErrors(t *testing.T, devices []*device, r *rand.Rand, typ KVType, shape headShape, length int) (errs []float64) {
	t.Helper()
	dim, kvHeads, group, rows := shape.dim, shape.kvHeads, shape.group, min(length, 9)
	heads, scale := kvHeads*group, float32(1.3/math.Sqrt(float64(dim)))
	n := (length + 15) / 16
	kv := newKV(t, typ, 16, 2*n+1, kvHeads, dim)
	long, short := newSequence(r, kv, length, n), newSequence(r, kv, length-rows/2, 2*n)
	q := randoms(r, (rows+1)*heads*dim)
	want, at := make([]float32, len(q)), length-rows/2-1
	for row := range rows + 1 {
		s, visible := long, length-rows+row+1
		if row == rows {
			s, visible = short, at+1
		}
		for h := range heads {
			o := (row*heads + h) * dim
			s.reference(want[o:o+dim], q[o:o+dim], h/group, kvHeads, visible, float64(scale))
		}
	}
	for _, c := range devices {
		got := make([]float32, len(q))
		long.store(c, kv)
		short.store(c, kv)
		c.Attend(Query{Out: got, Q: q, KV: kv, Heads: heads, Scale: scale, Spans: []Span{
			{Row: 0, Count: rows, Start: length - rows, Blocks: long.blocks},
			{Row: rows, Count: 1, Start: at, Blocks: short.blocks},
		}})
		errs = append(errs, near(got, want))
	}
	return errs
}

// The same answer whatever the batch depends on this: blocks of any size, any split into
// chunks, any neighbours and any number of workers give the same bits.
func TestAttentionIsTheSameHoweverItIsCut(t *testing.T) {
	reference.Slow(t)
	const heads, kvHeads, dim = 6, 2, 32
	length := 1100
	cuts := []struct{ threads, blockTokens, chunk int }{
		{4, 16, 1}, {1, 64, 3}, {4, 48, 16}, {3, 128, 100}, {7, 16, 513}, {2, 256, 1100}, {16, 16, 700},
	}
	if testing.Short() {
		length, cuts = 530, cuts[2:4]
	}
	for _, level := range isa.Levels() {
		for _, typ := range kvTypes {
			length := length
			if (level != isa.Best() || typ != KVQ8) && !reference.Long() {
				length = 530 // more than a segment; whatever the level and the type, the same code cuts
			}
			r := rand.New(rand.NewPCG(4, 4))
			q := randoms(r, length*heads*dim)
			var s *sequence
			run := func(threads, blockTokens, chunk int) []float32 {
				c := newDevice(threads, level)
				defer c.Close()
				n := (length + blockTokens - 1) / blockTokens
				kv := newKV(t, typ, blockTokens, 2*n+1, kvHeads, dim)
				if s == nil {
					s = newSequence(r, kv, length, n)
				}
				s.place(kv, n)
				s.store(c, kv)
				return attendInChunks(c, kv, s, q, heads, chunk)
			}
			want := run(1, 16, length)
			for _, x := range cuts {
				if !slices.Equal(run(x.threads, x.blockTokens, x.chunk), want) {
					t.Errorf("%v %v, %d threads, blocks of %d, chunks of %d: other bits", level, typ, x.threads, x.blockTokens, x.chunk)
				}
			}
		}
	}
}

// attendInChunks runs the sequence chunk by chunk, next to a neighbour of one
// row that sees the first positions of the same blocks.
func attendInChunks(c *device, kv *KV, s *sequence, q []float32, heads, chunk int) []float32 {
	width := heads * kv.HeadDim
	length := len(q) / width
	got := make([]float32, len(q)+width)
	x := append(slices.Clone(q), q[:width]...)
	for lo := 0; lo < length; lo += chunk {
		n := min(chunk, length-lo)
		c.Attend(Query{Out: got, Q: x, KV: kv, Heads: heads, Scale: 0.2, Spans: []Span{
			{Row: length, Count: 1, Start: lo / 2, Blocks: s.blocks},
			{Row: lo, Count: n, Start: lo, Blocks: s.blocks},
		}})
	}
	return got[:len(q)]
}

func TestTilesOfManyRowsLeaveNoLaneIdle(t *testing.T) {
	for group := 1; group <= 2*attendLanes; group++ {
		rows := tileRows(group, attendLanes)
		lanes := rows * group
		if rows < 1 || rows > 1 && (lanes%laneStep != 0 || lanes > 2*attendLanes) {
			t.Errorf("tiles of %d query heads have %d rows", group, rows)
		}
	}
}

// Rows share passes where that leaves work for all workers.
func TestTilesAreAsManyAsWorkersNeed(t *testing.T) {
	kv := newKV(t, KVQ8, 16, 64, 8, 64)
	for _, c := range []struct{ rows, workers, tiles int }{
		{512, 2, 22}, {64, 2, 3}, {64, 64, 11}, {8, 64, 2}, {1, 64, 1},
	} {
		j := attendJob{Query: Query{KV: kv}, group: 4}
		j.plan([]Span{{Count: c.rows, Blocks: make([]kvcache.BlockID, 64)}}, c.workers)
		if len(j.tiles) != c.tiles {
			t.Errorf("%d rows, %d workers: %d tiles, want %d", c.rows, c.workers, len(j.tiles), c.tiles)
		}
	}
}

// One long sequence is shared among workers; the bits of other sequences stay the
// same.
func TestALongContextIsSplitAmongWorkers(t *testing.T) {
	const heads, kvHeads, dim, length = 4, 1, 32, 6000
	for _, level := range isa.Levels() {
		for _, typ := range kvTypes {
			r := rand.New(rand.NewPCG(9, 9))
			kv := newKV(t, typ, 64, length/64+2, kvHeads, dim)
			s := newSequence(r, kv, length, length/64+1)
			q := randoms(r, heads*dim)
			var want []float32
			for _, threads := range []int{1, 2, 8} {
				c := newDevice(threads, level)
				s.store(c, kv)
				got := make([]float32, len(q))
				c.Attend(Query{Out: got, Q: q, KV: kv, Heads: heads, Spans: []Span{{Count: 1, Start: length - 1, Blocks: s.blocks}},
					Scale: 0.3})
				if threads > 2 && c.job.splits != 12 {
					t.Errorf("%d threads: %d segments split, want all 12", threads, c.job.splits)
				}
				c.Close()
				if want == nil {
					want = got
				}
				if !slices.Equal(got, want) {
					t.Errorf("%v %v: other bits with %d threads", level, typ, threads)
				}
			}
		}
	}
}

// A value that is not finite shows in the rows that see it and in no other.
func TestFaultsStayWithTheirRows(t *testing.T) {
	const dim, length = 32, 40
	for _, level := range isa.Levels() {
		c := newDevice(2, level)
		defer c.Close()
		for _, typ := range kvTypes {
			for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
				r := rand.New(rand.NewPCG(5, 5))
				kv := newKV(t, typ, 16, 4, 1, dim)
				s := newSequence(r, kv, length, 3)
				s.v[20*dim+3], s.k[30*dim+5] = bad, float32(math.NaN())
				s.store(c, kv)
				q, got := randoms(r, length*dim), make([]float32, length*dim)
				c.Attend(Query{Out: got, Q: q, KV: kv, Heads: 1, Spans: []Span{{Count: length, Blocks: s.blocks}}, Scale: 0.2})
				for row := range length {
					v := float64(got[row*dim+3])
					if finite := !math.IsNaN(v) && !math.IsInf(v, 0); finite != (row < 20) {
						t.Fatalf("%v %v, %v at position 20: row %d has %v", level, typ, bad, row, v)
					}
				}
			}
		}
	}
}

func TestLevelsAgreeOnAttention(t *testing.T) {
	const heads, kvHeads, dim, length = 8, 2, 64, 700
	for _, typ := range kvTypes {
		r := rand.New(rand.NewPCG(8, 8))
		kv := newKV(t, typ, 16, 45, kvHeads, dim)
		s := newSequence(r, kv, length, 44)
		q := randoms(r, heads*dim*5)
		var want []float32
		var stored []byte
		for _, level := range isa.Levels() {
			c := newDevice(1, level)
			s.store(c, kv)
			got := make([]float32, len(q))
			c.Attend(Query{Out: got, Q: q, KV: kv, Heads: heads, Spans: []Span{{Count: 5, Start: length - 5, Blocks: s.blocks}},
				Scale: 0.3})
			c.Close()
			if want == nil {
				want, stored = got, slices.Clone(kv.data)
			}
			if !slices.Equal(kv.data, stored) {
				t.Errorf("%v %v: stored other bytes than %v", level, typ, isa.Levels()[0])
			}
			limit := 1e-5
			if typ.rounds() {
				limit = 1e-3 // a weight half way between two codes may become either
			}
			if e := near(got, want); e > limit {
				t.Errorf("%v %v: relative distance %g from %v", level, typ, e, isa.Levels()[0])
			}
		}
	}
}

func TestCopyRowsCopiesEveryLayer(t *testing.T) {
	for _, typ := range kvTypes {
		kv := oneTable(t, KVShape{Type: typ, Layers: 3, KVHeads: 2, HeadDim: 32, BlockTokens: 32, Blocks: 4})
		c := newDevice(1, isa.Auto)
		defer c.Close()
		r := rand.New(rand.NewPCG(6, 6))
		q, x := randoms(r, 2*32), randoms(r, 2*32*32)
		places := make([]Place, 32)
		for i := range places {
			places[i] = Place{1, i, i}
		}
		for l := range 3 {
			c.Store(kv, l, x, x, places)
		}
		before := slices.Clone(kv.data)
		kv.CopyRows(1, 2, 21)
		for l := range 3 {
			got, want := make([]float32, len(q)), make([]float32, len(q))
			c.Attend(Query{Out: want, Q: q, KV: kv, Layer: l, Heads: 2,
				Spans: []Span{{Count: 1, Start: 20, Blocks: []kvcache.BlockID{1}}}, Scale: 1})
			c.Attend(Query{Out: got, Q: q, KV: kv, Layer: l, Heads: 2,
				Spans: []Span{{Count: 1, Start: 20, Blocks: []kvcache.BlockID{2}}}, Scale: 1})
			if !slices.Equal(got, want) {
				t.Errorf("%v layer %d: rows not copied", typ, l)
			}
			for _, b := range []kvcache.BlockID{0, 1, 3} {
				o := kv.block(l, b)
				if !slices.Equal(kv.data[o:o+kv.blockSize], before[o:o+kv.blockSize]) {
					t.Errorf("%v layer %d: block %d was touched", typ, l, b)
				}
			}
		}
	}
}

func TestKVShapeRefusesWhatItCannotLayOut(t *testing.T) {
	for _, s := range []KVShape{
		{Type: KVQ8, Layers: 1, KVHeads: 1, HeadDim: 48, BlockTokens: 16, Blocks: 2},
		{Type: KVQ4, Layers: 1, KVHeads: 1, HeadDim: 48, BlockTokens: 16, Blocks: 2},
		{Type: KVAuto, Layers: 1, KVHeads: 1, HeadDim: 64, BlockTokens: 16, Blocks: 2},
		{Type: KVF16, Layers: 1, KVHeads: 1, HeadDim: 48, BlockTokens: 8, Blocks: 2},
		{Type: KVF16, Layers: 1, KVHeads: 1, HeadDim: 48, BlockTokens: 40, Blocks: 2},
		{Type: KVF16, Layers: 1, KVHeads: 1, HeadDim: 48, BlockTokens: 0, Blocks: 2},
		{Type: KVF16, Layers: 1, KVHeads: 0, HeadDim: 48, BlockTokens: 16, Blocks: 2},
		{Type: KVF16, Layers: 1, KVHeads: 1, HeadDim: 0, BlockTokens: 16, Blocks: 2},
		{Type: KVF16, Layers: 1, KVHeads: 1, HeadDim: 48, BlockTokens: 16, Blocks: math.MaxInt / 16},
	} {
		if p, err := NewPages(Tables{s}); !errors.Is(err, ErrKVShape) {
			t.Errorf("%+v: %v, %v", s, p, err)
		}
	}
	if n := (KVShape{Type: KVQ8, Layers: 3, KVHeads: 2, HeadDim: 64, BlockTokens: 16, Blocks: 2}).TokenBytes(); n != 2*3*2*68 {
		t.Errorf("a token takes %d bytes, want 68 per head's key or value", n)
	}
}

func TestQuantizeIsNearestAtEachLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for i := range 2000 {
		x := (*[blockValues]float32)(randoms(r, blockValues))
		size := float32(math.Pow(10, float64(i%14-9)))
		for k := range x {
			x[k] *= size
		}
		if i == 0 {
			*x = [blockValues]float32{}
		}
		var want, got blockCodes
		half := quantizeHalf(isa.Portable, &want, x)
		scale := vector.F16ToF32(half)
		for k, v := range x {
			if scale > f16Least && math.Abs(float64(v-scale*float32(want[k]))) > 0.501*float64(scale) {
				t.Fatalf("%v stored as %d * %v", v, want[k], scale)
			}
		}
		for _, level := range isa.Levels() {
			if h := quantizeHalf(level, &got, x); h != half || got != want {
				t.Fatalf("%v: scale %v codes %v, want %v %v", level, vector.F16ToF32(h), got, scale, want)
			}
		}
	}
}

// The limits of what a segment's integers must hold: every weight and every
// code at its largest.
func TestSegmentSumsFitTheirIntegers(t *testing.T) {
	const dim, length = 32, segmentTokens
	for _, level := range isa.Levels() {
		c := newDevice(1, level)
		defer c.Close()
		for _, sign := range []float32{1, -1} {
			kv := newKV(t, KVQ8, 16, length/16+1, 1, dim)
			s := newSequence(rand.New(rand.NewPCG(1, 1)), kv, length, length/16)
			for i := range s.k {
				s.k[i], s.v[i] = 1, sign
			}
			s.store(c, kv)
			q, got := make([]float32, dim), make([]float32, dim)
			for i := range q {
				q[i] = -sign
			}
			c.Attend(Query{Out: got, Q: q, KV: kv, Heads: 1, Spans: []Span{{Count: 1, Start: length - 1, Blocks: s.blocks}}, Scale: 0.01})
			for _, v := range got {
				if math.Abs(float64(v-sign)) > 1e-3 {
					t.Fatalf("%v: the mean of %d values of %v is %v", level, length, sign, v)
				}
			}
		}
	}
}

func BenchmarkAttention(b *testing.B) {
	for _, typ := range []KVType{KVQ8, KVF16} {
		for _, level := range isa.Levels() {
			for _, s := range []struct{ seqs, rows, start int }{{8, 1, 4096}, {1, 1, 4096}, {8, 1, 256}, {1, 512, 0}, {1, 512, 4096}} {
				name := fmt.Sprintf("type=%v/level=%v/seqs=%d/rows=%d/start=%d", typ, level, s.seqs, s.rows, s.start)
				b.Run(name, func(b *testing.B) { benchmarkAttention(b, typ, level, s.seqs, s.rows, s.start) })
			}
		}
	}
}

// benchmarkAttention takes a new layer each time, as a forward pass does.
func benchmarkAttention(b *testing.B, typ KVType, level isa.Level, seqs, rows, start int) {
	const heads, kvHeads, dim, layers = 32, 8, 64, 16
	blocks := (start+rows)/16 + 1
	kv := oneTable(b, KVShape{Type: typ, Layers: layers, KVHeads: kvHeads, HeadDim: dim, BlockTokens: 16, Blocks: seqs*blocks + 1})
	r := rand.New(rand.NewPCG(1, 1))
	for i := range kv.data {
		kv.data[i] = byte(i*7) & 0x3b // finite float16 values
	}
	c := newDevice(2, level)
	defer c.Close()
	spans := make([]Span, seqs)
	for i := range spans {
		spans[i] = Span{Row: i * rows, Count: rows, Start: start}
		for n := range blocks {
			spans[i].Blocks = append(spans[i].Blocks, kvcache.BlockID(1+n*seqs+i))
		}
	}
	q := randoms(r, seqs*rows*heads*dim)
	out := make([]float32, len(q))
	layer := 0
	for b.Loop() {
		c.Attend(Query{Out: out, Q: q, KV: kv, Layer: layer % layers, Heads: heads, Spans: spans, Scale: 0.125})
		layer++
	}
	perOp := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(float64(seqs*(start+rows)*kv.TokenBytes()/layers)/perOp/1e9, "GB/s")
	pairs := float64(seqs*rows) * (float64(start) + float64(rows+1)/2)
	b.ReportMetric(pairs*heads*dim*4/perOp/1e9, "Gop/s")
}

func BenchmarkStoreKV(b *testing.B) {
	const kvHeads, dim, rows = 8, 64, 512
	for _, typ := range kvTypes {
		b.Run(fmt.Sprintf("type=%v", typ), func(b *testing.B) {
			kv := newKV(b, typ, 16, rows/16+1, kvHeads, dim)
			c := newDevice(2, isa.Auto)
			defer c.Close()
			s := newSequence(rand.New(rand.NewPCG(1, 1)), kv, rows, rows/16)
			for b.Loop() {
				s.store(c, kv)
			}
			b.ReportMetric(2*rows*kvHeads*dim*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gvalues/s")
		})
	}
}
