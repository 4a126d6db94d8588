//go:build amd64 && !purego && !noasm

package attend

import (
	"unsafe"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
)

// Assembly knows no lengths: each function here panics where it would read or write beyond what it is given.

func quantizeBy(level isa.Level, codes *blockCodes, x *[blockValues]float32, inverse float32) {
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
	_, _ = dst[2*len(x)-1], x[(len(x)+7)/8*8-1]
	halveAVX2((*uint16)(unsafe.Pointer(&dst[0])), &x[0], len(x))
}

func packQ8(level isa.Level, query []uint32, x []float32, factor float32) {
	if level == isa.AVX512 {
		const block = laneStep * blockValues
		blocks := (len(x) + block - 1) / block
		_, _ = query[blocks*queryWords-1], x[blocks*block-1]
		packQ8AVX512(&query[0], &x[0], len(x)/laneStep, factor)
		return
	}
	packFour(level, query, x, factor)
}

// storeFourQ8 stores keys and values of four tokens, as storeQ8 does of one; false where it cannot.
func storeFourQ8(level isa.Level, tile []byte, kv *KV, t fourTokens) bool {
	if level != isa.AVX512 {
		return false
	}
	d, last := kv.HeadDim, (valueTokens-1)*t.width
	_ = tile[kv.valueScalesAt()+(d/blockValues-1)*2*tileTokens+2*(t.token+valueTokens)-1]
	_, _ = t.k[last+d-1], t.v[last+d-1]
	keys, values, scales := &tile[4*t.token], &tile[kv.valuesAt()+t.token*blockValues], &tile[kv.keyScalesAt()+2*t.token]
	return storeQ8AVX512(keys, values, scales, &t.k[0], &t.v[0], d, t.width)
}

// checkScores panics unless dst has room for the scores of lanes, query has so many words of each, and each tile so many bytes.
func checkScores(dst []float32, query []uint32, lanes, words int, s *stretch, bytes int) {
	if lanes < laneStep || lanes%laneStep != 0 {
		panic("attend: lanes are no multiple of four")
	}
	_, _ = dst[(lanes-1)*scoreStride+len(s.tiles)*tileTokens-1], query[lanes*words-1]
	s.check(2, bytes)
}

func scoreQ8(level isa.Level, dst []float32, query []uint32, lanes, blocks int, s *stretch) {
	checkScores(dst, query, lanes, blocks*queryWords/laneStep, s, 2*tileTokens*blocks*(blockValues+1))
	switch level {
	case isa.AVX512:
		scoreQ8AVX512(&dst[0], &query[0], lanes, blocks, &s.data[0], &s.tiles[0], len(s.tiles))
	case isa.AVX2:
		scoreQ8AVX2(&dst[0], &query[0], lanes, blocks, &s.data[0], &s.tiles[0], len(s.tiles))
	default:
		scoreQ8Portable(dst, query, lanes, blocks, s)
	}
}

func scoreF16(level isa.Level, dst []float32, query []uint32, lanes, headDim int, s *stretch) {
	checkScores(dst, query, lanes, headDim, s, 2*tileTokens*headDim)
	switch level {
	case isa.AVX512:
		scoreF16AVX512(&dst[0], &query[0], lanes, headDim, &s.data[0], &s.tiles[0], len(s.tiles))
	case isa.AVX2:
		scoreF16AVX2(&dst[0], &query[0], lanes, headDim, &s.data[0], &s.tiles[0], len(s.tiles))
	default:
		scoreF16Portable(dst, query, lanes, headDim, s)
	}
}

func scoreF32(level isa.Level, dst []float32, query []uint32, lanes, headDim int, s *stretch) {
	checkScores(dst, query, lanes, headDim, s, 4*tileTokens*headDim)
	switch level {
	case isa.AVX512:
		scoreF32AVX512(&dst[0], &query[0], lanes, headDim, &s.data[0], &s.tiles[0], len(s.tiles))
	case isa.AVX2:
		scoreF32AVX2(&dst[0], &query[0], lanes, headDim, &s.data[0], &s.tiles[0], len(s.tiles))
	default:
		scoreF32Portable(dst, query, lanes, headDim, s)
	}
}

func openScales(level isa.Level, dst []float32, blocks int, s *stretch) {
	_ = dst[(blocks-1)*segmentTokens+len(s.tiles)*tileTokens-1]
	s.check(1, 2*tileTokens*blocks)
	switch level {
	case isa.AVX512:
		openScalesAVX512(&dst[0], &s.data[s.at], &s.tiles[0], len(s.tiles), blocks)
	case isa.AVX2:
		openScalesAVX2(&dst[0], &s.data[s.at], &s.tiles[0], len(s.tiles), blocks)
	default:
		openScalesPortable(dst, blocks, s)
	}
}

func weighQ8(level isa.Level, w []weightCodes, x []float32, tiles int, seen []vector.Seen, scales []float32, out []vector.Softmax) {
	n, last := tiles*tileTokens, laneStep-1
	if n > segmentTokens || tiles%tilesTogether != 0 {
		panic("attend: tiles are no multiple of four, or beyond their segment")
	}
	_, _, _, _ = x[last*scoreStride+n-1], scales[(len(w)-1)*segmentTokens+n-1], seen[last], out[last]
	vector.CheckSeen(seen[:laneStep], n)
	to := (*byte)(unsafe.Pointer(&w[0]))
	switch level {
	case isa.AVX512:
		weighQ8AVX512(to, len(w), &x[0], n, &seen[0].First, &scales[0], &out[0].Top)
	case isa.AVX2:
		weighQ8AVX2(to, len(w), &x[0], n, &seen[0].First, &scales[0], &out[0].Top)
	default:
		weighQ8Portable(w, x, tiles, seen, scales, out)
	}
}

