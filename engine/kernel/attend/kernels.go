package attend

import (
	"encoding/binary"
	"math"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
)

// The attention kernels in plain Go, one function for each of asm/attention.go.
// The number of lanes is a multiple of four. The assembly also prefetches: a core
// can have few cache misses in flight, and without it keys and values would be
// waited for one after the other.

// stretch is what a kernel reads of the store: tiles of one head, see [KV].
type stretch struct {
	data  []byte // of the store
	tiles []int  // offsets of the tiles, an even number of them, and a multiple of four for mixQ8
	last  uint   // the largest of them
	at    int    // offset in a tile of the values or scales that are read

	ahead  []int // tiles whose keys the assembly prefetches meanwhile, as many; nil of none
	keys   int   // offset of what it prefetches in them
	scales int   // offset of the scales beside, of q8_0
}

// stretchOf is a stretch of tiles, of which nothing is ahead.
func stretchOf(data []byte, tiles []int) stretch {
	s := stretch{data: data, tiles: tiles}
	for _, t := range tiles {
		s.last = max(s.last, uint(t))
	}
	return s
}

// check panics unless the stretch is a multiple of together tiles, one or more, with n bytes each from at on.
func (s *stretch) check(together, n int) {
	count := len(s.tiles)
	_ = s.tiles[(count+together-1)/together*together-1]
	_ = s.data[s.last:][s.at+n-1]
	if s.ahead != nil {
		_ = s.ahead[count-1]
	}
}

// weightCodes are the weights of four lanes over a segment for a block of values: each weight times the scale of its
// token's value is a code, without a sign, times a step. Sixteen tokens share a step, which makes the largest code 255: four
// tokens that are neighbours in a tile, and those at the same places of three more tiles. A register holds a tile, so that
// the largest of the sixteen is found by comparing four registers and two shuffles. Codes lie in the order that packing these
// registers leaves; a step lies there four times, once for each neighbour. Sums of sixteen products of codes are below 2^19
// and exact as floats. asm/attention.go knows the order of the fields.
type weightCodes struct {
	codes [laneStep][segmentTokens]uint8       // [tile/4][token/4][tile%4][token%4]
	step  [laneStep][segmentTokens / 4]float32 // [tile/4][token]
	_     [64]byte                             // so that blocks do not compete for the same sets of the first-level cache
}

// codeOf is where a lane's codes have tile i's token k.
func codeOf(i, k int) int {
	return i/tilesTogether*tilesTogether*tileTokens + k/valueTokens*tileTokens + i%tilesTogether*valueTokens + k%valueTokens
}

// stepOf is where a lane's steps have the one of tile i's token k.
func stepOf(i, k int) int { return i/tilesTogether*tileTokens + k }

const (
	weightMax = 1<<8 - 1
	leastTop  = 0x1p-100 // the largest weight counts as at least this, so that its inverse is finite
)

// queryWords is the size of four lanes' packed codes of 32 values.
const queryWords = (8 + 2) * laneStep

// packFour lays four queries that are rotated, x, out as [HeadDim/32] times eight words of four codes for each of them, four
// scales, times factor, and four terms that undo the 128 in keys' codes.
func packFour(level isa.Level, query []uint32, x []float32, factor float32) {
	headDim := len(x) / laneStep
	var codes blockCodes
	for l := range laneStep {
		to := query[l:]
		for i := 0; i < headDim; i += blockValues {
			part := (*[blockValues]float32)(x[l*headDim+i:])
			scale := vector.AbsMax(level, part[:]) / 127
			quantize(level, &codes, part, scale)
			for k := range blockValues / 4 {
				to[k*laneStep] = codes.word(k)
			}
			to[8*laneStep] = math.Float32bits(scale * factor)
			to[9*laneStep] = uint32(-128 * codes.sum())
			to = to[min(queryWords, len(to)):]
		}
	}
}

