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
	Block    kvcache.BlockID
	Token    int // within the block
	Position int // in the sequence
}

// Store writes keys and values, each [len(places)][KVHeads*HeadDim], of a layer
// to their places, no two of which are the same.
func (a *Attention) Store(kv *KV, layer int, k, v []float32, places []Place) {
	j := &a.store
	j.level, j.kv, j.layer, j.k, j.v, j.places = a.level, kv, layer, k, v, places
	if kv.Type.rounds() {
		j.reserve(a.member.Workers())
	}
	j.runs = j.runs[:0]
	for row, p := range places {
		if row == 0 || p.Block != places[row-1].Block || p.Token != places[row-1].Token+1 || p.Token%kv.part == 0 {
			j.runs = append(j.runs, row)
		}
	}
	runs := len(j.runs)
	j.runs = append(j.runs, len(places))
	rows := pool.GrainMACs/(8*kv.KVHeads*kv.HeadDim) + 1
	a.member.Run(j, runs, max(1, rows*runs/max(len(places), 1)))
}

// storeJob stores runs of rows that are neighbours in a tile. Their keys lie in the same
// cache lines, which two workers would take from each other.
type storeJob struct {
	level  isa.Level
	kv     *KV
	layer  int
	k, v   []float32
	places []Place
	runs   []int     // the first row of each, and the end
	turned []float32 // of q8_0 and q4_0: for each worker keys and values of tokens that share words, rotated
	scale  []float32 // of those rotations
}

// reserve makes room for rotated keys and values.
func (j *storeJob) reserve(workers int) {
	heads := valueTokens * j.kv.KVHeads
	if need := 2 * heads * j.kv.HeadDim * workers; len(j.turned) < need {
		j.turned = make([]float32, need)
	}
	for len(j.scale) < heads {
		j.scale = append(j.scale, 1)
	}
}

// Do stores one run. Where a tile's tokens are not in order another worker may be at
// the same tile: they share cache lines, no byte.
func (j *storeJob) Do(worker, run int) {
	kv, first, n := j.kv, j.runs[run], j.runs[run+1]-j.runs[run]
	p := j.places[first]
	if p.Token+n > kv.BlockTokens {
		panic("kernel: token beyond its block")
	}
	width, token := kv.KVHeads*kv.HeadDim, p.Token%kv.part
	if kv.Type.rounds() {
		for done := 0; done < n; {
			now := min(n-done, valueTokens-(token+done)%valueTokens)
			j.storeCodes(worker, kv.tile(j.layer, p.Block, 0, p.Token), token+done, rowRange{first + done, now})
			done += now
		}
		return
	}
	for h := range kv.KVHeads {
		t := kv.tile(j.layer, p.Block, h, p.Token)
		tile := kv.data[t : t+kv.tileSize]
		if kv.Type == KVF32 {
			storeF32(tile, tokenRows{j.k[first*width+h*kv.HeadDim:], width, n, kv.HeadDim}, j.v[first*width+h*kv.HeadDim:], token)
			continue
		}
		for i := range n {
			o := (first+i)*width + h*kv.HeadDim
			storeF16(j.level, tile, kv.part, j.k[o:o+kv.HeadDim], j.v[o:o+kv.HeadDim], token+i)
		}
	}
}

// rowRange is n rows of a batch from first on.
type rowRange struct{ first, n int }

// storeCodes rotates all heads of a few tokens that are neighbours, and stores them from token on in the tiles of heads of which
// the first is at offset at.
func (j *storeJob) storeCodes(worker, at, token int, rows rowRange) {
	kv := j.kv
	width, d := kv.KVHeads*kv.HeadDim, kv.HeadDim
	size := valueTokens * width
	own := j.turned[2*size*worker : 2*size*(worker+1)]
	k, v, scale := own[:rows.n*width], own[size:][:rows.n*width], j.scale[:rows.n*kv.KVHeads]
	fetch(j.level, j.k[rows.first*width:], len(k), 0, 1)
	fetch(j.level, j.v[rows.first*width:], len(v), 0, 1)
	keys, form := j.k[rows.first*width:][:len(k)], kv.form(j.layer)
	if form.apply(&kv.KVShape, k, keys, j.places[rows.first].Position/segmentTokens) {
		keys = k
	}
	rotate(j.level, k, keys, scale...)
	rotate(j.level, v, j.v[rows.first*width:][:len(v)], scale...)
	for h := range kv.KVHeads {
		tile := kv.data[at+h*kv.BlockTokens/tileTokens*kv.tileSize:][:kv.tileSize]
		if rows.n == valueTokens && kv.Type == KVQ8 && storeFourQ8(j.level, tile, kv, fourTokens{k[h*d:], v[h*d:], width, token}) {
			continue
		}
		for i := range rows.n {
			o := i*width + h*d
			if kv.Type == KVQ4 {
				kv.storeQ4(j.level, tile, k[o:o+d], v[o:o+d], token+i)
			} else {
				kv.storeQ8(j.level, tile, k[o:o+d], v[o:o+d], token+i)
			}
		}
	}
}

