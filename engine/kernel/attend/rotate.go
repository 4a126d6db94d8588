package attend

import "weir/engine/kernel/isa"

// Some elements of keys are many times as large as their neighbours, the same ones at nearly every
// token, and a scale that fits them leaves few steps to the others. So keys and queries of
// q8_0 are rotated before they are rounded, by the Walsh-Hadamard transform of a head: an outlier becomes a little
// of each element, and products of keys and queries stay what they are, up to a factor. Values are
// rotated, too, and the mixed ones back. (QuIP and QuaRot do the same to weights; ik_llama.cpp to keys.)

// rotated is how many values are rotated together: the largest power of two that divides a head, so that a head of 96
// is three times 32. It is the factor of a rotation there and back, and of a product of two rotated vectors.
func rotated(headDim int) int { return headDim & -headDim }

// rotate leaves the rotations of as many heads as there are factors in dst, which may be x, each times its factor. Sums are added up in
// one order at every level. A value that is not finite makes all that it meets so.
func rotate(level isa.Level, dst, x []float32, factors ...float32) {
	r := headRows{headDim: len(x) / len(factors), heads: len(factors), dst: len(x), x: len(x)}
	rotateHeads(level, dst[:len(x)], x, r, factors)
}

// headRows are rows of so many heads, which are neighbours, in two slices: so many floats apart in dst, and in x.
type headRows struct {
	headDim, heads int
	dst, x         int
}

func rotateHeadsPortable(dst, x []float32, r headRows, factors []float32) {
	n := rotated(r.headDim)
	for i, factor := range factors {
		to := dst[i/r.heads*r.dst+i%r.heads*r.headDim:][:r.headDim]
		copy(to, x[i/r.heads*r.x+i%r.heads*r.headDim:])
		for k := 0; k < len(to); k += n {
			rotatePortable(to[k:k+n], factor)
		}
	}
}

// rotatePortable rotates a power of two of values.
func rotatePortable(x []float32, factor float32) {
	for h := 1; h < len(x); h *= 2 {
		for i := 0; i < len(x); i += 2 * h {
			a, b := x[i:i+h], x[i+h:i+2*h]
			for j, v := range a {
				a[j], b[j] = v+b[j], v-b[j]
			}
		}
	}
	for i := range x {
		x[i] *= factor
	}
}
