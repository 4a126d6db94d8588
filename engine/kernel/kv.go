package kernel

import (
	"fmt"
	"strings"

	"weir/engine/gguf"
	"weir/kvcache"
)

// KVType is how keys and values are stored.
type KVType uint8

// KV types. F32 is for reference runs.
const (
	KVF16 KVType = iota
	KVQ8
	KVF32
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
	}
	return fmt.Sprintf("KVType(%d)", uint8(t))
}

// ParseKVType reads a flag; "auto" and "" are f16.
func ParseKVType(s string) (KVType, error) {
	switch strings.ToLower(s) {
	case "", "auto", "f16":
		return KVF16, nil
	case "q8_0":
		return KVQ8, nil
	case "f32":
		return KVF32, nil
	}
	return 0, fmt.Errorf("kv cache type %q is not known; use auto, f16, q8_0 or f32", s)
}

// weightType is the row format, shared with weights.
func (t KVType) weightType() gguf.Type {
	switch t {
	case KVQ8:
		return gguf.TypeQ8_0
	case KVF32:
		return gguf.TypeF32
	default:
		return gguf.TypeF16
	}
}

// KVShape fixes the size of a KV store.
type KVShape struct {
	Type        KVType
	Layers      int
	KVHeads     int
	HeadDim     int // of keys and of values
	BlockTokens int
	Blocks      int // ids in [0, Blocks); 0 is kvcache's null block
}

// rowBytes is the memory of one token's keys (or values) in one layer.
func (s KVShape) rowBytes() int {
	elems, size, _ := s.Type.weightType().Block()
	return s.KVHeads * s.HeadDim / elems * size
}

// TokenBytes is the memory of one token: keys and values of all layers.
func (s KVShape) TokenBytes() int { return 2 * s.Layers * s.rowBytes() }

// Check says whether heads of this size can be stored in this type.
func (s KVShape) Check() error {
	if elems, _, _ := s.Type.weightType().Block(); s.HeadDim%elems != 0 {
		return fmt.Errorf("kv cache type %v stores blocks of %d values and the model's heads have %d; use f16", s.Type, elems, s.HeadDim)
	}
	return nil
}

// KV holds the keys and values of every layer by block. Which block belongs
// to whom is kvcache's business; here a block is a place. Within a layer a
// block's tokens lie together, each token's heads one after another.
type KV struct {
	KVShape

	row        int // bytes
	headBytes  int
	keys, vals []byte // [layer][block][token][head]
	arena      *gguf.Arena
}

// NewKV reserves the store; pages that are never written cost nothing where
// the system commits memory lazily.
func NewKV(s KVShape) (*KV, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	half := s.Layers * s.Blocks * s.BlockTokens * s.rowBytes()
	arena, err := gguf.NewArena(int64(2*half) + 128)
	if err != nil {
		return nil, fmt.Errorf("reserve kv cache of %d bytes: %w", 2*half, err)
	}
	kv := &KV{KVShape: s, row: s.rowBytes(), headBytes: s.rowBytes() / s.KVHeads, arena: arena}
	if kv.keys, err = arena.Alloc(half, 64); err == nil {
		kv.vals, err = arena.Alloc(half, 64)
	}
	if err != nil {
		return nil, fmt.Errorf("reserve kv cache: %w", err)
	}
	return kv, nil
}

// Bytes is the reserved memory.
func (kv *KV) Bytes() int { return len(kv.keys) + len(kv.vals) }

// Close releases the memory; no use may follow.
func (kv *KV) Close() error { return kv.arena.Release() }

// at is the offset of a token's row.
func (kv *KV) at(layer int, block kvcache.BlockID, token int) int {
	return ((layer*kv.Blocks+int(block))*kv.BlockTokens + token) * kv.row
}

// Place is where one token's key and value are stored.
type Place struct {
	Block kvcache.BlockID
	Token int // within the block
}

// StoreKV writes keys and values, each [len(places)][KVHeads*HeadDim], of a
// layer to their places, no two of which are the same.
func (c *CPU) StoreKV(kv *KV, layer int, k, v []float32, places []Place) {
	c.store = storeJob{kv: kv, layer: layer, k: k, v: v, places: places}
	c.pool.Run(&c.store, len(places), grainMACs/(8*kv.KVHeads*kv.HeadDim)+1)
}

type storeJob struct {
	kv     *KV
	layer  int
	k, v   []float32
	places []Place
}

func (j *storeJob) Do(_, row int) {
	kv, n := j.kv, j.kv.KVHeads*j.kv.HeadDim
	o := kv.at(j.layer, j.places[row].Block, j.places[row].Token)
	encode(kv.Type, kv.keys[o:o+kv.row], j.k[row*n:(row+1)*n])
	encode(kv.Type, kv.vals[o:o+kv.row], j.v[row*n:(row+1)*n])
}

// CopyRows copies the first rows tokens of block src to dst in every layer.
func (kv *KV) CopyRows(src, dst kvcache.BlockID, rows int) {
	for l := range kv.Layers {
		s, d, n := kv.at(l, src, 0), kv.at(l, dst, 0), rows*kv.row
		copy(kv.keys[d:d+n], kv.keys[s:s+n])
		copy(kv.vals[d:d+n], kv.vals[s:s+n])
	}
}

func encode(t KVType, dst []byte, src []float32) {
	switch t {
	case KVF16:
		for i, v := range src {
			h := F32ToF16(v)
			dst[2*i], dst[2*i+1] = byte(h), byte(h>>8)
		}
	case KVQ8:
		QuantizeQ8_0(dst, src)
	case KVF32:
		copy(Floats(dst), src)
	}
}
