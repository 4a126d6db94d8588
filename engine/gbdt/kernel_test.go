package gbdt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/engine/kernel/isa"
	"weir/internal/reference"
)

// shape is what a random ensemble looks like.
type shape struct {
	trees, depth, leaves int // depth and leaves at most
	features, outputs    int
	thresholds           int // distinct ones per feature; 0: as many as nodes
	rows64, sums64, less bool
	missing, zero, flags bool
	base, baseLast       bool
	oblivious            bool // trees of the given depth or less
	vectors              bool // leaves have a value for each output
}

func (s shape) String() string {
	return fmt.Sprintf("%d trees, depth %d, %d leaves, %d features, %d outputs, %d thresholds, rows64=%v sums64=%v less=%v "+
		"missing=%v zero=%v flags=%v", s.trees, s.depth, s.leaves, s.features, s.outputs, s.thresholds, s.rows64, s.sums64,
		s.less, s.missing, s.zero, s.flags)
}

// random makes an ensemble of the shape: leaves split at random while there is room.
func (s shape) random(r *rand.Rand) *Ensemble {
	e := &Ensemble{Features: s.features, Outputs: s.outputs, Rows64: s.rows64, Sums64: s.sums64, Less: s.less, Width: 1}
	if s.vectors {
		e.Width = s.outputs
	}
	pool := make([]float64, max(s.thresholds, 1))
	for i := range pool {
		pool[i] = s.round(s.number(r))
	}
	if s.flags {
		for range 3 {
			e.Sets = append(e.Sets, []uint32{r.Uint32(), r.Uint32()})
		}
	}
	for range s.trees {
		nodes := []Node{{Left: -1, Right: -1}}
		depth := []int{0}
		for leaves := 1 + r.IntN(s.leaves); leaves > 1 && !s.oblivious; leaves-- {
			at := r.IntN(len(nodes))
			for tries := 0; nodes[at].Left >= 0 || depth[at] >= s.depth; tries++ {
				if at = r.IntN(len(nodes)); tries > 100 {
					break
				}
			}
			if nodes[at].Left >= 0 || depth[at] >= s.depth {
				break
			}
			n := s.node(r, pool)
			n.Left, n.Right = int32(len(nodes)), int32(len(nodes)+1)
			if r.IntN(2) == 0 {
				n.Left, n.Right = n.Right, n.Left
			}
			nodes[at] = n
			nodes = append(nodes, Node{Left: -1, Right: -1}, Node{Left: -1, Right: -1})
			depth = append(depth, depth[at]+1, depth[at]+1)
		}
		if s.oblivious {
			nodes = s.levels(r, pool)
		}
		for i := range nodes {
			if nodes[i].Left >= 0 {
				continue
			}
			nodes[i].Value = s.value(r)
			for range e.Width {
				nodes[i].Values = append(nodes[i].Values, s.value(r))
			}
		}
		output := r.IntN(s.outputs)
		if s.vectors {
			output = 0
		}
		if err := e.Add(nodes, output); err != nil {
			panic(err)
		}
	}
	if s.base {
		for range s.outputs {
			e.Base = append(e.Base, float64(float32(r.NormFloat64())))
		}
		e.BaseLast = s.baseLast
	}
	return e
}

func (s shape) value(r *rand.Rand) float64 {
	if s.sums64 {
		return r.NormFloat64()
	}
	return float64(float32(r.NormFloat64()))
}

// node is a random test.
func (s shape) node(r *rand.Rand, pool []float64) Node {
	n := Node{Feature: int32(r.IntN(s.features)), Threshold: pool[r.IntN(len(pool))]}
	if s.thresholds == 0 {
		n.Threshold = s.round(s.number(r))
	}
	if s.missing && r.IntN(2) == 0 {
		n.Rule |= MissingLeft
	}
	if s.zero && r.IntN(2) == 0 {
		n.Rule |= ZeroMissing
	}
	if s.flags {
		switch r.IntN(4) {
		case 0:
			n.Rule |= Equal
		case 1:
			n.Rule |= Member
			n.Set = []uint32{r.Uint32(), r.Uint32()}
		}
	}
	return n
}

