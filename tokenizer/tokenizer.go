// Package tokenizer turns text into token ids and back, for the vocabularies
// that GGUF files carry: byte-level BPE ("gpt2"), SentencePiece ("llama") and
// WordPiece ("bert"). It needs no model: New reads metadata by key.
package tokenizer

import "errors"

// Span is a stretch of prompt text. Text of a Control span (from a chat
// template, or where the caller asked for it) may become special tokens;
// other text never does.
type Span struct {
	Text    string
	Control bool
}

// EncodeOptions says what AppendEncode adds and recognises.
type EncodeOptions struct {
	AddSpecial   bool // add the tokens that the vocabulary puts around a text (BOS, EOS, [CLS], [SEP])
	ParseSpecial bool // text such as "<|eot_id|>" becomes the control token of that name
}

// Tokenizer is immutable after New and safe for concurrent use.
type Tokenizer struct{}

// New builds a tokenizer from GGUF metadata, asked for by key
// ("tokenizer.ggml.model" and others).
func New(value func(key string) (any, bool)) (*Tokenizer, error) {
	return nil, errors.New("tokenizer: under construction")
}

// AppendEncode appends the ids of text to dst.
func (t *Tokenizer) AppendEncode(dst []int32, text string, o EncodeOptions) []int32 { return dst }

// AppendSpans appends the ids of a prompt made of spans of different trust.
func (t *Tokenizer) AppendSpans(dst []int32, spans []Span, addSpecial bool) []int32 { return dst }

// AppendPiece appends the bytes of one token; control tokens give nothing
// unless special is set.
func (t *Tokenizer) AppendPiece(dst []byte, id int32, special bool) []byte { return dst }

// Decode gives the text of ids.
func (t *Tokenizer) Decode(ids []int32, special bool) string { return "" }

// Size is the number of tokens in the vocabulary.
func (t *Tokenizer) Size() int { return 0 }

// IsEOG tells whether a token ends a generation.
func (t *Tokenizer) IsEOG(id int32) bool { return false }

// EOG lists the tokens that end a generation, ascending.
func (t *Tokenizer) EOG() []int32 { return nil }

// BOS is the token that begins a text.
func (t *Tokenizer) BOS() (int32, bool) { return 0, false }

// EOS is the token that ends a text.
func (t *Tokenizer) EOS() (int32, bool) { return 0, false }

// AddsBOS tells whether AddSpecial puts BOS (or [CLS]) before a text.
func (t *Tokenizer) AddsBOS() bool { return false }

// IsControl tells whether a token is a control token.
func (t *Tokenizer) IsControl(id int32) bool { return false }

// TokenText is the raw vocabulary entry of a token.
func (t *Tokenizer) TokenText(id int32) string { return "" }

// ID finds a token by its raw vocabulary entry.
func (t *Tokenizer) ID(text string) (int32, bool) { return 0, false }

// Kind is the value of tokenizer.ggml.model: "gpt2", "llama" or "bert".
func (t *Tokenizer) Kind() string { return "" }

// Decoder turns a stream of ids into a stream of whole UTF-8 runes. It is for
// one stream and one goroutine.
type Decoder struct{}

// NewDecoder returns a decoder; special makes control tokens visible.
func (t *Tokenizer) NewDecoder(special bool) *Decoder { return &Decoder{} }

// Append appends the text that id completes. At most 3 bytes are held back.
func (d *Decoder) Append(dst []byte, id int32) []byte { return dst }

// Flush appends what is held back, as U+FFFD.
func (d *Decoder) Flush(dst []byte) []byte { return dst }

// Encoding counts and encodes text of an OpenAI-family model.
type Encoding struct{}

// Name is the encoding's name, such as "o200k_base".
func (e *Encoding) Name() string { return "" }

// Count is the number of tokens of text; nothing in it is special.
func (e *Encoding) Count(text string) (int, error) { return 0, nil }

// AppendEncode appends the ids of text; nothing in it is special.
func (e *Encoding) AppendEncode(dst []int32, text string) ([]int32, error) { return dst, nil }

// Counter counts tokens for OpenAI-family models by name, offline.
type Counter struct{}

// NewCounter returns a counter that reads vocabulary files from dir, or those
// built into the program where dir is empty.
func NewCounter(dir string) *Counter { return &Counter{} }

// CountFor finds the encoding of a model by name (gpt-4o, o3, gpt-4, …).
func (c *Counter) CountFor(model string) (*Encoding, bool) { return nil, false }
