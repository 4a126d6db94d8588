package attend

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/vector"
)

// An open tile has the layout of q8_0, with the codes and scales that were stored, whatever lay there before.
func TestOpenedTilesHoldWhatWasStored(t *testing.T) {
	for _, level := range isa.Levels() {
		for _, dim := range []int{32, 64, 96, 128} {
			r := rand.New(rand.NewPCG(11, uint64(dim)))
			kv := newKV(t, KVQ4, 16, 3, 1, dim)
			for i := range kv.data {
				kv.data[i] = byte(r.Uint32())
			}
			k, v := randoms(r, tileTokens*dim), randoms(r, tileTokens*dim)
			tile := kv.tile(0, 1, 0, 0)
			for _, token := range r.Perm(tileTokens) {
				kv.storeQ4(level, kv.data[tile:tile+kv.tileSize], k[token*dim:(token+1)*dim], v[token*dim:(token+1)*dim], token)
			}
			w := &attendWork{attendJob: &attendJob{Query: Query{KV: kv}, level: level}}
			w.reserve(laneStep, kv)
			places := w.open([]int{kv.tile(0, 2, 0, 0), tile})
			open := w.opened[places[1]:][:openedBytes(dim)]
			for token := range tileTokens {
				checkOpened(t, kv, open, token, k[token*dim:], v[token*dim:])
			}
		}
	}
}

// checkOpened compares a token's codes and scales in a tile of q8_0 with those of its key and value.
func checkOpened(t *testing.T, kv *KV, open []byte, token int, k, v []float32) {
	t.Helper()
	var codes blockCodes
	for b := range kv.HeadDim / blockValues {
		half := quantizeNibbles(isa.Portable, &codes, (*[blockValues]float32)(k[b*blockValues:]))
		if got := binary.LittleEndian.Uint16(open[kv.keyScalesAt()+2*(b*tileTokens+token):]); got != half {
			t.Fatalf("token %d: scale %#x of a key, want %#x", token, got, half)
		}
		for i, c := range codes {
			d := b*blockValues + i
			if got := open[(d/4*tileTokens+token)*4+d%4]; got != byte(int(c)+128) {
				t.Fatalf("dim %d, token %d, key %d: %d, want %d", kv.HeadDim, token, d, got, int(c)+128)
			}
		}
		half = quantizeNibbles(isa.Portable, &codes, (*[blockValues]float32)(v[b*blockValues:]))
		if got := binary.LittleEndian.Uint16(open[kv.valueScalesAt()+2*(b*tileTokens+token):]); got != half {
			t.Fatalf("token %d: scale %#x of a value, want %#x", token, got, half)
		}
		for i, c := range codes {
			if got := int8(open[kv.valuesAt()+b*blockValues*tileTokens+token/4*4*blockValues+4*i+token%4]); got != c {
				t.Fatalf("dim %d, token %d, value %d: %d, want %d", kv.HeadDim, token, b*blockValues+i, got, c)
			}
		}
	}
}

// A value is at most half of a step from its code, the largest of both signs included, except for the rounding of the scale.
func TestNibblesAreNearest(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	for range 1000 {
		x := (*[blockValues]float32)(randoms(r, blockValues))
		var codes blockCodes
		scale := vector.F16ToF32(quantizeNibbles(isa.Portable, &codes, x))
		for i, v := range x {
			if d := v - scale*float32(codes[i]); d > 0.504*scale || d < -0.504*scale {
				t.Fatalf("%v stored as %d * %v", v, codes[i], scale)
			}
		}
	}
}
