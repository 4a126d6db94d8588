package recurrence

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/pool"
)

var shapes = []Shape{
	{Kind: Convolution, Taps: 3, Channels: 64},
	{Kind: Convolution, Taps: 1, Channels: 5},
	{Kind: Convolution, Taps: 4, Channels: pieceChannels + 17},
	{Kind: Delta, Taps: 4, Channels: 2*2*16 + 4*16, Heads: 4, Groups: 2, KeyDim: 16, ValueDim: 16},
	{Kind: Delta, Taps: 4, Channels: 2*128 + 3*24, Heads: 3, Groups: 1, KeyDim: 128, ValueDim: 24},
	{Kind: Delta, Taps: 4, Channels: 2*2*16 + 4*16, Heads: 4, Groups: 2, KeyDim: 16, ValueDim: 16, Beside: true},
	{Kind: Delta, Taps: 4, Channels: 2*64 + 2*48, Heads: 2, Groups: 1, KeyDim: 64, ValueDim: 48},
	{Kind: Scan, Taps: 4, Channels: 2*2*16 + 8*16, Heads: 8, Groups: 2, KeyDim: 16, ValueDim: 16},
	{Kind: Scan, Taps: 2, Channels: 2*4 + 2*40, Heads: 2, Groups: 1, KeyDim: 4, ValueDim: 40},
}

func randoms(r *rand.Rand, n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(scale * r.NormFloat64())
	}
	return x
}

func layerOf(s Shape, r *rand.Rand) *Layer {
	l := &Layer{
		Shape: s, Weights: randoms(r, s.Taps*s.Channels, 0.5), Bias: randoms(r, s.Channels, 0.2), Rate: randoms(r, s.Heads, 1), Shift: randoms(r, s.Heads, 1),
		Skip: randoms(r, s.Heads, 1), Eps: 1e-6,
	}
	for i, x := range l.Rate {
		l.Rate[i] = -float32(math.Exp(float64(x)))
	}
	return l
}

// input is what some rows of one sequence bring.
type input struct{ x, time, gain []float32 }

func inputOf(s Shape, rows int, r *rand.Rand) input {
	return input{randoms(r, rows*s.Channels, 1), randoms(r, rows*s.Heads, 1), randoms(r, rows*s.Heads, 1)}
}

// run takes rows lo to hi through a layer and returns what they get.
func (in input) run(w *Worker, l *Layer, lo, hi int, from, to []float32) []float32 {
	rows := Rows{
		X: slices.Clone(in.x[lo*l.Channels : hi*l.Channels]), Time: in.time[lo*l.Heads : hi*l.Heads], Gain: in.gain[lo*l.Heads : hi*l.Heads],
		Out: make([]float32, (hi-lo)*l.Width()), Spans: []Span{{Count: hi - lo, From: from, To: to}},
	}
	w.Run(l, &rows)
	if l.Kind == Convolution {
		return rows.X
	}
	return rows.Out
}

// defined is the definition, row by row in doubles.
func (in input) defined(l *Layer, rows int) []float64 {
	y := make([][]float64, rows)
	for i := range y {
		y[i] = make([]float64, l.Channels)
		for c := range y[i] {
			v := float64(l.Bias[c])
			for t := range l.Taps {
				if at := i - (l.Taps - 1) + t; at >= 0 {
					v += float64(in.x[at*l.Channels+c]) * float64(l.Weights[t*l.Channels+c])
				}
			}
			if l.Kind != Convolution {
				v /= 1 + math.Exp(-v)
			}
			y[i][c] = v
		}
	}
	if l.Kind == Convolution {
		return slices.Concat(y...)
	}
	out := make([]float64, rows*l.Width())
	for h := range l.Heads {
		l.head(h, in, y, out)
	}
	return out
}

