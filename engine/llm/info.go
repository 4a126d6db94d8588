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
	KVTokens        int // that the cache holds
	KVBytesPerToken int
	KVBytes         int64
	WeightBytes     int64 // in memory
	Threads         int
}

// Describe reads what a file's metadata tell, and with opts the budget that
// Load would choose, without reading weights. The error says why Load would
// refuse the file.
func Describe(f *gguf.File, opts Options) (Info, error) {
	h, err := readHyper(f)
	if err != nil {
		return Info{}, err
	}
	l := &loader{f: f, claimed: make(map[string]bool, len(f.Tensors))}
	l.plan(h)
	if l.err != nil {
		return Info{}, l.err
	}
	weightBytes, err := l.arenaBytes()
	if err != nil {
		return Info{}, err
	}
	b, err := opts.plan(&h)
	if err != nil {
		return Info{}, err
	}
	return describe(f, &h, b, weightBytes, opts.threads())
}

func describe(f *gguf.File, h *hyper, b budget, weightBytes int64, threads int) (Info, error) {
	digest, err := f.Digest()
	if err != nil {
		return Info{}, fmt.Errorf("digest model: %w", err)
	}
	s := b.shape
	return Info{
		Architecture: h.arch.name, Name: h.name,
		Params: f.ParamCount(), FileBytes: f.FileBytes(), Digest: hex.EncodeToString(digest[:]),
		Layers: h.depth, Width: h.width, Heads: h.heads, KVHeads: h.kvHeads, HeadDim: h.headDim,
		FeedForward: h.ffn, VocabSize: h.vocab, ContextLength: h.context, Pooling: h.pooling,
		MaxModelLen: b.maxModelLen,
		KVType:      s.Type.String(), KVBlocks: s.Blocks - 1, BlockTokens: s.BlockTokens,
		KVTokens: (s.Blocks - 1) * s.BlockTokens, KVBytesPerToken: s.TokenBytes(),
		KVBytes:     int64(s.Blocks) * int64(s.BlockTokens*s.TokenBytes()),
		WeightBytes: weightBytes, Threads: threads,
	}, nil
}
