package attend

import (
	"errors"
	"fmt"
	"strings"

	"weir/kvcache"
)

// KVType is how keys and values are stored.
type KVType uint8

// KV types. F32 is for reference runs; Auto is no layout: [KVType.For] chooses one.
const (
	KVF16 KVType = iota
	KVQ8
	KVF32
	KVQ4
	KVAuto
)

// String gives the flag's spelling.
func (t KVType) String() string {
	switch t {
	case KVF16:
		return "f16"
	case KVQ8:
		return "q8_0"
	case KVF32:
		return "f32"
	case KVQ4:
		return "q4_0"
	case KVAuto:
		return "auto"
	}
	return fmt.Sprintf("KVType(%d)", uint8(t))
}

// Layout names how keys and values of the type are stored. It is part of what prefix hashes begin with, and changes whenever
// the same keys are stored otherwise.
func (t KVType) Layout() string {
	if t.rounds() {
		return t.String() + "/2"
	}
	return t.String()
}

// rounds reports whether keys and values are integers that share scales.
func (t KVType) rounds() bool { return t == KVQ8 || t == KVQ4 }

// leastRotated is how many values must be rotated together for Auto to take q8_0:
// with fewer, outliers are spread too little.
const leastRotated = 64

// For is the type for heads of so many values: Auto is q8_0 where they are rotated 64 or more
// together, and f16 elsewhere. q8_0 halves memory and the time of long contexts,
// and costs 0.0001 to 0.00025 nats on the models that were measured (docs/rfcs/20261123-rotated-cache.md).
func (t KVType) For(headDim int) KVType {
	switch {
	case t != KVAuto:
		return t
	case rotated(headDim) >= leastRotated:
		return KVQ8
	}
	return KVF16
}

// ParseKVType reads a flag; "" is "auto".
func ParseKVType(s string) (KVType, error) {
	switch strings.ToLower(s) {
	case "", "auto":
		return KVAuto, nil
	case "f16":
		return KVF16, nil
	case "q8_0":
		return KVQ8, nil
	case "q4_0":
		return KVQ4, nil
	case "f32":
		return KVF32, nil
	}
	return 0, fmt.Errorf("kv cache type %q is not known; use auto, f16, q8_0, q4_0 or f32", s)
}

// blockValues is how many values of a token share a scale in q8_0.
const blockValues = 32

// tileTokens is how many tokens of one head lie together: the lanes of a wide
// register, each lane one token's score.
const tileTokens = 16

// valueTokens is how many tokens' codes of one value lie in a word of q8_0.
const valueTokens = 4

// ErrKVShape is wrapped by errors about stores that cannot be laid out.
var ErrKVShape = errors.New("bad kv cache shape")

// KVShape fixes the size of what one block table names in a KV store.
type KVShape struct {
	Type        KVType
	Layers      int // places of layers in a page
	KVHeads     int
	HeadDim     int // of keys and of values
	BlockTokens int // a multiple of 16
	Blocks      int // ids in [0, Blocks); 0 is kvcache's null block
}

// tileBytes is the memory of sixteen tokens' keys and values of one head.
func (s KVShape) tileBytes() int {
	switch s.Type {
	case KVQ8:
		return openedBytes(s.HeadDim)
	case KVQ4:
		return openedBytes(s.HeadDim) - s.packedCodes()
	case KVF32:
		return 2 * tileTokens * s.HeadDim * 4
	default:
		return 2 * tileTokens * s.HeadDim * 2
	}
}

// TokenBytes is the memory of one token: keys and values of all layers.
func (s KVShape) TokenBytes() int { return s.Layers * s.KVHeads * s.tileBytes() / tileTokens }

// blockBytes is the memory of a block in one layer.
func (s KVShape) blockBytes() int { return s.KVHeads * (s.BlockTokens / tileTokens) * s.tileBytes() }

