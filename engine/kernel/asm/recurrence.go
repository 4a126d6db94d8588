package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Shapes that package recurrence fixes.
const (
	tileValues = 16             // values of a head whose states lie beside each other
	tileBytes  = 4 * tileValues // of a key's element
	sumsBeside = 4              // sums over keys that run side by side, which hides the latency of each
)

// recurrences writes what package recurrence does with each row; recurrence/kernels.go has the same in plain Go. Both widths add in the
// same order, so that their bits are the same.
func recurrences(ctx *build.Context) {
	data := make(map[string]bool)
	for _, wide := range []bool{true, false} {
		r := &recurrence{lanes: &lanes{Context: ctx, wide: wide, family: "recurrence", data: data}}
		r.convolve()
		r.update("deltaRule", true, "%s takes rows of a tile through the delta rule; see deltaRulePortable.")
		r.update("scan", false, "%s takes rows of a tile through the scan; see scanPortable.")
		r.once("deltaOnce", true, "%s takes a row through the delta rule, in all tiles of a head, from one state to another; both are aligned.")
		r.once("scanOnce", false, "%s takes a row through the scan, in all tiles of a head, from one state to another; both are aligned.")
	}
}

type recurrence struct{ *lanes }

func (r *recurrence) param(name string) reg.GPVirtual {
	g := r.GP64()
	r.Load(r.Param(name), g)
	return g
}

// convolve adds up one row's taps.
func (r *recurrence) convolve() {
	r.function("convolve", "(dst []float32, bias *float32, rows **float32, w *float32, stride, taps int)",
		"%s computes dst[i] = bias[i] + the sum of rows[t][i]*w[t*stride+i] over the taps, in their order.")
	dst, n, bias, rows, weights := r.base("dst"), r.len("dst"), r.param("bias"), r.param("rows"), r.param("w")
	stride, taps := r.param("stride"), r.param("taps")
	r.SHLQ(operand.U8(2), stride)
	left, row, from, w := r.GP64(), r.GP64(), r.GP64(), r.GP64()
	r.walk(n, 1, false, func(p place) {
		acc := r.load(bias, p)
		r.MOVQ(taps, left)
		r.MOVQ(rows, row)
		r.MOVQ(weights, w)
		r.loops++
		again := r.label("tap")
		r.Label(again)
		r.MOVQ(at(row, 0), from)
		r.VFMADD231PS(r.load(w, p), r.load(from, p), acc)
		r.ADDQ(operand.U8(8), row)
		r.ADDQ(stride, w)
		r.DECQ(left)
		r.JNZ(operand.LabelRef(again))
		r.store(acc, dst, p)
	})
	r.end()
}

// halves is how many registers have a tile's values.
func (r *recurrence) halves() int { return tileValues / r.floats() }

// each calls do for the registers of a tile.
func (r *recurrence) each(do func(half int)) {
	for h := range r.halves() {
		do(h)
	}
}

// half is a part of the tile's values at m.
func (r *recurrence) half(base reg.Register, element, half int) operand.Mem {
	return at(base, element*tileBytes+half*4*r.floats())
}

// update is one pass over the tile for what its rows add, and in the delta rule one before it for what they would find there.
func (r *recurrence) update(name string, delta bool, doc string) {
	r.function(name, "(state, k, q, v, out, decay, gain *float32, rows, dim, stride, beside, across int, skip float32)", doc)
	t := r.tile(delta)
	state, left := r.param("state"), r.param("rows")
	r.Label("row")
	r.row(t, state, state, false, nil)
	r.step(t.keys, "stride")
	r.step(t.queries, "stride")
	r.step(t.v, "beside")
	r.step(t.out, "across")
	r.ADDQ(operand.U8(4), t.decay)
	r.ADDQ(operand.U8(4), t.gain)
	r.DECQ(left)
	r.JNZ(operand.LabelRef("row"))
	r.end()
}

// once takes a row through all tiles of a head, from one state to another that nothing reads soon: what is written passes the caches by. While a tile is
// computed, the next one is brought.
func (r *recurrence) once(name string, delta bool, doc string) {
	r.function(name, "(from, to, k, q, v, out, decay, gain *float32, dim, tiles int, skip float32)", doc)
	t := r.tile(delta)
	from, to, left := r.param("from"), r.param("to"), r.param("tiles")
	size := func() reg.GPVirtual { // bytes of a tile; registers are too few to keep it
		n := r.param("dim")
		r.SHLQ(operand.U8(6), n)
		return n
	}
	r.Label("tile")
	next := size()
	r.ADDQ(from, next)
	r.row(t, from, to, true, next)
	n := size()
	r.ADDQ(n, from)
	r.ADDQ(n, to)
	r.ADDQ(operand.U8(tileBytes), t.v)
	r.ADDQ(operand.U8(tileBytes), t.out)
	r.DECQ(left)
	r.JNZ(operand.LabelRef("tile"))
	r.SFENCE()
	r.end()
}

// tile is what a row brings to a tile.
type tile struct {
	delta                              bool
	keys, queries, v, out, decay, gain reg.GPVirtual
	skip                               reg.VecVirtual // of the scan
}