// head is the definition of one head, with a state [ValueDim][KeyDim].
func (l *Layer) head(h int, in input, y [][]float64, out []float64) {
	d, e, group := l.KeyDim, l.ValueDim, h/(l.Heads/l.Groups)
	queries, keys, values := l.Heads*e+(l.Groups+group)*d, l.Heads*e+group*d, h*e
	if l.Kind == Delta {
		if !l.Beside {
			group = h % l.Groups
		}
		queries, keys, values = group*d, (l.Groups+group)*d, 2*l.Groups*d+h*e
	}
	state := make([]float64, e*d)
	for i, row := range y {
		q, k, v := slices.Clone(row[queries:queries+d]), slices.Clone(row[keys:keys+d]), row[values:values+e]
		time := math.Log(1 + math.Exp(float64(in.time[i*l.Heads+h])+float64(l.Shift[h])))
		decay, gain := math.Exp(time*float64(l.Rate[h])), time
		if l.Kind == Delta {
			gain = 1 / (1 + math.Exp(-float64(in.gain[i*l.Heads+h])))
			unit(k, float64(l.Eps), 1)
			unit(q, float64(l.Eps), 1/math.Sqrt(float64(d)))
		}
		for a := range e {
			s, found, sum := state[a*d:(a+1)*d], 0.0, 0.0
			for j := range s {
				s[j] *= decay
				found += s[j] * k[j]
			}
			u := gain * v[a]
			if l.Kind == Delta {
				u = gain * (v[a] - found)
			}
			for j := range s {
				s[j] += u * k[j]
				sum += s[j] * q[j]
			}
			if l.Kind == Scan {
				sum += float64(l.Skip[h]) * v[a]
			}
			out[i*l.Width()+h*e+a] = sum
		}
	}
}

func unit(x []float64, eps, f float64) {
	sum := eps
	for _, v := range x {
		sum += v * v
	}
	for i := range x {
		x[i] *= f / math.Sqrt(sum)
	}
}

func distance(got []float32, want []float64) float64 {
	var diff, norm float64
	for i, w := range want {
		diff += (float64(got[i]) - w) * (float64(got[i]) - w)
		norm += w * w
	}
	return math.Sqrt(diff / norm)
}

// eachLayer calls do for every shape at every level, with one worker and with three.
func eachLayer(t *testing.T, do func(t *testing.T, w *Worker, l *Layer, r *rand.Rand)) {
	for _, level := range isa.Levels() {
		for _, threads := range []int{1, 3} {
			p := pool.New(threads)
			defer p.Close()
			w := New(p.Join(1), level)
			for i, s := range shapes {
				t.Run(fmt.Sprintf("%s/%d/%d", level, threads, i), func(t *testing.T) {
					if err := s.Check(); err != nil {
						t.Fatal(err)
					}
					r := rand.New(rand.NewPCG(1, uint64(i)))
					do(t, w, layerOf(s, r), r)
				})
			}
		}
	}
}

func TestRowsAreAsDefined(t *testing.T) {
	eachLayer(t, func(t *testing.T, w *Worker, l *Layer, r *rand.Rand) {
		const rows = 200
		in := inputOf(l.Shape, rows, r)
		got := in.run(w, l, 0, rows, nil, make([]float32, l.StateValues()))
		if d := distance(got, in.defined(l, rows)); !(d < 1e-6) {
			t.Errorf("relative distance from the definition is %.2g", d)
		}
	})
}

// TestCutsChangeNothing: wherever rows are cut, in place or into another state, rows and state are the same to the last bit.
func TestCutsChangeNothing(t *testing.T) {
	eachLayer(t, func(t *testing.T, w *Worker, l *Layer, r *rand.Rand) {
		const rows = 70
		in := inputOf(l.Shape, rows, r)
		state := make([]float32, l.StateValues())
		whole := in.run(w, l, 0, rows, nil, state)
		for range 6 {
			var got, from []float32
			for lo := 0; lo < rows; {
				hi := min(lo+1+r.IntN(40), rows)
				to := from
				if from == nil || r.IntN(2) == 0 {
					to = randoms(r, l.StateValues(), 1)
				}
				got = append(got, in.run(w, l, lo, hi, from, to)...)
				lo, from = hi, to
			}
			same(t, "rows", got, whole)
			same(t, "state", from, state)
		}
	})
}