func mixQ8(level isa.Level, out []float32, stride int, shares *[laneStep]share, w *weightCodes, s *stretch) {
	_, _ = out[(laneStep-1)*stride+blockValues-1], w.codes[0][len(s.tiles)*tileTokens-1]
	s.check(tilesTogether, blockValues*tileTokens)
	next := unsafe.SliceData(s.ahead)
	switch level {
	case isa.AVX512:
		mixQ8AVX512(&out[0], stride, &shares[0].old, (*byte)(unsafe.Pointer(w)), &s.data[s.at], &s.tiles[0], len(s.tiles),
			&s.data[s.keys], s.scales-s.keys, next)
	case isa.AVX2:
		mixQ8AVX2(&out[0], stride, &shares[0].old, (*byte)(unsafe.Pointer(w)), &s.data[s.at], &s.tiles[0], len(s.tiles),
			&s.data[s.keys], s.scales-s.keys, next)
	default:
		mixQ8Portable(out, stride, shares, w, s)
	}
}

// checkMix panics unless out has room for four lanes, weights has n of each, and each tile as many bytes as its values take.
func checkMix(out, weights []float32, headDim int, s *stretch, n, valueBytes int) {
	_, _, _ = out[laneStep*headDim-1], weights[(laneStep-1)*scoreStride+n-1], s.tiles[(n-1)/tileTokens]
	s.check(1, min(n, tileTokens)*valueBytes)
}

func mixF16(level isa.Level, out, weights []float32, headDim int, s *stretch, n int) {
	if n > 0 {
		checkMix(out, weights, headDim, s, n, 2*headDim)
	}
	next := unsafe.SliceData(s.ahead)
	switch {
	case n == 0:
	case level == isa.AVX512 && headDim%16 == 0:
		mixF16AVX512(&out[0], &weights[0], headDim, &s.data[s.at], &s.tiles[0], n, &s.data[0], next)
	case level >= isa.AVX2 && headDim%8 == 0:
		mixF16AVX2(&out[0], &weights[0], headDim, &s.data[s.at], &s.tiles[0], n, &s.data[0], next)
	default:
		mixF16Portable(out, weights, headDim, s, n)
	}
}

func mixF32(level isa.Level, out, weights []float32, headDim int, s *stretch, n int) {
	if n > 0 {
		checkMix(out, weights, headDim, s, n, 4*headDim)
	}
	next := unsafe.SliceData(s.ahead)
	switch {
	case n == 0:
	case level == isa.AVX512 && headDim%16 == 0:
		mixF32AVX512(&out[0], &weights[0], headDim, &s.data[s.at], &s.tiles[0], n, &s.data[0], next)
	case level >= isa.AVX2 && headDim%8 == 0:
		mixF32AVX2(&out[0], &weights[0], headDim, &s.data[s.at], &s.tiles[0], n, &s.data[0], next)
	default:
		mixF32Portable(out, weights, headDim, s, n)
	}
}

func blend(level isa.Level, acc, x []float32, a, b float32) {
	x = x[:len(acc)]
	switch level {
	case isa.AVX512:
		blendAVX512(acc, x, a, b)
	case isa.AVX2:
		blendAVX2(acc, x, a, b)
	default:
		blendPortable(acc, x, a, b)
	}
}

// fetch prefetches n floats of each of so many rows of x, one or more, where they lie width floats apart.
func fetch(level isa.Level, x []float32, n, width, rows int) {
	if level != isa.Portable {
		fetchAVX2(&x[0], 4*n, 4*width, rows)
	}
}

// rotateHeads rotates rows of heads, a factor for each head of each row, one row or more; heads have a multiple of 32 values.
func rotateHeads(level isa.Level, dst, x []float32, r headRows, factors []float32) {
	n, rows, width := rotated(r.headDim), len(factors)/r.heads, r.heads*r.headDim
	_, _ = dst[(rows-1)*r.dst+width-1], x[(rows-1)*r.x+width-1]
	switch level {
	case isa.AVX512:
		rotateAVX512(&dst[0], &x[0], n, r.headDim, r.heads, rows, r.dst-width, r.x-width, &factors[0])
	case isa.AVX2:
		rotateAVX2(&dst[0], &x[0], n, r.headDim, r.heads, rows, r.dst-width, r.x-width, &factors[0])
	default:
		rotateHeadsPortable(dst, x, r, factors)
	}
}

func unpack(level isa.Level, dst, src, next []byte, offset uint32) {
	_, _ = dst[2*len(src)-1], src[packedLine-1]
	switch level {
	case isa.AVX512:
		unpackAVX512(&dst[0], &src[0], &next[0], len(src)/packedLine, offset)
	case isa.AVX2:
		unpackAVX2(&dst[0], &src[0], &next[0], len(src)/packedLine, offset)
	default:
		unpackPortable(dst, src, offset)
	}
}