func (r *recurrence) tile(delta bool) *tile {
	t := &tile{delta: delta, keys: r.param("k"), queries: r.param("q"), v: r.param("v"), out: r.param("out"), decay: r.param("decay"), gain: r.param("gain")}
	if !delta {
		t.skip = r.broadcast("skip")
	}
	return t
}

// step moves a place on by so many floats.
func (r *recurrence) step(place reg.GPVirtual, param string) {
	r.LEAQ(operand.Mem{Base: place, Index: r.param(param), Scale: 4}, place)
}

// row takes one row through a tile.
func (r *recurrence) row(t *tile, from, to reg.GPVirtual, past bool, next reg.GPVirtual) {
	u, decay := make([]reg.VecVirtual, r.halves()), r.fill(at(t.decay, 0))
	r.each(func(h int) { u[h] = r.vec() })
	gain := r.vec()
	if t.delta {
		found := r.found(from, t.keys, next)
		r.VBROADCASTSS(at(t.gain, 0), gain)
		r.each(func(h int) {
			r.VMULPS(decay, found[h], found[h])
			r.VMOVUPS(r.half(t.v, 0, h), u[h])
			r.VSUBPS(found[h], u[h], u[h])
			r.VMULPS(gain, u[h], u[h])
		})
	} else {
		r.VBROADCASTSS(at(t.gain, 0), gain)
		r.each(func(h int) { r.VMULPS(r.half(t.v, 0, h), gain, u[h]) })
	}
	sum := r.add(t, from, to, u, decay, past, next)
	r.each(func(h int) {
		if !t.delta {
			r.VFMADD231PS(r.half(t.v, 0, h), t.skip, sum[h])
		}
		r.VMOVUPS(sum[h], r.half(t.out, 0, h))
	})
}

// overKeys runs body for each sumsBeside elements of a row's key; all are places that move on, a tile's by tileBytes for an element, a vector's by 4.
func (r *recurrence) overKeys(label string, tiles, vectors []reg.GPVirtual, next reg.GPVirtual, lines int, body func(tiles, vectors []reg.GPVirtual)) {
	left := r.param("dim")
	tiles, vectors = r.copies(tiles), r.copies(vectors)
	r.Label(label)
	body(tiles, vectors)
	for _, p := range tiles {
		r.ADDQ(operand.I32(sumsBeside*tileBytes), p)
	}
	for _, p := range vectors {
		r.ADDQ(operand.U8(4*sumsBeside), p)
	}
	if next != nil {
		for i := range lines {
			r.PREFETCHT0(at(next, 64*i))
		}
		r.ADDQ(operand.I32(64*lines), next)
	}
	r.SUBQ(operand.U8(sumsBeside), left)
	r.JNZ(operand.LabelRef(label))
}

func (r *recurrence) copies(places []reg.GPVirtual) []reg.GPVirtual {
	all := make([]reg.GPVirtual, len(places))
	for i, p := range places {
		all[i] = r.GP64()
		r.MOVQ(p, all[i])
	}
	return all
}

// found is what the tile has for a key: the sum of its elements' states, each times the element. Half of the next tile is brought meanwhile.
func (r *recurrence) found(state, keys, next reg.GPVirtual) []reg.VecVirtual {
	acc := r.zeros(sumsBeside * r.halves())
	r.overKeys("find", []reg.GPVirtual{state}, []reg.GPVirtual{keys}, next, sumsBeside/2, func(s, p []reg.GPVirtual) {
		for i := range sumsBeside {
			k := r.fill(at(p[0], 4*i))
			r.each(func(h int) { r.VFMADD231PS(r.half(s[0], i, h), k, acc[i*r.halves()+h]) })
		}
	})
	return r.joined(acc)
}

// add lets the state decay, adds u times the key, and returns what the tile has for the query then.
func (r *recurrence) add(t *tile, from, to reg.GPVirtual, u []reg.VecVirtual, decay reg.VecVirtual, past bool, next reg.GPVirtual) []reg.VecVirtual {
	acc, tiles, lines := r.zeros(sumsBeside*r.halves()), []reg.GPVirtual{from}, sumsBeside
	if past {
		tiles = append(tiles, to)
	}
	if t.delta {
		lines /= 2
	}
	r.overKeys("add", tiles, []reg.GPVirtual{t.keys, t.queries}, next, lines, func(s, p []reg.GPVirtual) {
		for i := range sumsBeside {
			k, q := r.fill(at(p[0], 4*i)), r.fill(at(p[1], 4*i))
			r.each(func(h int) {
				x := r.vec()
				r.VMULPS(r.half(s[0], i, h), decay, x)
				r.VFMADD231PS(u[h], k, x)
				if past {
					r.VMOVNTPS(x, r.half(s[1], i, h))
				} else {
					r.VMOVUPS(x, r.half(s[0], i, h))
				}
				r.VFMADD231PS(x, q, acc[i*r.halves()+h])
			})
		}
	})
	return r.joined(acc)
}

// joined adds up sums that ran side by side.
func (r *recurrence) joined(acc []reg.VecVirtual) []reg.VecVirtual {
	n := r.halves()
	r.each(func(h int) {
		r.VADDPS(acc[n+h], acc[h], acc[h])
		r.VADDPS(acc[3*n+h], acc[2*n+h], acc[2*n+h])
		r.VADDPS(acc[2*n+h], acc[h], acc[h])
	})
	return acc[:n]
}
