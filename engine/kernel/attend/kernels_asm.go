//go:build amd64 && !purego && !noasm

package attend

import (
	"unsafe"
	"weir/engine/kernel/isa"
)

func quantizeBy(level isa.Level, codes *[blockValues]int8, x *[blockValues]float32, inverse float32) {
	switch level {
	case isa.AVX512:
		quantizeAVX512(&codes[0], &x[0], inverse)
	case isa.AVX2:
		quantizeAVX2(&codes[0], &x[0], inverse)
	default:
		quantizePortable(codes, x, inverse)
	}
}

func halveEights(level isa.Level, dst []byte, x []float32) {
	if level == isa.Portable {
		halvePortable(dst, x)
		return
	}
	halveAVX2((*uint16)(unsafe.Pointer(&dst[0])), &x[0], len(x))
}

func scoreQ8(level isa.Level, dst []float32, query []uint32, lanes, blocks int, data []byte, tiles []int) {
	switch level {
	case isa.AVX512:
		scoreQ8AVX512(&dst[0], &query[0], lanes, blocks, &data[0], &tiles[0], len(tiles))
	case isa.AVX2:
		scoreQ8AVX2(&dst[0], &query[0], lanes, blocks, &data[0], &tiles[0], len(tiles))
	default:
		scoreQ8Portable(dst, query, lanes, blocks, data, tiles)
	}
}

func scoreF16(level isa.Level, dst []float32, query []uint32, lanes, headDim int, data []byte, tiles []int) {
	switch level {
	case isa.AVX512:
		scoreF16AVX512(&dst[0], &query[0], lanes, headDim, &data[0], &tiles[0], len(tiles))
	case isa.AVX2:
		scoreF16AVX2(&dst[0], &query[0], lanes, headDim, &data[0], &tiles[0], len(tiles))
	default:
		scoreF16Portable(dst, query, lanes, headDim, data, tiles)
	}
}

func scoreF32(level isa.Level, dst []float32, query []uint32, lanes, headDim int, data []byte, tiles []int) {
	switch level {
	case isa.AVX512:
		scoreF32AVX512(&dst[0], &query[0], lanes, headDim, &data[0], &tiles[0], len(tiles))
	case isa.AVX2:
		scoreF32AVX2(&dst[0], &query[0], lanes, headDim, &data[0], &tiles[0], len(tiles))
	default:
		scoreF32Portable(dst, query, lanes, headDim, data, tiles)
	}
}

func quantizeWeights(level isa.Level, w *weightCodes, p []float32, data []byte, at int, tiles []int) {
	switch level {
	case isa.AVX512:
		quantizeWeightsAVX512((*byte)(unsafe.Pointer(w)), &p[0], &data[at], &tiles[0], len(tiles))
	case isa.AVX2:
		quantizeWeightsAVX2((*byte)(unsafe.Pointer(w)), &p[0], &data[at], &tiles[0], len(tiles))
	default:
		quantizeWeightsPortable(w, p, data, at, tiles)
	}
}

func mixQ8(level isa.Level, out []float32, stride int, w *weightCodes, data []byte, at int, tiles []int, keys, scales int, ahead []int) {
	next := unsafe.SliceData(ahead)
	switch level {
	case isa.AVX512:
		mixQ8AVX512(&out[0], stride, (*byte)(unsafe.Pointer(w)), &data[at], &tiles[0], len(tiles), &data[keys], scales-keys, next)
	case isa.AVX2:
		mixQ8AVX2(&out[0], stride, (*byte)(unsafe.Pointer(w)), &data[at], &tiles[0], len(tiles), &data[keys], scales-keys, next)
	default:
		mixQ8Portable(out, stride, w, data, at, tiles)
	}
}

func mixF16(level isa.Level, out, weights []float32, headDim int, data []byte, at int, tiles []int, n int, ahead []int) {
	next := unsafe.SliceData(ahead)
	switch {
	case n == 0:
	case level == isa.AVX512 && headDim%16 == 0:
		mixF16AVX512(&out[0], &weights[0], headDim, &data[at], &tiles[0], n, &data[0], next)
	case level >= isa.AVX2 && headDim%8 == 0:
		mixF16AVX2(&out[0], &weights[0], headDim, &data[at], &tiles[0], n, &data[0], next)
	default:
		mixF16Portable(out, weights, headDim, data, at, tiles, n)
	}
}

func mixF32(level isa.Level, out, weights []float32, headDim int, data []byte, at int, tiles []int, n int, ahead []int) {
	next := unsafe.SliceData(ahead)
	switch {
	case n == 0:
	case level == isa.AVX512 && headDim%16 == 0:
		mixF32AVX512(&out[0], &weights[0], headDim, &data[at], &tiles[0], n, &data[0], next)
	case level >= isa.AVX2 && headDim%8 == 0:
		mixF32AVX2(&out[0], &weights[0], headDim, &data[at], &tiles[0], n, &data[0], next)
	default:
		mixF32Portable(out, weights, headDim, data, at, tiles, n)
	}
}

func blend(level isa.Level, acc, x []float32, a, b float32) {
	switch level {
	case isa.AVX512:
		blendAVX512(acc, x, a, b)
	case isa.AVX2:
		blendAVX2(acc, x, a, b)
	default:
		blendPortable(acc, x, a, b)
	}
}
