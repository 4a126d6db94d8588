package local

import (
	"cmp"
	"encoding/hex"
	"fmt"

	"weir/configs"
	"weir/engine/gguf"
	"weir/engine/llamacpp"
	"weir/engine/llm"
	"weir/internal/cpu"
	"weir/internal/inference"
	"weir/tokenizer"
)

// OnLlamaCpp says whether a model is to be computed by llama.cpp.
func OnLlamaCpp(c configs.Config) bool { return c.Model.Engine == configs.LlamaCppEngine }

// Describe is what the chosen engine makes of a file, without reading weights. The error
// says why it would refuse the file.
func Describe(f *gguf.File, c configs.Config) (llm.Info, error) {
	switch {
	case OnLlamaCpp(c) && c.Engine.DraftPath != "":
		return llm.Info{}, fmt.Errorf("--engine %s: it takes no --speculative-model; leave one of them out", configs.LlamaCppEngine)
	case OnLlamaCpp(c) && c.Engine.MTP:
		return llm.Info{}, fmt.Errorf("--engine %s: it takes no --speculative-mtp; leave one of them out", configs.LlamaCppEngine)
	case OnLlamaCpp(c):
		return describeForLlamaCpp(f, c)
	}
	opts, err := EngineOptions(c)
	if err != nil {
		return llm.Info{}, err
	}
	if info, err := llm.Describe(f, opts); err != nil || info.Embeds {
		return info, err
	}
	done, err := OpenDraft(c, &opts)
	if err != nil {
		return llm.Info{}, err
	}
	defer done()
	return llm.Describe(f, opts)
}

// describeForLlamaCpp tells of a file what its metadata tell. Whether llama.cpp knows the
// architecture shows when it loads the file.
func describeForLlamaCpp(f *gguf.File, c configs.Config) (llm.Info, error) {
	switch {
	case !llamacpp.Linked:
		return llm.Info{}, fmt.Errorf("--engine %s: this weir was built without llama.cpp; see docs/llamacpp.md for how to build one with it",
			configs.LlamaCppEngine)
	case c.Model.Path == "":
		return llm.Info{}, fmt.Errorf("--engine %s: it reads files, and the built-in model is none; name a GGUF file", configs.LlamaCppEngine)
	}
	digest, err := f.Digest()
	if err != nil {
		return llm.Info{}, fmt.Errorf("digest model: %w", err)
	}
	architecture, _, err := f.String("general.architecture")
	if err != nil {
		return llm.Info{}, err
	}
	i := llm.Info{
		Architecture: architecture, Params: f.ParamCount(), FileBytes: f.FileBytes(), WeightBytes: f.FileBytes(),
		Digest: hex.EncodeToString(digest[:]), KVType: "f16", Threads: cmp.Or(c.Engine.Threads, cpu.Threads()),
	}
	for key, value := range map[string]*int{
		"block_count": &i.Layers, "embedding_length": &i.Width, "attention.head_count": &i.Heads, "attention.head_count_kv": &i.KVHeads,
		"context_length": &i.ContextLength,
	} {
		n, _, err := f.Uint(architecture + "." + key)
		if err != nil {
			return llm.Info{}, err
		}
		*value = int(min(n, 1<<31-1)) //nolint:gosec // bounded
	}
	i.MaxModelLen = cmp.Or(c.Scheduler.MaxModelLen, min(cmp.Or(i.ContextLength, llamacpp.DefaultModelLen), llamacpp.DefaultModelLen))
	i.KVTokens = i.MaxModelLen
	i.KVBytesPerToken = 2 * 2 * i.Layers * i.Width / max(i.Heads, 1) * cmp.Or(i.KVHeads, i.Heads) // keys and values, of 2 bytes each
	i.KVBytes = int64(i.KVTokens) * int64(i.KVBytesPerToken)
	return i, nil
}

// openLlamaCpp has llama.cpp read a model into memory.
func (m *Model) openLlamaCpp(c configs.Config, f *gguf.File) error {
	info, err := describeForLlamaCpp(f, c)
	if err != nil {
		return err
	}
	o := llamacpp.Options{
		Threads: info.Threads, MaxModelLen: info.MaxModelLen, MaxWaiting: c.Scheduler.MaxWaiting,
		Vocabulary: llamaCppVocabulary(m.Tokenizer),
	}
	for key, value := range map[string]*float32{"rope.freq_base": &o.RopeFreqBase, "rope.scale_linear": &o.RopeScale} {
		x, _, err := f.Float(info.Architecture + "." + key)
		if err != nil {
			return err
		}
		*value = float32(x)
	}
	if m.Llama, err = llamacpp.Open(c.Model.Path, o); err != nil {
		return LoadError(c.Model, err)
	}
	m.llamaInfo = info
	return nil
}

// llamaCppVocabulary translates ids for a library that takes and gives texts. It adds the
// token of the beginning by itself where the model wants one.
func llamaCppVocabulary(t *tokenizer.Tokenizer) llamacpp.Vocabulary {
	pieces, _ := t.Pieces()
	ids := make(map[string]inference.TokenID, len(pieces))
	for id, piece := range pieces {
		if len(piece) > 0 {
			ids[string(piece)] = inference.TokenID(id) //nolint:gosec // vocabularies are far smaller
		}
	}
	return llamacpp.Vocabulary{
		Text: func(prompt []inference.TokenID) string {
			if bos, ok := t.BOS(); ok && len(prompt) > 0 && prompt[0] == bos {
				prompt = prompt[1:]
			}
			return t.Decode(prompt, true)
		},
		Tokens: func(piece string) []inference.TokenID {
			if id, ok := ids[piece]; ok {
				return []inference.TokenID{id}
			}
			return t.AppendEncode(nil, piece, tokenizer.EncodeOptions{})
		},
	}
}