// TestSequencesDoNotMeet: a step with several sequences gives each what it gets alone, and leaves the state that it began with.
func TestSequencesDoNotMeet(t *testing.T) {
	eachLayer(t, func(t *testing.T, w *Worker, l *Layer, r *rand.Rand) {
		var all Rows
		var alone, states []float32
		before := randoms(r, l.StateValues(), 0.1)
		kept := slices.Clone(before)
		for i, count := range []int{1, 40, 1, 3} {
			in, state := inputOf(l.Shape, count, r), make([]float32, l.StateValues())
			from := before
			if i == 2 {
				from = nil
			}
			alone = append(alone, in.run(w, l, 0, count, from, state)...)
			states = append(states, state...)
			all.Spans = append(all.Spans, Span{Row: len(all.X) / l.Channels, Count: count, From: from, To: make([]float32, l.StateValues())})
			all.X, all.Time, all.Gain = append(all.X, in.x...), append(all.Time, in.time...), append(all.Gain, in.gain...)
		}
		all.Out = make([]float32, 45*l.Width())
		w.Run(l, &all)
		got := all.Out
		if l.Kind == Convolution {
			got = all.X
		}
		same(t, "rows", got, alone)
		for i, s := range all.Spans {
			same(t, "state", s.To, states[i*l.StateValues():][:l.StateValues()])
		}
		same(t, "the state before", before, kept)
	})
}

// TestSingleRowsMoveTheirState: a row that finds its state in one place and leaves it in another gets what it gets in place, wherever both lie.
func TestSingleRowsMoveTheirState(t *testing.T) {
	eachLayer(t, func(t *testing.T, w *Worker, l *Layer, r *rand.Rand) {
		in, n := inputOf(l.Shape, 1, r), l.StateValues()
		before := randoms(r, n, 0.1)
		state := slices.Clone(before)
		want := in.run(w, l, 0, 1, state, state)
		for _, offset := range []int{0, 1, 8} {
			from, to := fromLine(n, offset), fromLine(n, 0)
			copy(from, before)
			same(t, "rows", in.run(w, l, 0, 1, from, to), want)
			same(t, "state", to, state)
			same(t, "the state before", from, before)
		}
	})
}

// fromLine is room for n floats, the first of them so many behind the beginning of a cache line.
func fromLine(n, offset int) []float32 {
	x := make([]float32, n+offset+64/4)
	for !aligned(x) {
		x = x[1:]
	}
	return x[offset:][:n]
}

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s differ at %d: %g, not %g", what, i, got[i], want[i])
		}
	}
}

// TestVectorLevelsGiveTheSameBits holds for the updates of states, whose sums have one order; convolutions and decays do not differ either.
func TestVectorLevelsGiveTheSameBits(t *testing.T) {
	levels := isa.Levels()
	if len(levels) < 3 {
		t.Skip("this machine or build has one vector level at most")
	}
	for _, s := range shapes[3:] {
		r := rand.New(rand.NewPCG(5, 5))
		n := 9
		x := run{
			k: randoms(r, n*s.KeyDim, 1), q: randoms(r, n*s.KeyDim, 1), v: randoms(r, n*tileValues, 1), decay: randoms(r, n, 0.5), gain: randoms(r, n, 1),
			dim: s.KeyDim, stride: s.KeyDim, beside: tileValues, across: tileValues, skip: 0.5,
		}
		state := randoms(r, s.KeyDim*tileValues, 1)
		for _, update := range []func(isa.Level, *run){deltaRule, scan} {
			var first run
			for i, level := range levels[1:] {
				x.state, x.out = slices.Clone(state), make([]float32, n*tileValues)
				update(level, &x)
				if i == 0 {
					first = x
					continue
				}
				same(t, "results", x.out, first.out)
				same(t, "states", x.state, first.state)
			}
		}
	}
}