// levels is a perfect tree with one test for each level.
func (s shape) levels(r *rand.Rand, pool []float64) []Node {
	depth := r.IntN(s.depth + 1)
	nodes := make([]Node, 2<<depth-1)
	var test Node
	for i := range nodes {
		if i&(i+1) == 0 {
			test = s.node(r, pool)
		}
		if nodes[i] = test; 2*i+2 < len(nodes) {
			nodes[i].Left, nodes[i].Right = int32(2*i+1), int32(2*i+2)
		} else {
			nodes[i] = Node{Left: -1, Right: -1}
		}
	}
	return nodes
}

func (s shape) round(x float64) float64 {
	if s.rows64 {
		return x
	}
	return float64(float32(x))
}

// number is any kind of number that a threshold can be.
func (s shape) number(r *rand.Rand) float64 {
	switch r.IntN(24) {
	case 0:
		return math.Copysign(0, -1)
	case 1:
		return 0
	case 2:
		return math.Inf(1)
	case 3:
		return math.Inf(-1)
	case 4:
		return float64(math.SmallestNonzeroFloat32)
	case 5:
		return -math.MaxFloat32
	case 6:
		return float64(r.IntN(64))
	case 7:
		return float64(float32(1e-36) * float32(r.IntN(30)-15))
	}
	return r.NormFloat64()
}

// edgeRows makes rows of what is hard: thresholds and their neighbours, zeros, infinities, NaN, denormals.
func edgeRows[X float](r *rand.Rand, e *Ensemble, n int) []X {
	rows := make([]X, n*e.Features)
	s := shape{rows64: e.Rows64}
	for i := range rows {
		x := X(s.round(s.number(r)))
		if len(e.Threshold) > 0 && r.IntN(3) > 0 {
			x = X(e.Threshold[r.IntN(len(e.Threshold))])
		}
		switch r.IntN(8) {
		case 0:
			x = neighbour(x, 1)
		case 1:
			x = neighbour(x, -1)
		case 2:
			if i/e.Features%2 == 0 {
				x = X(math.NaN())
			}
		}
		rows[i] = x
	}
	return rows
}

func neighbour[X float](x X, side int) X {
	if single[X]() {
		return X(math.Nextafter32(float32(x), float32(math.Inf(side))))
	}
	return X(math.Nextafter(float64(x), math.Inf(side)))
}

