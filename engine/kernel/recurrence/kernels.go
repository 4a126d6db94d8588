package recurrence

import (
	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
)

// Shapes of the kernels; asm/recurrence.go has the same numbers.
const (
	tileValues = 16 // values of a head whose states lie beside each other
	sumsBeside = 4  // sums over keys that run side by side
	mostTaps   = 16
)

// run is some rows of a tile: a value of each of its lanes, and what goes with the row. decay and gain have an element for each row,
// k and q begin stride elements apart, v and out beside and across.
type run struct {
	state                     []float32 // [dim][tileValues]
	k, q, v, out, decay, gain []float32
	dim                       int
	stride, beside, across    int
	skip                      float32 // of the scan: by how much v counts beside what the tile gives
}

// rows is how many rows there are.
func (r *run) rows() int { return len(r.decay) }

// check panics where a kernel would read or write beyond what it is given.
func (r *run) check() {
	n := r.rows()
	_ = r.gain[n-1]
	_, _ = r.v[(n-1)*r.beside+tileValues-1], r.out[(n-1)*r.across+tileValues-1]
	_, _ = r.k[(n-1)*r.stride+r.dim-1], r.q[(n-1)*r.stride+r.dim-1]
	_ = r.state[r.dim*tileValues-1]
	r.checkSize()
}

func (r *run) checkSize() {
	if r.dim < sumsBeside || r.dim%sumsBeside != 0 {
		panic("recurrence: keys of an odd size")
	}
}

// once is one row of all tiles of a head, which takes their state from one place to another.
type once struct {
	run
	from []float32 // [tiles][dim][tileValues], as state
}

// tiles is how many tiles there are.
func (o *once) tiles() int { return len(o.from) / (o.dim * tileValues) }

// check panics where a kernel would read or write beyond what it is given.
func (o *once) check() {
	n := o.tiles() * tileValues
	_, _, _, _ = o.v[n-1], o.out[n-1], o.k[o.dim-1], o.q[o.dim-1]
	_, _, _ = o.state[n*o.dim-1], o.decay[0], o.gain[0]
	o.checkSize()
}

// deltaPortable takes the row through the tiles one by one.
func (o *once) deltaPortable() {
	copy(o.state, o.from)
	for t := range o.tiles() {
		r := o.tile(t)
		deltaRulePortable(&r)
	}
}

// scanPortable takes the row through the tiles one by one.
func (o *once) scanPortable() {
	copy(o.state, o.from)
	for t := range o.tiles() {
		r := o.tile(t)
		scanPortable(&r)
	}
}

// tile is the row in tile t.
func (o *once) tile(t int) run {
	r, size := o.run, o.dim*tileValues
	r.state, r.v, r.out = o.state[t*size:][:size], o.v[t*tileValues:][:tileValues], o.out[t*tileValues:][:tileValues]
	return r
}

// deltaRulePortable: each row lets the state decay, and adds for its key the part by which its value differs from what the state has for that
// key: S = d S; u = gain (v - S k); S = S + u k; out = S q.
func deltaRulePortable(r *run) {
	var u [tileValues]float32
	for i, d := range r.decay {
		k, q, v := r.k[i*r.stride:][:r.dim], r.q[i*r.stride:][:r.dim], r.v[i*r.beside:][:tileValues]
		found := r.sum(k)
		for l := range u {
			u[l] = r.gain[i] * (v[l] - d*found[l])
		}
		sum := r.add(k, q, &u, d)
		copy(r.out[i*r.across:], sum[:])
	}
}

// scanPortable: each row lets the state decay, and adds its value times its key: S = d S + gain v k; out = S q + skip v.
func scanPortable(r *run) {
	var u [tileValues]float32
	for i, d := range r.decay {
		k, q, v := r.k[i*r.stride:][:r.dim], r.q[i*r.stride:][:r.dim], r.v[i*r.beside:][:tileValues]
		for l := range u {
			u[l] = r.gain[i] * v[l]
		}
		sum := r.add(k, q, &u, d)
		for l, x := range v {
			r.out[i*r.across+l] = sum[l] + r.skip*x
		}
	}
}

// add: S = d S + u k; it returns S q.
func (r *run) add(k, q []float32, u *[tileValues]float32, d float32) [tileValues]float32 {
	for j, a := range k {
		s := (*[tileValues]float32)(r.state[j*tileValues:])
		for l := range s {
			s[l] = d*s[l] + u[l]*a
		}
	}
	return r.sum(q)
}

// sum is what the tile has for a key, in the order of the other levels.
func (r *run) sum(k []float32) [tileValues]float32 {
	var acc [sumsBeside][tileValues]float32
	for j, a := range k {
		s, to := (*[tileValues]float32)(r.state[j*tileValues:]), &acc[j%sumsBeside]
		for l := range s {
			to[l] += s[l] * a
		}
	}
	for l := range acc[0] {
		acc[0][l] = (acc[0][l] + acc[1][l]) + (acc[2][l] + acc[3][l])
	}
	return acc[0]
}

// convolvePortable: dst[i] = bias[i] + the sum of rows[t][i]*w[t*stride+i] over the taps. dst may be one of the rows.
func convolvePortable(dst, bias []float32, rows [][]float32, w []float32, stride int) {
	for i := range dst {
		sum := bias[i]
		for t, row := range rows {
			sum += row[i] * w[t*stride+i]
		}
		dst[i] = sum
	}
}

var ones = func() (x [pieceChannels]float32) {
	for i := range x {
		x[i] = 1
	}
	return x
}()

// silu replaces x by silu(x).
func silu(level isa.Level, x []float32) { vector.SwiGLU(level, x, x, ones[:len(x)]) }