// fourTokens are a head's keys and values, rotated, of four tokens from token on, a multiple of four; each is width floats behind
// the one before.
type fourTokens struct {
	k, v  []float32
	width int
	token int // in the tile
}

// tokenRows are the keys of a head of n tokens, each width floats behind the one before.
type tokenRows struct {
	x        []float32
	width, n int
	headDim  int
}

// storeF32 stores the keys and, laid out as above, the values of tokens from token on.
func storeF32(tile []byte, k tokenRows, v []float32, token int) {
	x, d := vector.Floats(tile), k.headDim
	keys, vals := x[:tileTokens*d], x[tileTokens*d:]
	for i := range k.n {
		copy(vals[(token+i)*d:(token+i+1)*d], v[i*k.width:])
	}
	const block = 16 // elements whose lines stay in the first-level cache
	for lo := 0; lo < d; lo += block {
		hi := min(lo+block, d)
		for i := range k.n {
			from := k.x[i*k.width+lo : i*k.width+hi]
			to := keys[lo*tileTokens+token+i:]
			for e, f := range from {
				to[e*tileTokens] = f
			}
		}
	}
}

// storeF16 stores a key and a value in a tile of so many tokens.
func storeF16(level isa.Level, tile []byte, tokens int, k, v []float32, token int) {
	keys, vals := tile[:2*tokens*len(k)], tile[2*tokens*len(k):]
	halve(level, vals[2*token*len(v):][:2*len(v)], v)
	var part [2 * blockValues]byte
	for i := 0; i < len(k); i += blockValues {
		x := k[i:min(i+blockValues, len(k))]
		halve(level, part[:2*len(x)], x)
		to := keys[2*(i*tokens+token):]
		for d := range x {
			to[2*d*tokens], to[2*d*tokens+1] = part[2*d], part[2*d+1]
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

// storeQ8 stores a key and a value that are rotated.
func (kv *KV) storeQ8(level isa.Level, tile []byte, k, v []float32, token int) {
	keys, vals := tile, tile[kv.valuesAt():]
	var codes blockCodes
	for b := range kv.HeadDim / blockValues {
		scale := quantizeHalf(level, &codes, (*[blockValues]float32)(k[b*blockValues:]))
		binary.LittleEndian.PutUint16(tile[kv.keyScalesAt()+2*(b*tileTokens+token):], scale)
		to := keys[(b*blockValues/4*tileTokens+token)*4:]
		for i := range blockValues / 4 {
			binary.LittleEndian.PutUint32(to[i*tileTokens*4:], codes.word(i)^0x80808080)
		}
		scale = quantizeHalf(level, &codes, (*[blockValues]float32)(v[b*blockValues:]))
		binary.LittleEndian.PutUint16(tile[kv.valueScalesAt()+2*(b*tileTokens+token):], scale)
		to = vals[b*blockValues*tileTokens+token/4*4*blockValues+token%4:][:4*(blockValues-1)+1]
		for i, c := range codes {
			to[4*i] = byte(c)
		}
	}
}

// blockCodes are the codes of 32 values.
type blockCodes [blockValues]int8

// word is codes 4*i to 4*i+3, the first one the lowest byte.
func (c *blockCodes) word(i int) uint32 {
	four := c[4*i : 4*i+4]
	return uint32(uint8(four[0])) | uint32(uint8(four[1]))<<8 | uint32(uint8(four[2]))<<16 | uint32(uint8(four[3]))<<24
}

// sum adds up all codes: as bytes without a sign, two by two in the halves of a word.
func (c *blockCodes) sum() int32 {
	total := uint32(0)
	for i := range blockValues / 4 {
		w := c.word(i) ^ 0x80808080
		total += w&0x00ff00ff + w>>8&0x00ff00ff
	}
	return int32(total&0xffff+total>>16) - 128*blockValues
}

// quantizeHalf gives codes in [-127,127] and the float16 scale that they are
// to be multiplied with. Codes are divided by the scale after its rounding, so
// that the rounding is not an error of its own. A block with a value that is
// not finite gets an infinite scale, which shows in every result it enters.
func quantizeHalf(level isa.Level, codes *blockCodes, x *[blockValues]float32) uint16 {
	top := vector.AbsMax(level, x[:])
	if !(top <= math.MaxFloat32) {
		*codes = blockCodes{1}
		return vector.F16Infinity
	}
	half := vector.F32ToF16(top / 127)
	quantize(level, codes, x, vector.F16ToF32(half))
	return half
}

// quantize divides x by scale and rounds to the nearest code, ties to even.
// A scale of zero stands for a block of zeros.
func quantize(level isa.Level, codes *blockCodes, x *[blockValues]float32, scale float32) {
	inverse := float32(0)
	if scale > 0 {
		inverse = 1 / scale
	}
	quantizeBy(level, codes, x, inverse)
}

func quantizePortable(codes *blockCodes, x *[blockValues]float32, inverse float32) {
	for i, v := range x {
		codes[i] = int8(max(-127, min(127, math.RoundToEven(float64(v*inverse)))))
	}
}
