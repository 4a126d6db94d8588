//go:build amd64 && !purego && !noasm

package vector

import "weir/engine/kernel/isa"

func blockMaxima(level isa.Level, dst, x []float32) {
	switch level {
	case isa.AVX512:
		blockMaximaAVX512(dst, x)
	case isa.AVX2:
		blockMaximaAVX2(dst, x)
	default:
		blockMaximaPortable(dst, x)
	}
}

func blockExpSums(level isa.Level, dst []float64, x []float32, top, t float32) {
	switch level {
	case isa.AVX512:
		blockExpSumsAVX512(dst, x, top, t)
	case isa.AVX2:
		blockExpSumsAVX2(dst, x, top, t)
	default:
		blockExpSumsPortable(dst, x, top, t)
	}
}

func blockWeights(level isa.Level, dst []float64, x []float32, top, t float32) {
	switch level {
	case isa.AVX512:
		blockWeightsAVX512(dst, x, top, t)
	case isa.AVX2:
		blockWeightsAVX2(dst, x, top, t)
	default:
		blockWeightsPortable(dst, x, top, t)
	}
}

func blockSums(level isa.Level, dst []float64, x []float32, least float32) (count int, lowest, below float32) {
	switch level {
	case isa.AVX512:
		return blockSumsAVX512(dst, x, least)
	case isa.AVX2:
		return blockSumsAVX2(dst, x, least)
	default:
		return blockSumsPortable(dst, x, least)
	}
}

func find(level isa.Level, dst []int32, x []float32, lo, hi float32) int {
	switch level {
	case isa.AVX512:
		return findAVX512(dst, x, lo, hi)
	case isa.AVX2:
		return findAVX2(dst, x, lo, hi)
	default:
		return findPortable(dst, x, lo, hi)
	}
}
