//go:build !amd64 || purego || noasm

package attend

import (
	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
)

func quantizeBy(_ isa.Level, codes *blockCodes, x *[blockValues]float32, inverse float32) {
	quantizePortable(codes, x, inverse)
}

func packQ8(level isa.Level, query []uint32, x []float32, factor float32) {
	packFour(level, query, x, factor)
}

func storeFourQ8(isa.Level, []byte, *KV, fourTokens) bool { return false }

func scoreQ8(_ isa.Level, dst []float32, query []uint32, lanes, blocks int, s *stretch) {
	scoreQ8Portable(dst, query, lanes, blocks, s)
}

func scoreF16(_ isa.Level, dst []float32, query []uint32, lanes, headDim int, s *stretch) {
	scoreF16Portable(dst, query, lanes, headDim, s)
}

func scoreF32(_ isa.Level, dst []float32, query []uint32, lanes, headDim int, s *stretch) {
	scoreF32Portable(dst, query, lanes, headDim, s)
}

func openScales(_ isa.Level, dst []float32, blocks int, s *stretch) {
	openScalesPortable(dst, blocks, s)
}

func weighQ8(_ isa.Level, w []weightCodes, x []float32, tiles int, seen []vector.Seen, scales []float32, out []vector.Softmax) {
	weighQ8Portable(w, x, tiles, seen, scales, out)
}

func mixQ8(_ isa.Level, out []float32, stride int, shares *[laneStep]share, w *weightCodes, s *stretch) {
	mixQ8Portable(out, stride, shares, w, s)
}

func mixF16(_ isa.Level, out, weights []float32, headDim int, s *stretch, n int) {
	mixF16Portable(out, weights, headDim, s, n)
}

func mixF32(_ isa.Level, out, weights []float32, headDim int, s *stretch, n int) {
	mixF32Portable(out, weights, headDim, s, n)
}

func blend(_ isa.Level, acc, x []float32, a, b float32) { blendPortable(acc, x, a, b) }

func halveEights(_ isa.Level, dst []byte, x []float32) { halvePortable(dst, x) }

func fetch(isa.Level, []float32, int, int, int) {}

func rotateHeads(_ isa.Level, dst, x []float32, r headRows, factors []float32) {
	rotateHeadsPortable(dst, x, r, factors)
}

func unpack(_ isa.Level, dst, src, _ []byte, offset uint32) { unpackPortable(dst, src, offset) }
