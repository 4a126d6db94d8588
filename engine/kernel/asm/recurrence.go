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
	r.function(name, "(state, k, q, v, out, decay, gain *float32, rows, dim, stride int)", doc)
	state, v, out := r.param("state"), r.param("v"), r.param("out")
	decays, gains, left := r.param("decay"), r.param("gain"), r.param("rows")
	keys, queries := r.param("k"), r.param("q")
	u, decay := make([]reg.VecVirtual, r.halves()), r.vec()
	r.each(func(h int) { u[h] = r.vec() })
	r.Label("row")
	r.VBROADCASTSS(at(decays, 0), decay)
	if delta {
		found := r.found(state, keys)
		gain := r.fill(at(gains, 0))
		r.each(func(h int) {
			r.VMULPS(decay, found[h], found[h])
			r.VMOVUPS(r.half(v, 0, h), u[h])
			r.VSUBPS(found[h], u[h], u[h])
			r.VMULPS(gain, u[h], u[h])
		})
	} else {
		gain := r.fill(at(gains, 0))
		r.each(func(h int) { r.VMULPS(r.half(v, 0, h), gain, u[h]) })
	}
	sum := r.add(state, keys, queries, u, decay)
	r.each(func(h int) { r.VMOVUPS(sum[h], r.half(out, 0, h)) })
	stride := r.param("stride")
	r.LEAQ(operand.Mem{Base: keys, Index: stride, Scale: 4}, keys)
	r.LEAQ(operand.Mem{Base: queries, Index: stride, Scale: 4}, queries)
	r.ADDQ(operand.U8(tileBytes), v)
	r.ADDQ(operand.U8(tileBytes), out)
	r.ADDQ(operand.U8(4), decays)
	r.ADDQ(operand.U8(4), gains)
	r.DECQ(left)
	r.JNZ(operand.LabelRef("row"))
	r.end()
}

// overKeys runs body for each sumsBeside elements of a row's key; s is the tile's place.
func (r *recurrence) overKeys(label string, state reg.Register, vectors []reg.GPVirtual, body func(s reg.Register, at []reg.GPVirtual)) {
	s, left, places := r.GP64(), r.param("dim"), make([]reg.GPVirtual, len(vectors))
	r.MOVQ(state, s)
	for i, v := range vectors {
		places[i] = r.GP64()
		r.MOVQ(v, places[i])
	}
	r.Label(label)
	body(s, places)
	r.ADDQ(operand.I32(sumsBeside*tileBytes), s)
	for _, p := range places {
		r.ADDQ(operand.U8(4*sumsBeside), p)
	}
	r.SUBQ(operand.U8(sumsBeside), left)
	r.JNZ(operand.LabelRef(label))
}

// found is what the tile has for a key: the sum of its elements' states, each times the element.
func (r *recurrence) found(state, keys reg.GPVirtual) []reg.VecVirtual {
	acc := r.zeros(sumsBeside * r.halves())
	r.overKeys("find", state, []reg.GPVirtual{keys}, func(s reg.Register, p []reg.GPVirtual) {
		for i := range sumsBeside {
			k := r.fill(at(p[0], 4*i))
			r.each(func(h int) { r.VFMADD231PS(r.half(s, i, h), k, acc[i*r.halves()+h]) })
		}
	})
	return r.joined(acc)
}

// add lets the state decay, adds u times the key, and returns what the tile has for the query then.
func (r *recurrence) add(state, keys, queries reg.GPVirtual, u []reg.VecVirtual, decay reg.VecVirtual) []reg.VecVirtual {
	acc := r.zeros(sumsBeside * r.halves())
	r.overKeys("add", state, []reg.GPVirtual{keys, queries}, func(s reg.Register, p []reg.GPVirtual) {
		for i := range sumsBeside {
			k, q := r.fill(at(p[0], 4*i)), r.fill(at(p[1], 4*i))
			r.each(func(h int) {
				x := r.vec()
				r.VMULPS(r.half(s, i, h), decay, x)
				r.VFMADD231PS(u[h], k, x)
				r.VMOVUPS(x, r.half(s, i, h))
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