func TestUnusableShapesAreRefused(t *testing.T) {
	good := shapes[3]
	for _, c := range []struct {
		change func(*Shape)
		says   string
	}{
		{func(s *Shape) { s.Kind = None }, "kind 0"},
		{func(s *Shape) { s.Kind = Scan + 1 }, "kind 4"},
		{func(s *Shape) { s.Taps = 0 }, "over 0 rows"},
		{func(s *Shape) { s.Taps = mostTaps + 1 }, "over 17 rows"},
		{func(s *Shape) { s.Channels = 0 }, "0 channels"},
		{func(s *Shape) { s.Channels++ }, "make 128"},
		{func(s *Shape) { s.Heads = 0 }, "0 heads"},
		{func(s *Shape) { s.Groups = 3 }, "no multiple of 3 groups"},
		{func(s *Shape) { s.KeyDim = 6 }, "multiple of 4"},
		{func(s *Shape) { s.ValueDim = -1 }, "-1 values of a head"},
	} {
		s := good
		c.change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", s, err, c.says)
		}
	}
}

func TestRowsWithoutRoomPanic(t *testing.T) {
	l := layerOf(shapes[3], rand.New(rand.NewPCG(1, 1)))
	w, state := New(pool.Alone(), isa.Best()), make([]float32, l.StateValues())
	whole := func() *Rows {
		return &Rows{
			X: make([]float32, 2*l.Channels), Time: make([]float32, 2*l.Heads), Gain: make([]float32, 2*l.Heads), Out: make([]float32, 2*l.Width()),
			Spans: []Span{{Count: 2, To: state}},
		}
	}
	w.Run(l, whole())
	for i, change := range []func(*Rows){
		func(r *Rows) { r.X = r.X[1:] },
		func(r *Rows) { r.Time = r.Time[1:] },
		func(r *Rows) { r.Gain = r.Gain[1:] },
		func(r *Rows) { r.Out = r.Out[1:] },
		func(r *Rows) { r.Spans[0].To = state[1:] },
		func(r *Rows) { r.Spans[0].From = state[1:] },
		func(r *Rows) { r.Spans[0].Row = 1 }, // the last row is beyond
		func(r *Rows) { r.Spans[0].Row = -1 },
		func(r *Rows) { r.Spans[0].Count = 0 },
	} {
		r := whole()
		change(r)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d: no panic", i)
				}
			}()
			w.Run(l, r)
		}()
	}
}

func BenchmarkRows(b *testing.B) {
	s := Shape{Kind: Delta, Taps: 4, Channels: 2*16*128 + 32*128, Heads: 32, Groups: 16, KeyDim: 128, ValueDim: 128} // Qwen3.5 4B
	for _, kind := range []Kind{Delta, Scan} {
		s.Kind = kind
		for _, rows := range []int{1, 128} {
			for _, level := range isa.Levels() {
				b.Run(fmt.Sprintf("%d/%d/%s", kind, rows, level), func(b *testing.B) {
					r := rand.New(rand.NewPCG(1, 1))
					l, w := layerOf(s, r), New(pool.Alone(), level)
					in, state := inputOf(s, rows, r), make([]float32, s.StateValues())
					x := Rows{X: in.x, Time: in.time, Gain: in.gain, Out: make([]float32, rows*s.Width()), Spans: []Span{{Count: rows, From: state, To: state}}}
					fresh := slices.Clone(in.x)
					for b.Loop() {
						copy(x.X, fresh)
						w.Run(l, &x)
					}
					b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*rows), "µs/row")
				})
			}
		}
	}
}
