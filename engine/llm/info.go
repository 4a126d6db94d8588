package llm

import (
	"encoding/hex"
	"fmt"

	"weir/engine/gguf"
	"weir/internal/inference"
)

// Info describes a model and, once loaded, how it runs.
type Info struct {
	Architecture string
	Name         string // general.name, may be empty
	Params       uint64
	FileBytes    int64
	Digest       string // gguf.File.Digest in hexadecimal

	Layers        int
	Width         int
	Heads         int
	KVHeads       int
	HeadDim       int
	FeedForward   int
	VocabSize     int
	ContextLength int
	Pooling       inference.Pooling

	MaxModelLen     int
	KVType          string
	KVBlocks        int // usable ones
	BlockTokens     int
	KVTokens        int // tokens that the KV cache holds
	KVBytesPerToken int
	KVBytes         int64
	WeightBytes     int64 // in memory
	Threads         int
}

// Describe reads what a file's metadata tell, and with opts the budget that
// Open would choose, without reading weights. The error says why Open would
// refuse the file.
func Describe(f *gguf.File, opts Options) (Info, error) {
	o, err := readOutline(f, &opts)
	if err != nil {
		return Info{}, err
	}
	return o.describe(f, opts.threads())
}

func (o *outline) describe(f *gguf.File, threads int) (Info, error) {
	digest, err := f.Digest()
	if err != nil {
		return Info{}, fmt.Errorf("digest model: %w", err)
	}
	h, s := &o.hparams, o.budget.shape
	return Info{
		Architecture: h.arch.name, Name: h.name,
		Params: f.ParamCount(), FileBytes: f.FileBytes(), Digest: hex.EncodeToString(digest[:]),
		Layers: h.depth, Width: h.width, Heads: h.heads, KVHeads: h.kvHeads, HeadDim: h.headDim,
		FeedForward: h.ffn, VocabSize: h.vocab, ContextLength: h.context, Pooling: h.pooling,
		MaxModelLen: o.budget.maxModelLen,
		KVType:      s.Type.String(), KVBlocks: s.Blocks - 1, BlockTokens: s.BlockTokens,
		KVTokens: (s.Blocks - 1) * s.BlockTokens, KVBytesPerToken: s.TokenBytes(),
		KVBytes:     cacheBytes(s),
		WeightBytes: o.weightBytes, Threads: threads,
	}, nil
}