func scoreQ8Portable(dst []float32, query []uint32, lanes, blocks int, s *stretch) {
	for i, t := range s.tiles {
		for l := range lanes {
			q := query[l/laneStep*blocks*queryWords+l%laneStep:]
			out := (*[tileTokens]float32)(dst[l*scoreStride+i*tileTokens:])
			clear(out[:])
			for b := range blocks {
				keys := s.data[t+b*blockValues*tileTokens:][:blockValues*tileTokens]
				scales := s.data[t+blocks*2*blockValues*tileTokens+b*2*tileTokens:]
				scoreBlock(out, q[b*queryWords:], keys, scales)
			}
		}
	}
}

// scoreBlock adds the products of 32 values of one lane.
func scoreBlock(out *[tileTokens]float32, q []uint32, keys, scales []byte) {
	var sums [tileTokens]int32
	for i := range sums {
		sums[i] = int32(q[9*laneStep])
	}
	for i := range blockValues / 4 {
		w := q[i*laneStep]
		q0, q1, q2, q3 := int32(int8(w)), int32(int8(w>>8)), int32(int8(w>>16)), int32(int8(w>>24))
		quad := (*[4 * tileTokens]byte)(keys[i*4*tileTokens:])
		for t := range sums {
			k := (*[4]byte)(quad[4*t:])
			sums[t] += q0*int32(k[0]) + q1*int32(k[1]) + q2*int32(k[2]) + q3*int32(k[3])
		}
	}
	scale := math.Float32frombits(q[8*laneStep])
	for t, s := range sums {
		out[t] += float32(s) * (vector.F16ToF32(binary.LittleEndian.Uint16(scales[2*t:])) * scale)
	}
}

// openScalesPortable writes the scales of a segment's values as floats, [blocks][segmentTokens].
func openScalesPortable(dst []float32, blocks int, s *stretch) {
	for i, t := range s.tiles {
		for b := range blocks {
			vector.DecodeF16(dst[b*segmentTokens+i*tileTokens:][:tileTokens], s.data[t+s.at+b*2*tileTokens:][:2*tileTokens])
		}
	}
}

// weighQ8Portable turns the scores x of four lanes into a softmax each, out, and codes for each block of values. Those
// scores in a multiple of four tiles count that the lane has seen; where it has seen none, out is arbitrary. scales are
// those of values, [block][segmentTokens]. x is overwritten.
func weighQ8Portable(w []weightCodes, x []float32, tiles int, seen []vector.Seen, scales []float32, out []vector.Softmax) {
	vector.Weigh(isa.Portable, x, scoreStride, tiles*tileTokens, seen[:laneStep], out)
	for l := range laneStep {
		for b := range w {
			for i := 0; i < tiles; i += tilesTogether {
				for k := 0; k < tileTokens; k += valueTokens {
					at := i*tileTokens + k
					roundWeights(&w[b], l, i, k, x[l*scoreStride+at:], scales[b*segmentTokens+at:])
				}
			}
		}
	}
}

// roundWeights rounds the weights p of tokens that share a step, those from k on of tiles from i on.
func roundWeights(w *weightCodes, lane, i, k int, p, scales []float32) {
	top := float32(leastTop)
	for t := range tilesTogether * valueTokens {
		at := t/valueTokens*tileTokens + t%valueTokens
		if x := p[at] * scales[at]; x > top {
			top = x
		}
	}
	inverse := weightMax / top
	for t := range tilesTogether * valueTokens {
		at, n := t/valueTokens*tileTokens+t%valueTokens, uint8(0)
		if x := p[at] * scales[at] * inverse; x > 0 { // not NaN
			n = uint8(math.RoundToEven(float64(x)))
		}
		w.codes[lane][codeOf(i+t/valueTokens, k+t%valueTokens)] = n
	}
	for t := range valueTokens {
		w.step[lane][stepOf(i, k+t)] = top * (1.0 / weightMax)
	}
}

// share is what a lane's values of the segments before, and those of a segment, are multiplied with where the two are added.
type share struct{ old, now float32 }