var shapes = []shape{
	{trees: 1, depth: 1, leaves: 2, features: 1, outputs: 1, less: true},
	{trees: 3, depth: 0, leaves: 1, features: 2, outputs: 1, less: true},
	{trees: 33, depth: 6, leaves: 64, features: 28, outputs: 1, less: true, base: true},
	{trees: 40, depth: 6, leaves: 64, features: 28, outputs: 1, less: true, missing: true, thresholds: 40},
	{trees: 41, depth: 5, leaves: 32, features: 70, outputs: 3, missing: true, sums64: true, base: true, baseLast: true},
	{trees: 17, depth: 4, leaves: 16, features: 9, outputs: 1, rows64: true, sums64: true, zero: true, missing: true},
	{trees: 17, depth: 3, leaves: 8, features: 9, outputs: 2, rows64: true, sums64: true, less: true},
	{trees: 21, depth: 12, leaves: 31, features: 30, outputs: 1, rows64: true, sums64: true, missing: true},
	{trees: 20, depth: 30, leaves: 32, features: 200, outputs: 1, rows64: true, sums64: true},
	{trees: 20, depth: 30, leaves: 64, features: 20, outputs: 2, less: true, missing: true},
	{trees: 20, depth: 7, leaves: 128, features: 40, outputs: 1, less: true, base: true},
	{trees: 20, depth: 8, leaves: 256, features: 150, outputs: 1, less: true, missing: true},
	{trees: 20, depth: 8, leaves: 256, features: 5, outputs: 1, rows64: true, sums64: true},
	{trees: 20, depth: 6, leaves: 64, features: 12, outputs: 1, less: true, flags: true, missing: true, zero: true},
	{trees: 200, depth: 6, leaves: 64, features: 2, outputs: 1, less: true, missing: true},
	{trees: 12, depth: 40, leaves: 700, features: 12, outputs: 2, missing: true, rows64: true, sums64: true},
	{trees: 35, depth: 6, leaves: 1, features: 20, outputs: 1, oblivious: true, sums64: true, less: true, missing: true, thresholds: 9},
	{trees: 35, depth: 6, leaves: 1, features: 50, outputs: 3, oblivious: true, missing: true},
	{trees: 20, depth: 4, leaves: 1, features: 9, outputs: 1, oblivious: true, sums64: true, rows64: true},
	{trees: 35, depth: 8, leaves: 1, features: 90, outputs: 1, oblivious: true, sums64: true, missing: true},
	{trees: 90, depth: 60, leaves: 100, features: 20, outputs: 1, less: true, missing: true, base: true},
	{trees: 21, depth: 9, leaves: 60, features: 20, outputs: 3, less: true, missing: true, vectors: true, base: true},
	{trees: 9, depth: 20, leaves: 500, features: 20, outputs: 2, sums64: true, vectors: true},
	{trees: 9, depth: 5, leaves: 32, features: 20, outputs: 4, sums64: true, vectors: true, oblivious: true},
	{trees: 30, depth: 200, leaves: 256, features: 30, outputs: 2, missing: true, sums64: true},
	{trees: 30, depth: 200, leaves: 250, features: 300, outputs: 1, less: true},
	{trees: 30, depth: 6, leaves: 64, features: 400, outputs: 1, missing: true},
}

// TestKernelsGiveTheWalkersBits: every kernel of every level, alone and in blocks, on rows of every kind.
func TestKernelsGiveTheWalkersBits(t *testing.T) {
	reference.Slow(t)
	ran := map[string]bool{}
	seeds := reference.Repeats(1, 2, 5)
	for i := range seeds * len(shapes) {
		s := shapes[i%len(shapes)]
		t.Run(s.String(), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			e := s.random(r)
			if err := e.check(); err != nil {
				t.Fatal(err)
			}
			for _, level := range isa.Levels() {
				switch {
				case e.Rows64:
					checkKernels[float64, float64](t, r, e, level, ran)
				case e.Sums64:
					checkKernels[float32, float64](t, r, e, level, ran)
				default:
					checkKernels[float32, float32](t, r, e, level, ran)
				}
			}
		})
	}
	for _, level := range isa.Levels() {
		names := []string{"padded", "steps"}
		if level > isa.Portable {
			names = append(names, "slice", "slice oblivious", sliceLeavesName)
			for _, l := range maskLayouts {
				names = append(names, l.name)
			}
		}
		for _, name := range names {
			if !ran[level.String()+" "+name] {
				t.Errorf("%v: no shape ran %s", level, name)
			}
		}
	}
}

