package recurrence

import (
	"fmt"
	"math"
	"unsafe"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/pool"
	"weir/engine/kernel/vector"
)

// Layer is a layer's shape and weights.
type Layer struct {
	Shape
	Weights []float32 // of the convolution, [Taps][Channels]
	Bias    []float32 // of the convolution, [Channels]
	Rate    []float32 // [Heads]: a head's state decays by exp(Rate*softplus(Time+Shift)) with each row; below 0
	Shift   []float32 // [Heads]
	Skip    []float32 // [Heads], of Scan: by how much a value counts beside what its head's state gives
	Eps     float32   // of Delta: added to the sum of squares by which keys and queries are normed
}

// Rows are what rows bring to a layer, and get.
type Rows struct {
	X     []float32 // [rows][Channels], what passes through the convolution; what it gives stands there at the end
	Time  []float32 // [rows][Heads], of which decays are made
	Gain  []float32 // [rows][Heads], of Delta: how much a row changes the state, before a sigmoid
	Out   []float32 // [rows][Width()]; not used with Convolution, whose results are those in X
	Spans []Span    // each of another sequence, in order of rows; rows between them stay as they are
}

// Span is the rows of one sequence in a step.
type Span struct {
	Row, Count int
	From       []float32 // the state before the first row; nil is that of an empty sequence
	To         []float32 // gets the state behind the last row; may be From
}

// Worker computes layers on a member of a pool. One layer at a time uses it; no call allocates after the first of its size.
type Worker struct {
	level  isa.Level
	member *pool.Member
	own    []scratch // of the pool's workers

	convolution convolutionJob
	heads       headJob
	ends        []int // see pool.Member.Sweep
}

// New returns what computes layers at a level.
func New(member *pool.Member, level isa.Level) *Worker {
	return &Worker{level: level, member: member, own: make([]scratch, member.Workers())}
}

// Run takes rows through a layer.
func (w *Worker) Run(l *Layer, rows *Rows) {
	l.check(rows)
	w.convolution = convolutionJob{w: w, l: l, rows: rows, pieces: (l.Channels + pieceChannels - 1) / pieceChannels}
	w.member.Run(&w.convolution, len(rows.Spans)*w.convolution.pieces, 1)
	if l.Kind == Convolution {
		return
	}
	w.heads = headJob{w: w, l: l, rows: rows}
	items := len(rows.Spans) * l.Heads
	if !rows.single() {
		w.member.Run(&w.heads, items, 1)
		return
	}
	w.ends = w.ends[:0]
	for i := range len(w.own) {
		w.ends = append(w.ends, (i+1)*items/len(w.own))
	}
	w.member.Sweep(&w.heads, w.ends)
}

// single reports whether each sequence has one row, which takes no longer than memory brings its state.
func (r *Rows) single() bool {
	for i := range r.Spans {
		if r.Spans[i].Count > 1 {
			return false
		}
	}
	return true
}

// check panics where rows do not fit the layer.
func (l *Layer) check(rows *Rows) {
	count, values := 0, l.StateValues()
	for i := range rows.Spans {
		s := &rows.Spans[i]
		if s.Row < count || s.Count < 1 || len(s.To) != values || s.From != nil && len(s.From) != values {
			panic(fmt.Sprintf("recurrence: span %d of %d rows from %d on, with states of %d and %d values; rows before it are %d, and a state has %d values",
				i, s.Count, s.Row, len(s.From), len(s.To), count, values))
		}
		count = s.Row + s.Count
	}
	short := len(rows.X) < count*l.Channels
	if l.Kind != Convolution {
		short = short || len(rows.Time) < count*l.Heads || len(rows.Out) < count*l.Width() || l.Kind == Delta && len(rows.Gain) < count*l.Heads
	}
	if short {
		panic(fmt.Sprintf("recurrence: %d rows without room for them", count))
	}
}

// pieceChannels is how many channels a worker takes through the convolution at a time.
const pieceChannels = 512

// scratch is a worker's memory.
type scratch struct {
	tail          [(mostTaps - 1) * pieceChannels]float32 // rows before those of the step
	taps          [mostTaps][]float32
	keys, queries []float32 // [mostRows][KeyDim]
	values, out   [mostRows * tileValues]float32
	decay, gain   [mostRows]float32
}

// mostRows is how many rows pass a tile while it stays in the first cache, with their keys and queries.
const mostRows = 32

// convolutionJob takes a piece of the channels of a span's rows through the convolution.
type convolutionJob struct {
	w      *Worker
	l      *Layer
	rows   *Rows
	pieces int
}

// Do goes from the last row to the first, so that rows are read before they are written.
func (j *convolutionJob) Do(worker, item int) {
	l, span := j.l, &j.rows.Spans[item/j.pieces]
	lo := item % j.pieces * pieceChannels
	n, before, stride := min(pieceChannels, l.Channels-lo), l.Taps-1, l.Channels
	own := &j.w.own[worker]
	tail := own.tail[:before*n]
	if span.From == nil {
		clear(tail)
	} else {
		for i := range before {
			copy(tail[i*n:(i+1)*n], span.From[i*stride+lo:])
		}
	}
	x := j.rows.X[span.Row*stride : (span.Row+span.Count)*stride]
	row := func(i int) []float32 { // of the step's rows; before the first one of the state
		if i < 0 {
			return tail[(before+i)*n:][:n]
		}
		return x[i*stride+lo:][:n]
	}
	for i := range before { // no row of the tail is needed once a later one has its place: i <= Count+i
		copy(span.To[i*stride+lo:][:n], row(span.Count-before+i))
	}
	taps := own.taps[:l.Taps]
	for i := span.Count - 1; i >= 0; i-- {
		for t := range taps {
			taps[t] = row(i - before + t)
		}
		convolve(j.w.level, row(i), l.Bias[lo:lo+n], taps, l.Weights[lo:], stride)
		if l.Kind != Convolution {
			silu(j.w.level, row(i))
		}
	}
}

