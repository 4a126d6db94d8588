package attend

import (
	"encoding/binary"
	"math"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
)

// q4_0 has codes of four bits where q8_0 has bytes; all else is the same, rotation and scales included. Attention opens
// the tiles of a segment in the worker's memory, as tiles of q8_0, and goes on with the kernels of those.
//
// A stored tile has the codes of keys, then those of values, then the scales. Sixty-four bytes of codes are 128 of an
// open tile: the low nibbles are the first 64. So a byte has two codes of one token, and two workers may
// store two tokens of a tile. A nibble is a code plus eight.
const (
	nibbleBias    = 8
	packedLine    = 64
	openedLine    = 2 * packedLine
	keysOpened    = (128 - nibbleBias) * 0x01010101 // makes nibbles of keys the codes plus 128
	valuesOpened  = (256 - nibbleBias) * 0x01010101
	nibbleReach   = 7.5 // the largest value of 32 in steps of the scale: it is rounded to 7 or -8
	nibblesOfByte = 2
)

// packedCodes is the bytes of all codes of a stored tile.
func (s KVShape) packedCodes() int { return 2 * tileTokens * s.HeadDim / nibblesOfByte }

// openedBytes is the memory of a tile of q8_0 whose heads have headDim values.
func openedBytes(headDim int) int { return 2 * tileTokens * (headDim + 2*headDim/blockValues) }

// storeQ4 stores a key and a value that are rotated.
func (kv *KV) storeQ4(level isa.Level, tile []byte, k, v []float32, token int) {
	keys, vals, scales := tile, tile[kv.packedCodes()/2:], tile[kv.packedCodes():]
	valueScales := scales[kv.HeadDim:]
	var codes blockCodes
	for b := range kv.HeadDim / blockValues {
		scale := quantizeNibbles(level, &codes, (*[blockValues]float32)(k[b*blockValues:]))
		binary.LittleEndian.PutUint16(scales[2*(b*tileTokens+token):], scale)
		for i := 0; i < blockValues; i += 8 { // two lines of an open tile: four values of each token in each
			to := keys[(b*blockValues+i)/8*packedLine+4*token:][:4]
			for j := range to {
				to[j] = nibbles(codes[i+j], codes[i+4+j])
			}
		}
		scale = quantizeNibbles(level, &codes, (*[blockValues]float32)(v[b*blockValues:]))
		binary.LittleEndian.PutUint16(valueScales[2*(b*tileTokens+token):], scale)
		to := vals[(b*tileTokens/4+token/4)*packedLine+token%4:][:packedLine-3]
		for j := range blockValues / 2 {
			to[4*j] = nibbles(codes[j], codes[blockValues/2+j])
		}
	}
}

func nibbles(low, high int8) byte { return byte(low+nibbleBias) | byte(high+nibbleBias)<<4 }

// quantizeNibbles is quantizeHalf with codes in [-8,7].
func quantizeNibbles(level isa.Level, codes *blockCodes, x *[blockValues]float32) uint16 {
	top := vector.AbsMax(level, x[:])
	if !(top <= math.MaxFloat32) {
		*codes = blockCodes{1}
		return vector.F16Infinity
	}
	half := vector.F32ToF16(top / nibbleReach)
	quantize(level, codes, x, vector.F16ToF32(half))
	for i, c := range codes {
		codes[i] = max(-nibbleBias, min(c, nibbleBias-1))
	}
	return half
}

// open unpacks the tiles at places, and gives where in w.opened they are.
func (w *attendWork) open(places []int) []int {
	kv, size := w.KV, openedBytes(w.KV.HeadDim)
	half, scales := kv.packedCodes()/2, kv.tileSize-kv.packedCodes()
	for i, t := range places {
		packed := kv.data[t : t+kv.tileSize]
		next := t
		if i+1 < len(places) {
			next = places[i+1]
		}
		to := w.opened[i*size : (i+1)*size]
		unpack(w.level, to, packed[:half], kv.data[next:], keysOpened)
		unpack(w.level, to[2*half:], packed[half:2*half], kv.data[next+half:], valuesOpened)
		copy(to[4*half:], packed[2*half:][:scales])
		places[i] = i * size
	}
	return places
}

func unpackPortable(dst, src []byte, offset uint32) {
	add := byte(offset)
	for i := 0; i < len(src); i += packedLine {
		from, to := src[i:i+packedLine], dst[2*i:2*i+openedLine]
		for j, n := range from {
			to[j], to[packedLine+j] = n&15+add, n>>4+add
		}
	}
}