func checkKernels[X, S float](t *testing.T, r *rand.Rand, e *Ensemble, level isa.Level, ran map[string]bool) {
	t.Helper()
	w := newWalker[X, S](e)
	b := newBuilder[X](w, level)
	if b == nil {
		if len(e.Feature) > 0 {
			t.Errorf("%v: no kernels", level)
		}
		return
	}
	const n = 200
	rows := edgeRows[X](r, e, n)
	want := make([]S, n*e.Outputs)
	w.margins(rows, want)
	check := func(k kernel[X, S], calls ...int) {
		t.Helper()
		got := make([]S, len(want))
		done := 0
		for _, c := range append(calls, n) {
			c = min(c, n-done)
			k.margins(rows[done*e.Features:(done+c)*e.Features], got[done*e.Outputs:(done+c)*e.Outputs])
			done += c
		}
		for i := range want {
			if bitsOf(got[i]) != bitsOf(want[i]) {
				t.Fatalf("%v, %s: row %d, output %d: %v, not %v", level, k.name(), i/e.Outputs, i%e.Outputs, got[i], want[i])
			}
		}
	}
	chosen, err := choose[X, S](e, Options{Level: level})
	if err != nil {
		t.Fatal(err)
	}
	check(chosen, 1, 1, 8)
	for _, o := range b.singles() {
		s := o.build()
		ran[level.String()+" "+s.name()] = s.name() == o.name
		check(b.kernel(s, nil, 0), 1, 1, 3)
		for _, o := range b.blocks() {
			ran[level.String()+" "+o.name] = true
			check(b.kernel(s, o.build(), 2), 1, 5, 64, 65)
		}
	}
}

// TestChoice: a model's kernel can be named, and one that it cannot have is an error that lists those it has.
func TestChoice(t *testing.T) {
	e := shapes[2].random(rand.New(rand.NewPCG(1, 1)))
	m, err := NewWith(e, Options{Level: isa.Portable, Kernel: "padded"})
	if err != nil {
		t.Fatal(err)
	}
	if c := m.Choice(); c.Single != "padded" || c.Block != "" || c.Bytes < 33*64*8 {
		t.Errorf("chose %+v", c)
	}
	if _, err := NewWith(e, Options{Kernel: "fastest"}); err == nil || !strings.Contains(err.Error(), "padded") {
		t.Errorf("unknown kernel: %v", err)
	}
	wide := shape{trees: 2, depth: 3, leaves: 8, features: maxMeasured + 1, outputs: 1, less: true}
	if m, err = New(wide.random(rand.New(rand.NewPCG(1, 1)))); err != nil || m.Choice().Single == "walk" {
		t.Errorf("a model with many features: %+v, %v", m.Choice(), err)
	}
}

// TestPredictAllocatesNothing: after the first call, whichever the number of rows.
func TestPredictAllocatesNothing(t *testing.T) {
	e := shapes[2].random(rand.New(rand.NewPCG(1, 1)))
	m, err := New(e)
	if err != nil {
		t.Fatal(err)
	}
	rows, out := make([]float32, 70*e.Features), make([]float32, 70)
	for _, n := range []int{1, 70} {
		if a := testing.AllocsPerRun(100, func() { m.Predict32(rows[:n*e.Features], out[:n]) }); a >= 1 {
			t.Errorf("%d rows: %v allocations", n, a)
		}
	}
}

func bitsOf[S float](x S) uint64 {
	if single[S]() {
		return uint64(math.Float32bits(float32(x)))
	}
	return math.Float64bits(float64(x))
}

func BenchmarkKernels(b *testing.B) {
	s := shape{trees: 500, depth: 6, leaves: 64, features: 28, outputs: 1, less: true, thresholds: 200}
	r := rand.New(rand.NewPCG(1, 7))
	e := s.random(r)
	w := newWalker[float32, float32](e)
	const n = 1024
	rows := edgeRows[float32](r, e, n)
	out := make([]float32, n)
	for _, level := range isa.Levels() {
		build := newBuilder[float32](w, level)
		run := func(k kernel[float32, float32], batch int) {
			b.Run(fmt.Sprintf("%v/%s/batch%d", level, k.name(), batch), func(b *testing.B) {
				for i := 0; i < b.N; i += batch {
					at := i % n
					k.margins(rows[at*e.Features:(at+batch)*e.Features], out[at:at+batch])
				}
			})
		}
		run(w, 1)
		for _, o := range build.singles() {
			s := o.build()
			run(build.kernel(s, nil, 0), 1)
			run(build.kernel(s, nil, 0), 64)
			for _, o := range build.blocks() {
				run(build.kernel(s, o.build(), 1), 64)
			}
		}
	}
}
