//go:build !amd64 || purego || noasm

package vector

import "weir/engine/kernel/isa"

func blockMaxima(_ isa.Level, dst, x []float32) {
	blockMaximaPortable(dst, x)
}

func blockExpSums(_ isa.Level, dst []float64, x []float32, top, t float32) {
	blockExpSumsPortable(dst, x, top, t)
}

func blockWeights(_ isa.Level, dst []float64, x []float32, top, t float32) {
	blockWeightsPortable(dst, x, top, t)
}

func blockSums(_ isa.Level, dst []float64, x []float32, least float32) (count int, lowest, below float32) {
	return blockSumsPortable(dst, x, least)
}

func find(_ isa.Level, dst []int32, x []float32, lo, hi float32) int {
	return findPortable(dst, x, lo, hi)
}