// headJob takes the rows of a span through a head.
type headJob struct {
	w    *Worker
	l    *Layer
	rows *Rows
}

// Do computes the head's tiles for some rows at a time.
func (j *headJob) Do(worker, item int) {
	l, span, head := j.l, &j.rows.Spans[item/j.l.Heads], item%j.l.Heads
	size, own := l.headState(), &j.w.own[worker]
	at := l.tail() + head*size
	state := span.To[at : at+size]
	own.reserve(l)
	switch {
	case span.From == nil:
		clear(state)
	case &span.From[0] == &span.To[0]:
	case span.Count == 1 && l.ValueDim%tileValues == 0 && aligned(state) && aligned(span.From[at:]):
		j.once(own, state, span.From[at:at+size], head, span.Row)
		return
	default:
		copy(state, span.From[at:at+size])
	}
	for first := 0; first < span.Count; first += mostRows {
		j.some(own, state, head, span.Row+first, min(mostRows, span.Count-first))
	}
}

// aligned reports whether x begins where a cache line does.
func aligned(x []float32) bool { return uintptr(unsafe.Pointer(&x[0]))%64 == 0 }

func (s *scratch) reserve(l *Layer) {
	if n := mostRows * l.KeyDim; l.Kind == Delta && len(s.keys) < n {
		s.keys, s.queries = make([]float32, n), make([]float32, n)
	}
}

// once takes a row through a head, from one state to another.
func (j *headJob) once(own *scratch, state, from []float32, head, row int) {
	o := once{run: j.begin(own, head, row, 1), from: from}
	o.state, o.v, o.out = state, o.v[:j.l.ValueDim], o.out[:j.l.ValueDim]
	if j.l.Kind == Delta {
		deltaOnce(j.w.level, &o)
	} else {
		scanOnce(j.w.level, &o)
	}
}

// some takes n rows through a head's tiles.
func (j *headJob) some(own *scratch, state []float32, head, first, n int) {
	l, r := j.l, j.begin(own, head, first, n)
	v, out, size := r.v, r.out, l.KeyDim*tileValues
	for t := range l.tiles() {
		lo := t * tileValues
		r.state = state[t*size:][:size]
		if width := l.ValueDim - lo; width < tileValues {
			j.narrow(own, r, v[lo:], out[lo:], width)
			continue
		}
		r.v, r.out = v[lo:], out[lo:]
		j.update(&r)
	}
}

// update takes rows through a tile.
func (j *headJob) update(r *run) {
	if j.l.Kind == Delta {
		deltaRule(j.w.level, r)
	} else {
		scan(j.w.level, r)
	}
}

// narrow is update for a tile of fewer values.
func (j *headJob) narrow(own *scratch, r run, v, out []float32, width int) {
	beside, across := r.beside, r.across
	r.v, r.beside, r.out, r.across = own.values[:], tileValues, own.out[:], tileValues
	for i := range r.rows() {
		to := own.values[i*tileValues:][:tileValues]
		clear(to[copy(to, v[i*beside:][:width]):])
	}
	j.update(&r)
	for i := range r.rows() {
		copy(out[i*across:][:width], own.out[i*tileValues:])
	}
}

// begin computes what goes with rows: decays, gains, and with the delta rule keys and queries of length one, queries divided by the
// root of their size.
func (j *headJob) begin(own *scratch, head, first, n int) run {
	l, x, rate, shift := j.l, j.rows.X[first*j.l.Channels:], float64(j.l.Rate[head]), float64(j.l.Shift[head])
	r := run{
		k: x[l.keys(head):], q: x[l.queries(head):], stride: l.Channels, dim: l.KeyDim, decay: own.decay[:n], gain: own.gain[:n],
		v: x[l.values(head):], beside: l.Channels, out: j.rows.Out[first*l.Width()+head*l.ValueDim:], across: l.Width(),
	}
	if l.Kind == Scan {
		r.skip = l.Skip[head]
	}
	for i := range n {
		at := (first+i)*l.Heads + head
		time := vector.Softplus(float64(j.rows.Time[at]) + shift)
		own.decay[i] = float32(math.Exp(time * rate))
		if l.Kind == Scan {
			own.gain[i] = float32(time)
			continue
		}
		own.gain[i] = float32(1 / (1 + math.Exp(-float64(j.rows.Gain[at]))))
		j.norm(own.keys[i*l.KeyDim:][:l.KeyDim], r.k[i*r.stride:], 1)
		j.norm(own.queries[i*l.KeyDim:][:l.KeyDim], r.q[i*r.stride:], 1/math.Sqrt(float64(l.KeyDim)))
	}
	if l.Kind == Delta {
		r.k, r.q, r.stride = own.keys, own.queries, l.KeyDim
	}
	return r
}

// norm: dst = x f / sqrt(the sum of x^2 + eps).
func (j *headJob) norm(dst, x []float32, f float64) {
	x = x[:len(dst)]
	clear(dst)
	vector.AddScaled(j.w.level, dst, x, float32(f/math.Sqrt(float64(vector.SumSquares(j.w.level, x))+float64(j.l.Eps))))
}
