package models

import (
	"sync"

	"weir/tokenizer"
	"weir/tokenizer/grammar"
)

// Vocabulary is a tokenizer's vocabulary as grammars see it. It is built for the first
// request that needs it, within a tenth of a second for 128k tokens.
type Vocabulary struct{ Build func() *grammar.Vocabulary }

// NewVocabulary is that of a tokenizer; the vocabulary keeps the tokenizer's memory.
func NewVocabulary(t *tokenizer.Tokenizer) *Vocabulary {
	return &Vocabulary{sync.OnceValue(func() *grammar.Vocabulary {
		v := grammar.NewVocabulary(t.Pieces())
		v.SetEncoder(func(dst []int32, text string) []int32 { return t.AppendEncode(dst, text, tokenizer.EncodeOptions{}) })
		return v
	})}
}
