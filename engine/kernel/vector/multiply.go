package vector

import (
	"math"

	"weir/engine/kernel/isa"
)

// Multiply computes the product of a row with a row-major matrix, dst[i] = the sum of
// x[j]*w[j*len(dst)+i]. Every sum takes its products in the order of j, each fused
// with it (one rounding), so that all levels give the same bits.
func Multiply(level isa.Level, dst, x, w []float32) {
	n := len(dst)
	if len(w) != len(x)*n {
		panic("vector: a matrix of another size")
	}
	step := multiplyColumns(level)
	for i := 0; i < n; i += step {
		multiply(level, dst[i:min(i+step, n)], x, w[min(i, len(w)):], n)
	}
}

// MultiplyRows computes the product of row-major matrices, dst[m,n] = x[m,k] * w[k,n],
// each row as Multiply does, to the last bit: stretches of columns, which stay in the
// core's cache, meet all rows.
func MultiplyRows(level isa.Level, dst, x, w []float32, m, k, n int) {
	if len(dst) != m*n || len(x) != m*k || len(w) != k*n {
		panic("vector: a matrix of another size")
	}
	step := multiplyColumns(level)
	for i := 0; i < n; i += step {
		end := min(i+step, n)
		for r := range m {
			multiply(level, dst[r*n+i:r*n+end], x[r*k:(r+1)*k], w[min(i, len(w)):], n)
		}
	}
}

func multiplyPortable(dst, x, w []float32, stride int) {
	clear(dst)
	for j, a := range x {
		for i, b := range w[j*stride : j*stride+len(dst)] {
			dst[i] = FusedMultiplyAdd(a, b, dst[i])
		}
	}
}

// FusedMultiplyAdd is a*b+c, rounded once.
func FusedMultiplyAdd(a, b, c float32) float32 {
	p, d := float64(a)*float64(b), float64(c) // the product is exact: two times 24 bits
	s := p + d
	if s != s || math.IsInf(s, 0) {
		return float32(s)
	}
	// The error of the sum, exactly.
	t := s - p
	e := (p - (s - t)) + (d - t)
	// Rounding s again could meet a tie that is none. With its last bit set where it is
	// not exact, it cannot.
	if bits := math.Float64bits(s); e != 0 && bits&1 == 0 {
		if (e > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}
