//go:build amd64 && !purego && !noasm

package weight

import (
	"unsafe"

	"weir/engine/gguf"
	"weir/engine/kernel/isa"
)

// productsFor returns the products of a type at a level, nil at the portable
// one.
func productsFor(level isa.Level, t gguf.Type) *productFuncs {
	switch level {
	case isa.AVX512:
		return products512[t]
	case isa.AVX2:
		return products256[t]
	default:
		return nil
	}
}

func quantizeRowFast(level isa.Level, k kind, limit float32, dst, x, marks []float32) (large, done bool) {
	if level == isa.Portable {
		return false, false
	}
	if k == kindPair {
		_ = dst[k.words(len(x))-1]
		roundPairsAVX512(&dst[0], &x[0], len(x)/pairColumns)
		return false, true
	}
	size, run := superBlockValues, quantizeSuperAVX512
	switch {
	case k == kindSuper && level == isa.AVX2:
		run = quantizeSuperAVX2
	case k == kindBlock && level == isa.AVX2:
		size, run = blockValues, quantizeBlockAVX2
	case k == kindBlock:
		size, run = blockValues, quantizeBlockAVX512
	}
	_, words := k.blockSize()
	_, _ = dst[k.words(len(x))-1], marks[len(x)/size*words-1]
	return run(&dst[0], &x[0], len(x)/size, limit, (*uint32)(unsafe.Pointer(&marks[0]))), true
}

func placeRowFast(level isa.Level, panel []float32, m int, row []float32) bool {
	if level == isa.Portable {
		return false
	}
	_ = panel[(len(row)-1)*m]
	placeWords(&panel[0], 4*m, &row[0], len(row))
	return true
}
