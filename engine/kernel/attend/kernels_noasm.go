//go:build !amd64 || purego || noasm

package attend

import "weir/engine/kernel/isa"

func quantizeBy(_ isa.Level, codes *[blockValues]int8, x *[blockValues]float32, inverse float32) {
	quantizePortable(codes, x, inverse)
}

func scoreQ8(_ isa.Level, dst []float32, query []uint32, lanes, blocks int, data []byte, tiles []int) {
	scoreQ8Portable(dst, query, lanes, blocks, data, tiles)
}

func scoreF16(_ isa.Level, dst []float32, query []uint32, lanes, headDim int, data []byte, tiles []int) {
	scoreF16Portable(dst, query, lanes, headDim, data, tiles)
}

func scoreF32(_ isa.Level, dst []float32, query []uint32, lanes, headDim int, data []byte, tiles []int) {
	scoreF32Portable(dst, query, lanes, headDim, data, tiles)
}

func quantizeWeights(_ isa.Level, w *weightCodes, p []float32, data []byte, at int, tiles []int) {
	quantizeWeightsPortable(w, p, data, at, tiles)
}

func mixQ8(_ isa.Level, out []float32, stride int, w *weightCodes, data []byte, at int, tiles []int, _, _ int, _ []int) {
	mixQ8Portable(out, stride, w, data, at, tiles)
}

func mixF16(_ isa.Level, out, weights []float32, headDim int, data []byte, at int, tiles []int, n int, _ []int) {
	mixF16Portable(out, weights, headDim, data, at, tiles, n)
}

func mixF32(_ isa.Level, out, weights []float32, headDim int, data []byte, at int, tiles []int, n int, _ []int) {
	mixF32Portable(out, weights, headDim, data, at, tiles, n)
}

func blend(_ isa.Level, acc, x []float32, a, b float32) { blendPortable(acc, x, a, b) }

func halveEights(_ isa.Level, dst []byte, x []float32) { halvePortable(dst, x) }