// mixQ8Portable adds a segment's values of four lanes to out, by their shares.
func mixQ8Portable(out []float32, stride int, shares *[laneStep]share, w *weightCodes, s *stretch) {
	for l, share := range shares {
		var mixed [blockValues]float32
		for i := 0; i < len(s.tiles); i += tilesTogether {
			for k := 0; k < tileTokens; k += valueTokens {
				var sums [blockValues]int32
				for j, t := range s.tiles[i : i+tilesTogether] {
					codes := (*[valueTokens]uint8)(w.codes[l][codeOf(i+j, k):])
					mixFour(&sums, codes, (*[valueTokens * blockValues]byte)(s.data[t+s.at+k*blockValues:]))
				}
				step := w.step[l][stepOf(i, k)]
				for d, sum := range sums {
					mixed[d] += float32(sum) * step
				}
			}
		}
		blendPortable(out[l*stride:][:blockValues], mixed[:], share.old, share.now)
	}
}

// mixFour adds four tokens' products.
func mixFour(sums *[blockValues]int32, codes *[valueTokens]uint8, values *[valueTokens * blockValues]byte) {
	for d := range sums {
		for k, c := range codes {
			sums[d] += int32(c) * int32(int8(values[valueTokens*d+k]))
		}
	}
}

// scoreF32Portable adds up in doubles, which plain Go does as fast as in floats.
func scoreF32Portable(dst []float32, query []uint32, lanes, headDim int, s *stretch) {
	for i, t := range s.tiles {
		keys := vector.Floats(s.data[t : t+4*tileTokens*headDim])
		for l := range lanes {
			var sums [tileTokens]float64
			q := query[l/laneStep*laneStep*headDim+l%laneStep:]
			for d := range headDim {
				x := float64(math.Float32frombits(q[d*laneStep]))
				for t, k := range (*[tileTokens]float32)(keys[d*tileTokens:]) {
					sums[t] += x * float64(k)
				}
			}
			out := (*[tileTokens]float32)(dst[l*scoreStride+i*tileTokens:])
			for t, v := range sums {
				out[t] = float32(v)
			}
		}
	}
}

func scoreF16Portable(dst []float32, query []uint32, lanes, headDim int, s *stretch) {
	var keys [tileTokens]float32
	for i, t := range s.tiles {
		for d := range headDim {
			vector.DecodeF16(keys[:], s.data[t+2*tileTokens*d:][:2*tileTokens])
			scoreKeys(dst[i*tileTokens:], query[d*laneStep:], lanes, laneStep*headDim, &keys, d == 0)
		}
	}
}

// scoreKeys adds the products of one element of the keys, or begins with them.
func scoreKeys(dst []float32, query []uint32, lanes, stride int, keys *[tileTokens]float32, begin bool) {
	for l := range lanes {
		q := math.Float32frombits(query[l/laneStep*stride+l%laneStep])
		out := (*[tileTokens]float32)(dst[l*scoreStride:])
		if begin {
			clear(out[:])
		}
		for t, k := range keys {
			out[t] += q * k
		}
	}
}

func mixF32Portable(out, weights []float32, headDim int, s *stretch, n int) {
	for i := range n {
		values := vector.Floats(s.data[s.tiles[i/tileTokens]+s.at+i%tileTokens*4*headDim:][:4*headDim])
		for l := range laneStep {
			axpyOnce(out[l*headDim:(l+1)*headDim], weights[l*scoreStride+i], values)
		}
	}
}

func mixF16Portable(out, weights []float32, headDim int, s *stretch, n int) {
	var values [16]float32
	for i := range n {
		raw := s.data[s.tiles[i/tileTokens]+s.at+i%tileTokens*2*headDim:][:2*headDim]
		for d := 0; d < headDim; d += len(values) {
			v := values[:min(len(values), headDim-d)]
			vector.DecodeF16(v, raw[2*d:])
			for l := range laneStep {
				axpy(out[l*headDim+d:][:len(v)], weights[l*scoreStride+i], v)
			}
		}
	}
}

// blendPortable computes acc = acc*a + x*b.
func blendPortable(acc, x []float32, a, b float32) {
	for i, v := range acc {
		acc[i] = v*a + x[i]*b
	}
}

// axpyOnce is axpy that rounds a product and its sum once, as the assembly does.
func axpyOnce(y []float32, f float32, x []float32) {
	x = x[:len(y)]
	for i, v := range y {
		y[i] = float32(float64(v) + float64(f)*float64(x[i]))
	}
}

// axpy adds f*x to y; len(x) >= len(y).
func axpy(y []float32, f float32, x []float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] += f * x[i]
	}
}