// Check says whether heads of this size can be stored in this type, in blocks
// of this size.
func (s KVShape) Check() error {
	switch {
	case s.Type >= KVAuto:
		return fmt.Errorf("%w: type %v is no layout", ErrKVShape, s.Type)
	case s.KVHeads < 1 || s.HeadDim < 1 || s.Layers < 0 || s.Blocks < 0:
		return fmt.Errorf("%w: %d blocks of %d layers, each with %d heads of %d values", ErrKVShape, s.Blocks, s.Layers, s.KVHeads, s.HeadDim)
	case s.Type.rounds() && s.HeadDim%blockValues != 0:
		return fmt.Errorf("%w: type %v stores blocks of %d values and the model's heads have %d; use f16",
			ErrKVShape, s.Type, blockValues, s.HeadDim)
	case s.BlockTokens < tileTokens || s.BlockTokens%tileTokens != 0:
		return fmt.Errorf("%w: blocks of %d tokens; --block-size must be a multiple of %d", ErrKVShape, s.BlockTokens, tileTokens)
	}
	return nil
}

// KV is a block table's view of the pages of a store: its layers are alike, and each has a place in every page that the table
// names. Within a place each head has its tiles of sixteen tokens, laid out as the attention kernels read them (see
// [KV.tile]):
//
//	f32, f16  keys [headDim][16], values [16][headDim]
//	q8_0      keys [headDim/4][16][4], values [headDim/32][4][32][4],
//	          key scales [headDim/32][16], value scales [headDim/32][16]
//	q4_0      the same, two codes in a byte (see nibbles.go)
//
// Keys of q8_0 and q4_0 are in the form of the layer, see [KeyForm].
//
// In keys the tokens are neighbours, so that one register holds a product's
// terms of sixteen scores. Codes of q8_0 lie in groups of the four that
// VPDPBUSD adds up, and keys and values are rotated (see rotate.go): of keys four values of a token, of values four tokens. It
// takes one unsigned operand: keys are kept plus 128, values meet weights, which
// have no sign. Scales are float16, one for 32 values of a token. What lies at
// tokens that were never stored is arbitrary and never enters a result.
type KV struct {
	KVShape

	part      int       // tokens of a stored tile: tileTokens, or fewer (see fine.go)
	tileSize  int       // bytes
	blockSize int       // bytes: the tiles of all heads of a block in a layer
	pageSize  int       // bytes
	data      []byte    // of all pages: [page][layer][head][tile]
	forms     []keyForm // of layers; nil: keys are stored as they are
}

// block is the offset of a block's tiles of all heads.
func (kv *KV) block(layer int, block kvcache.BlockID) int {
	return int(block)*kv.pageSize + layer*kv.blockSize
}

// tile is the offset of the tile that holds a token of a block.
func (kv *KV) tile(layer int, block kvcache.BlockID, head, token int) int {
	return kv.block(layer, block) + (head*(kv.BlockTokens/kv.part)+token/kv.part)*kv.tileSize
}

// Offsets of a tile's parts from its beginning, in bytes; of q4_0, of a tile that is open. Keys come first.

func (kv *KV) valuesAt() int {
	switch kv.Type {
	case KVQ8, KVQ4:
		return tileTokens * kv.HeadDim
	case KVF32:
		return tileTokens * kv.HeadDim * 4
	default:
		return tileTokens * kv.HeadDim * 2
	}
}

func (kv *KV) keyScalesAt() int   { return 2 * tileTokens * kv.HeadDim }
func (kv *KV) valueScalesAt() int { return 2*tileTokens*kv.HeadDim + kv.HeadDim }

// CopyRows copies the first rows tokens of block src to dst in every layer of the table;
// what dst holds at later tokens is arbitrary after that.
func (kv *KV) CopyRows(src, dst kvcache.BlockID, rows int) {
	tiles := (rows + kv.part - 1) / kv.part
	for l := range kv.Layers {
		for h := range kv.KVHeads {
			s, d, n := kv.tile(l, src, h, 0), kv.tile(l, dst, h, 0), tiles*kv.tileSize
			copy(kv.data[d:d+n], kv.data[s:s+n])
		}
	}
}
