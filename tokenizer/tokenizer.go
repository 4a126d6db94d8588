// Package tokenizer turns text into token ids and back, for the vocabularies
// that GGUF files carry: byte-level BPE ("gpt2"), SentencePiece's BPE ("llama"), that with a list
// of merges ("gemma4"), its unigram scheme ("t5"), and WordPiece ("bert"). It needs no model: New reads metadata by key.
//
// Text of a client never becomes a control token: special tokens are
// recognised only where the caller says so, and no merge makes one.
package tokenizer

import (
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Values of tokenizer.ggml.model.
const (
	kindBytePair      = "gpt2"
	kindSentencePiece = "llama"
	kindWordPiece     = "bert"
	kindUnigram       = "t5"
	kindEscaped       = "gemma4"
)

// Span is a stretch of prompt text. Text of a Control span (from a chat
// template, or where the caller asked for it) may become special tokens;
// other text never does.
type Span struct {
	Text    string
	Control bool
}

// EncodeOptions says what AppendEncode and AppendSpans add and recognise, and
// when they stop.
type EncodeOptions struct {
	AddSpecial   bool // add the tokens that the vocabulary puts around a text (BOS, EOS, [CLS], [SEP])
	ParseSpecial bool // text such as "<|eot_id|>" becomes the control token of that name; AppendSpans goes by Span.Control instead

	// Limit, if above 0, ends the call early: a text that has more than Limit
	// ids gives its first ids, more than Limit of them but perhaps not all.
	Limit int
	// Pause, if not nil, is called between slices of about a millisecond of
	// work, and may sleep. If it returns false the call ends, and the ids
	// are incomplete and must not be used.
	Pause func() bool
}

// Tokenizer is immutable after New and safe for concurrent use.
type Tokenizer struct {
	vocabulary   *vocabulary
	specials     *specials
	model        model
	pieces       *pieces
	floor        floor
	leadingSpace bool // texts are encoded as if a space came first
	scratches    sync.Pool
}

// model encodes ordinary text, which holds no special tokens. first tells that
// the text begins the prompt or follows a special token.
type model interface {
	appendText(dst []int32, text string, first bool, s *scratch) []int32
}

// scratch is the working memory of one call, reused by later calls, and what
// the call may do.
type scratch struct {
	merger merger
	word   []byte
	nodes  []cutNode
	pace
	most int // length of dst beyond which the call ends; 0 is none
}

// begin prepares for a call that appends to dst.
func (s *scratch) begin(dst []int32, o EncodeOptions) {
	s.pace, s.most = newPace(o.Pause), 0
	if o.Limit > 0 {
		s.most = len(dst) + o.Limit
	}
}

// more pays for one more piece after dst; false means that the call is to end.
func (s *scratch) more(dst []int32) bool { return s.fits(dst) && s.spend(pieceWork) }

// fits reports whether dst is within the caller's limit; the call goes on until
// dst is longer, so that the caller can see that the text exceeds the limit.
func (s *scratch) fits(dst []int32) bool { return s.most == 0 || len(dst) <= s.most }

// maxScratchSymbols bounds what an idle tokenizer keeps after a huge prompt.
const maxScratchSymbols = 1 << 15

// New builds a tokenizer from GGUF metadata, asked for by key
// ("tokenizer.ggml.model" and others). Values are of the Go types that GGUF
// types map to; integers may have any width. Kinds and pre-tokenizers that are
// not supported are refused by name.
func New(value func(key string) (any, bool)) (*Tokenizer, error) {
	m := metadata{value}
	kind, err := m.text("tokenizer.ggml.model")
	if err != nil {
		return nil, err
	}
	if kind == "" {
		return nil, errors.New("read tokenizer: tokenizer.ggml.model is missing; the file carries no tokenizer")
	}
	t := new(Tokenizer)
	switch kind {
	case kindBytePair:
		err = t.buildBytePair(m)
	case kindSentencePiece:
		err = t.buildSentencePiece(m)
	case kindWordPiece:
		err = t.buildWordPiece(m)
	case kindUnigram:
		err = t.buildUnigram(m)
	case kindEscaped:
		err = t.buildEscaped(m)
	default:
		err = fmt.Errorf("read tokenizer.ggml.model: tokenizer %q is not supported; known are %s, %s, %s, %s and %s",
			kind, kindBytePair, kindSentencePiece, kindWordPiece, kindUnigram, kindEscaped)
	}
	if err != nil {
		return nil, err
	}
	name, err := m.text("general.name")
	if err != nil {
		return nil, err
	}
	if t.specials, err = newSpecials(t.vocabulary, name); err != nil {
		return nil, err
	}
	t.pieces, t.floor = newPieces(t.vocabulary), newFloor(t)
	t.scratches.New = func() any { return new(scratch) }
	return t, nil
}

// readKind reads what every kind has.
func (t *Tokenizer) readKind(m metadata, kind, pre string, d specialDefaults) error {
	v, err := readVocabulary(m, kind, pre)
	if err != nil {
		return err
	}
	t.vocabulary = v
	return v.readSpecials(m, d)
}

func (t *Tokenizer) buildBytePair(m metadata) error {
	name, err := m.text("tokenizer.ggml.pre")
	if err != nil {
		return err
	}
	if name == preWords {
		return t.buildWords(m)
	}
	pre, err := preTokenizerFor(name)
	if err != nil {
		return err
	}
	d := specialDefaults{bos: none, eos: none, unknown: none, separator: none, addBOS: pre.addsBOS}
	if err := t.readKind(m, kindBytePair, name, d); err != nil {
		return err
	}
	t.model, err = newBytePair(t.vocabulary, m, pre)
	return err
}

func (t *Tokenizer) buildSentencePiece(m metadata) error {
	d := specialDefaults{bos: 1, eos: 2, unknown: 0, separator: none, addBOS: true}
	if err := t.readKind(m, kindSentencePiece, "", d); err != nil {
		return err
	}
	p, err := newSentencePiece(t.vocabulary, m)
	if err != nil {
		return err
	}
	t.model, t.leadingSpace = p, p.spacePrefix
	return nil
}

func (t *Tokenizer) buildWordPiece(m metadata) (err error) {
	d := specialDefaults{bos: 101, eos: none, unknown: 100, separator: 102, addBOS: true, addSeparator: true}
	if err := t.readKind(m, kindWordPiece, "", d); err != nil {
		return err
	}
	t.leadingSpace = true
	t.model, err = newWordPiece(t.vocabulary, m)
	return err
}

func (t *Tokenizer) buildUnigram(m metadata) error {
	d := specialDefaults{bos: none, eos: 1, unknown: 2, separator: none, addEOS: true}
	if err := t.readKind(m, kindUnigram, "", d); err != nil {
		return err
	}
	u, err := newUnigram(t.vocabulary, m)
	if err != nil {
		return err
	}
	t.model, t.leadingSpace = u, u.prefix
	return nil
}

// buildEscaped adds the beginning token whatever the file says, as llama.cpp does: files that deny it are converters' mistakes.
func (t *Tokenizer) buildEscaped(m metadata) (err error) {
	d := specialDefaults{bos: none, eos: none, unknown: none, separator: none, addBOS: true}
	if err := t.readKind(m, kindEscaped, "", d); err != nil {
		return err
	}
	t.vocabulary.addBOS = t.vocabulary.bos != none
	t.model, err = newEscaped(t.vocabulary, m)
	return err
}

// preWords is the pre-tokenizer of mmBERT.
const preWords = "mmbert"

func (t *Tokenizer) buildWords(m metadata) (err error) {
	d := specialDefaults{bos: none, eos: none, unknown: none, separator: none}
	if err := t.readKind(m, kindEscaped, preWords, d); err != nil {
		return err
	}
	t.leadingSpace = true
	t.model, err = newListed(t.vocabulary, m, true)
	return err
}

// AppendEncode appends the ids of text to dst.
func (t *Tokenizer) AppendEncode(dst []int32, text string, o EncodeOptions) []int32 {
	run := [1]trustSpan{{end: len(text), control: o.ParseSpecial}}
	return t.appendRuns(dst, text, run[:], o)
}

// AppendSpans appends the ids of a prompt made of spans of different trust. It
// is the encoding of their concatenation, so ordinary text is cut the same
// wherever spans meet, except that a special token must lie within spans of
// one trust: control tokens within Control spans, user-defined tokens of the
// vocabulary within either.
func (t *Tokenizer) AppendSpans(dst []int32, spans []Span, o EncodeOptions) []int32 {
	if len(spans) == 1 {
		o.ParseSpecial = spans[0].Control
		return t.AppendEncode(dst, spans[0].Text, o)
	}
	var text strings.Builder
	size := 0
	for _, s := range spans {
		size += len(s.Text)
	}
	text.Grow(size)
	runs := make([]trustSpan, 0, len(spans))
	for _, s := range spans {
		text.WriteString(s.Text)
		if n := len(runs); n > 0 && runs[n-1].control == s.Control {
			runs[n-1].end = text.Len()
			continue
		}
		runs = append(runs, trustSpan{end: text.Len(), control: s.Control})
	}
	return t.appendRuns(dst, text.String(), runs, o)
}

// trustSpan is a stretch of a prompt of one trust; it starts where the one
// before ends.
type trustSpan struct {
	end     int
	control bool
}

func (t *Tokenizer) appendRuns(dst []int32, text string, runs []trustSpan, o EncodeOptions) []int32 {
	s := t.scratches.Get().(*scratch)
	s.begin(dst, o)
	v := t.vocabulary
	if o.AddSpecial && v.addBOS {
		dst = append(dst, v.bos)
	}
	dst = t.appendPrompt(dst, text, runs, s)
	if o.AddSpecial && v.addEOS {
		dst = append(dst, v.eos)
	}
	if o.AddSpecial && v.addSeparator && v.kind == kindWordPiece {
		dst = append(dst, v.separator)
	}
	if cap(s.merger.symbols) > maxScratchSymbols {
		s.merger = merger{}
	}
	if cap(s.word) > maxScratchSymbols {
		s.word = nil
	}
	if cap(s.nodes) > maxScratchSymbols {
		s.nodes = nil
	}
	s.pace = pace{}
	t.scratches.Put(s)
	return dst
}

// appendPrompt splits text at special tokens and encodes what lies between.
func (t *Tokenizer) appendPrompt(dst []int32, text string, runs []trustSpan, s *scratch) []int32 {
	start, at, first := 0, 0, true
	for _, run := range runs {
		matcher := &t.specials.client
		if run.control {
			matcher = &t.specials.trusted
		}
		for at < run.end && s.more(dst) {
			id, from, to, ok := matcher.find(text, at, run.end)
			if !ok {
				at = run.end
				break
			}
			from, to = t.stripAround(id, text, start, from, to)
			if from > start {
				dst = t.model.appendText(dst, text[start:from], first, s)
			}
			dst = append(dst, id)
			start, at, first = to, to, true
		}
	}
	if start < len(text) && s.more(dst) {
		dst = t.model.appendText(dst, text[start:], first, s)
	}
	return dst
}

// stripAround widens a special token at text[from:to] by the white space that
// belongs to it; start is where the text before it starts.
func (t *Tokenizer) stripAround(id int32, text string, start, from, to int) (int, int) {
	strips := t.specials.strips[id]
	for strips&stripLeft != 0 && from > start && isASCIISpace(text[from-1]) {
		from--
	}
	for strips&stripRight != 0 && to < len(text) && isASCIISpace(text[to]) {
		to++
	}
	return from, to
}

// Size is the number of tokens in the vocabulary.
func (t *Tokenizer) Size() int { return len(t.vocabulary.texts) }

// IsEOG reports whether a token ends a generation.
func (t *Tokenizer) IsEOG(id int32) bool { return t.vocabulary.endsGeneration[id] }

// EOG lists the tokens that end a generation, ascending. The caller must not
// change it.
func (t *Tokenizer) EOG() []int32 { return t.vocabulary.eog }

// BOS is the token that begins a text ([CLS] for WordPiece).
func (t *Tokenizer) BOS() (int32, bool) { return t.vocabulary.bos, t.vocabulary.bos != none }

// EOS is the token that ends a text.
func (t *Tokenizer) EOS() (int32, bool) { return t.vocabulary.eos, t.vocabulary.eos != none }

// BoundaryTexts are the texts of BOS and EOS, which chat templates may write;
// empty where the vocabulary has none.
func (t *Tokenizer) BoundaryTexts() (bos, eos string) {
	return t.TokenText(t.vocabulary.bos), t.TokenText(t.vocabulary.eos)
}

// Unknown is the token for text that the vocabulary cannot spell.
func (t *Tokenizer) Unknown() (int32, bool) {
	return t.vocabulary.unknown, t.vocabulary.unknown != none
}

// Padding is the token that pads the texts of a batch to one length.
func (t *Tokenizer) Padding() (int32, bool) {
	return t.vocabulary.padding, t.vocabulary.padding != none
}

// AddsEOS reports whether AddSpecial puts EOS after a text.
func (t *Tokenizer) AddsEOS() bool { return t.vocabulary.addEOS }

// AddsBOS reports whether AddSpecial puts BOS before a text.
func (t *Tokenizer) AddsBOS() bool { return t.vocabulary.addBOS }

// IsControl reports whether a token is a control token, which ordinary text
// never becomes and which has no text unless special tokens are asked for.
func (t *Tokenizer) IsControl(id int32) bool {
	return t.vocabulary.has(id) && t.vocabulary.types[id] == typeControl
}

// TokenText is the raw vocabulary entry of a token, in the vocabulary's own
// spelling; empty for an id outside the vocabulary.
func (t *Tokenizer) TokenText(id int32) string {
	if !t.vocabulary.has(id) {
		return ""
	}
	return t.vocabulary.texts[id]
}

// ID finds a token by its raw vocabulary entry.
func (t *Tokenizer) ID(text string) (int32, bool) {
	id, ok := t.vocabulary.ids[text]
	return id, ok
}

// Kind is the value of tokenizer.ggml.model: "gpt2", "llama", "bert", "t5" or "gemma4".
func (t *Tokenizer) Kind() string { return t.vocabulary.kind }
