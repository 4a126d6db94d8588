//go:build amd64 && !purego && !noasm

package vector

import "weir/engine/kernel/isa"

// multiplyColumns is how many columns one call of multiply computes at most.
func multiplyColumns(level isa.Level) int {
	if level == isa.AVX512 {
		return 64
	}
	return 32
}

func multiply(level isa.Level, dst, x, w []float32, stride int) {
	switch level {
	case isa.AVX512:
		multiplyAVX512(dst, x, w, stride)
	case isa.AVX2:
		multiplyAVX2(dst, x, w, stride)
	default:
		multiplyPortable(dst, x, w, stride)
	}
}
