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
	tiles []int  // offsets of the tiles, an even number of them
	at    int    // offset in a tile of the values or scales that are read

	ahead  []int // tiles whose keys the assembly prefetches meanwhile, as many; nil of none
	keys   int   // offset of what it prefetches in them
	scales int   // offset of the scales beside, of q8_0
}

// weightCodes are the weights of four lanes over a segment, each times the
// scale of its token's value, as integers of 14 bits in two halves of seven:
// weight = step * (128*upper + lower). Of two tiles codes has 64 bytes: of each
// four tokens the upper halves, those of the second tile, then the lower ones
// likewise, the order that packing registers of both tiles leaves. Products with
// value codes, below 2^14 * 2^7 each, add up over 512 tokens within 32 bits,
// and those of a half and an unsigned byte within the 16 bits of VPMADDUBSW.
// The order of fields is known to asm/attention.go.
type weightCodes struct {
	codes [laneStep][2 * segmentTokens]uint8
	step  [laneStep]float32
}

// codeOf is where a lane's codes have the upper half of tile i's token k; the lower one is lowerHalf behind it.
func codeOf(i, k int) int {
	return i/2*4*tileTokens + k/valueTokens*4*valueTokens + i%2*valueTokens + k%valueTokens
}

const lowerHalf = 2 * valueTokens

const (
	weightMax  = 1<<14 - 1
	weightHalf = 1 << 7
	leastTop   = 0x1p-100 // the largest weight counts as at least this, so that its inverse is finite
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

func quantizeWeightsPortable(w *weightCodes, p []float32, s *stretch) {
	for l := range laneStep {
		p := p[l*scoreStride:]
		top := float32(leastTop)
		for i, t := range s.tiles {
			scales := s.data[t+s.at:]
			for k, v := range p[i*tileTokens : (i+1)*tileTokens] {
				if x := v * vector.F16ToF32(binary.LittleEndian.Uint16(scales[2*k:])); x > top {
					top = x
				}
			}
		}
		inverse := weightMax / top
		for i, t := range s.tiles {
			scales := s.data[t+s.at:]
			for k, v := range p[i*tileTokens : (i+1)*tileTokens] {
				n := uint16(0)
				if x := v * vector.F16ToF32(binary.LittleEndian.Uint16(scales[2*k:])) * inverse; x > 0 { // not NaN
					n = uint16(math.RoundToEven(float64(x)))
				}
				w.codes[l][codeOf(i, k)] = uint8(n / weightHalf)
				w.codes[l][codeOf(i, k)+lowerHalf] = uint8(n % weightHalf)
			}
		}
		w.step[l] = top * (1.0 / weightMax)
	}
}

func mixQ8Portable(out []float32, stride int, w *weightCodes, s *stretch) {
	for l := range laneStep {
		var sums [blockValues]int32
		for i, t := range s.tiles {
			for k := range tileTokens {
				n := int32(w.codes[l][codeOf(i, k)])*weightHalf + int32(w.codes[l][codeOf(i, k)+lowerHalf])
				values := s.data[t+s.at+k/4*4*blockValues+k%4:]
				for d := range sums {
					sums[d] += n * int32(int8(values[4*d]))
				}
			}
		}
		for d, s := range sums {
			out[l*stride+d] = float32(s) * w.step[l]
		}
	}
}

func scoreF32Portable(dst []float32, query []uint32, lanes, headDim int, s *stretch) {
	for i, t := range s.tiles {
		keys := vector.Floats(s.data[t : t+4*tileTokens*headDim])
		for d := range headDim {
			scoreKeys(dst[i*tileTokens:], query[d*laneStep:], lanes, laneStep*headDim, (*[tileTokens]float32)(keys[d*tileTokens:]), d == 0)
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
			axpy(out[l*headDim:(l+1)*headDim], weights[l*scoreStride+i], values)
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

// axpy adds f*x to y; len(x) >= len(y).
func axpy(y []float32, f float32, x []float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] += f * x[i]
	}
}
