package attend

import (
	"encoding/binary"
	"math"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/pool"
	"weir/engine/kernel/vector"
	"weir/kvcache"
)

// Place is where one token's key and value are stored.
type Place struct {
	Block kvcache.BlockID
	Token int // within the block
}

// Store writes keys and values, each [len(places)][KVHeads*HeadDim], of a layer
// to their places, no two of which are the same.
func (a *Attention) Store(kv *KV, layer int, k, v []float32, places []Place) {
	a.store = storeJob{level: a.level, kv: kv, layer: layer, k: k, v: v, places: places}
	a.member.Run(&a.store, len(places), pool.GrainMACs/(8*kv.KVHeads*kv.HeadDim)+1)
}

type storeJob struct {
	level  isa.Level
	kv     *KV
	layer  int
	k, v   []float32
	places []Place
}

// Do stores one token. Another worker may be at another token of the same
// tile: they share cache lines, no byte.
func (j *storeJob) Do(_, row int) {
	kv, p := j.kv, j.places[row]
	if p.Token >= kv.BlockTokens {
		panic("kernel: token beyond its block")
	}
	for h := range kv.KVHeads {
		o := (row*kv.KVHeads + h) * kv.HeadDim
		t := kv.tile(j.layer, p.Block, h, p.Token)
		tile := kv.data[t : t+kv.tileSize]
		k, v := j.k[o:o+kv.HeadDim], j.v[o:o+kv.HeadDim]
		switch kv.Type {
		case KVQ8:
			kv.storeQ8(j.level, tile, k, v, p.Token%tileTokens)
		case KVF32:
			storeF32(tile, k, v, p.Token%tileTokens)
		default:
			storeF16(j.level, tile, k, v, p.Token%tileTokens)
		}
	}
}

func storeF32(tile []byte, k, v []float32, token int) {
	x := vector.Floats(tile)
	keys, vals := x[:tileTokens*len(k)], x[tileTokens*len(k):]
	for i, f := range k {
		keys[i*tileTokens+token] = f
	}
	copy(vals[token*len(v):], v)
}

func storeF16(level isa.Level, tile []byte, k, v []float32, token int) {
	keys, vals := tile[:2*tileTokens*len(k)], tile[2*tileTokens*len(k):]
	halve(level, vals[2*token*len(v):][:2*len(v)], v)
	var part [2 * blockValues]byte
	for i := 0; i < len(k); i += blockValues {
		x := k[i:min(i+blockValues, len(k))]
		halve(level, part[:2*len(x)], x)
		to := keys[2*(i*tileTokens+token):]
		for d := range x {
			to[2*d*tileTokens], to[2*d*tileTokens+1] = part[2*d], part[2*d+1]
		}
	}
}

// halve rounds x to float16 values, which it writes to dst, 2*len(x) bytes.
func halve(level isa.Level, dst []byte, x []float32) {
	n := len(x) &^ 7
	if n > 0 {
		halveEights(level, dst, x[:n])
	}
	halvePortable(dst[2*n:], x[n:])
}

func halvePortable(dst []byte, x []float32) {
	for i, f := range x {
		binary.LittleEndian.PutUint16(dst[2*i:], vector.F32ToF16(f))
	}
}

func (kv *KV) storeQ8(level isa.Level, tile []byte, k, v []float32, token int) {
	keys, vals := tile, tile[kv.valuesAt():]
	var codes [blockValues]int8
	for b := range kv.HeadDim / blockValues {
		scale := quantizeHalf(level, &codes, (*[blockValues]float32)(k[b*blockValues:]))
		binary.LittleEndian.PutUint16(tile[kv.keyScalesAt()+2*(b*tileTokens+token):], scale)
		to := keys[(b*blockValues/4*tileTokens+token)*4:]
		for i := range blockValues / 4 {
			c := codes[4*i : 4*i+4]
			word := uint32(uint8(c[0])) | uint32(uint8(c[1]))<<8 | uint32(uint8(c[2]))<<16 | uint32(uint8(c[3]))<<24
			binary.LittleEndian.PutUint32(to[i*tileTokens*4:], word^0x80808080)
		}
		scale = quantizeHalf(level, &codes, (*[blockValues]float32)(v[b*blockValues:]))
		binary.LittleEndian.PutUint16(tile[kv.valueScalesAt()+2*(b*tileTokens+token):], scale)
		to = vals[b*blockValues*tileTokens+token/4*4*blockValues+token%4:][:4*(blockValues-1)+1]
		for i, c := range codes {
			to[4*i] = byte(c)
		}
	}
}

// quantizeHalf gives codes in [-127,127] and the float16 scale that they are
// to be multiplied with. Codes are divided by the scale after its rounding, so
// that the rounding is not an error of its own. A block with a value that is
// not finite gets an infinite scale, which shows in every result it enters.
func quantizeHalf(level isa.Level, codes *[blockValues]int8, x *[blockValues]float32) uint16 {
	top := vector.AbsMax(level, x[:])
	if !(top <= math.MaxFloat32) {
		*codes = [blockValues]int8{1}
		return vector.F16Infinity
	}
	half := vector.F32ToF16(top / 127)
	quantize(level, codes, x, vector.F16ToF32(half))
	return half
}

// quantize divides x by scale and rounds to the nearest code, ties to even.
// A scale of zero stands for a block of zeros.
func quantize(level isa.Level, codes *[blockValues]int8, x *[blockValues]float32, scale float32) {
	inverse := float32(0)
	if scale > 0 {
		inverse = 1 / scale
	}
	quantizeBy(level, codes, x, inverse)
}

func quantizePortable(codes *[blockValues]int8, x *[blockValues]float32, inverse float32) {
	for i, v := range x {
		codes[i] = int8(max(-127, min(127, math.RoundToEven(float64(v*inverse)))))
	}
}
