package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// tokenType is a token's entry in tokenizer.ggml.token_type.
type tokenType uint8

// Values as GGUF stores them.
const (
	typeUndefined   tokenType = 0
	typeNormal      tokenType = 1
	typeUnknown     tokenType = 2
	typeControl     tokenType = 3
	typeUserDefined tokenType = 4
	typeUnused      tokenType = 5
	typeByte        tokenType = 6
)

// none stands for "the vocabulary has no such token".
const none int32 = -1

// Limits of the work of building a tokenizer. The largest published
// vocabularies have 262,144 entries of at most 256 bytes.
const (
	maxVocabularySize  = 1 << 24
	maxEntryBytes      = 1 << 16
	maxSpecialBytes    = 1 << 10
	maxSquaredEntrySum = 1 << 32
)

// vocabulary is what all kinds of tokenizers share: entries, their types and
// scores, and the special tokens. It does not change after newVocabulary.
type vocabulary struct {
	kind   string // tokenizer.ggml.model
	pre    string // tokenizer.ggml.pre
	texts  []string
	types  []tokenType
	scores []float32 // nil without scores
	ids    map[string]int32

	bos, eos, eot, eom, unknown, separator int32
	padding                                int32
	fillIn                                 FillIn
	addBOS, addEOS, addSeparator           bool
	eog                                    []int32 // ascending
	endsGeneration                         map[int32]bool
}

// readVocabulary reads entries, types and scores; special tokens come after,
// because their defaults depend on the kind.
func readVocabulary(m metadata, kind, pre string) (*vocabulary, error) {
	texts, err := m.texts("tokenizer.ggml.tokens")
	if err != nil {
		return nil, err
	}
	if len(texts) == 0 {
		return nil, errors.New("read vocabulary: tokenizer.ggml.tokens is missing or empty")
	}
	if len(texts) > maxVocabularySize {
		return nil, fmt.Errorf("read vocabulary: %d entries, limit %d", len(texts), maxVocabularySize)
	}
	v := &vocabulary{kind: kind, pre: pre, texts: slices.Clone(texts)}
	if err := v.index(); err != nil {
		return nil, err
	}
	if err := v.readTypes(m); err != nil {
		return nil, err
	}
	return v, v.readScores(m)
}

// index fills ids. Empty entries get the name that llama.cpp gives them.
func (v *vocabulary) index() error {
	v.ids = make(map[string]int32, len(v.texts))
	squares := 0
	for i, text := range v.texts {
		if text == "" {
			text = fmt.Sprintf("[EMPTY_%d]", i)
			v.texts[i] = text
		}
		if len(text) > maxEntryBytes {
			return fmt.Errorf("read vocabulary: entry %d has %d bytes, limit %d", i, len(text), maxEntryBytes)
		}
		if squares += len(text) * len(text); squares > maxSquaredEntrySum {
			return fmt.Errorf("read vocabulary: entries up to %d are too long together", i)
		}
		if first, ok := v.ids[text]; ok && v.kind != kindEscaped { // Gemma 4's files have a few entries twice, of which the later one counts
			return fmt.Errorf("read vocabulary: entry %q has two ids, %d and %d", text, first, i)
		}
		v.ids[text] = int32(i)
	}
	return nil
}

func (v *vocabulary) readTypes(m metadata) error {
	const key = "tokenizer.ggml.token_type"
	types, err := m.numbers(key)
	if err != nil {
		return err
	}
	v.types = make([]tokenType, len(v.texts))
	if types == nil {
		for i := range v.types {
			v.types[i] = typeNormal
		}
		return nil
	}
	if len(types) < len(v.texts) {
		return fmt.Errorf("read vocabulary: %s has %d entries for %d tokens", key, len(types), len(v.texts))
	}
	for i := range v.types {
		if t := types[i]; t >= float64(typeNormal) && t <= float64(typeByte) {
			v.types[i] = tokenType(t)
		}
	}
	return nil
}

func (v *vocabulary) readScores(m metadata) error {
	const key = "tokenizer.ggml.scores"
	scores, err := m.numbers(key)
	if err != nil || scores == nil {
		return err
	}
	if len(scores) < len(v.texts) {
		return fmt.Errorf("read vocabulary: %s has %d entries for %d tokens", key, len(scores), len(v.texts))
	}
	v.scores = make([]float32, len(v.texts))
	for i := range v.scores {
		if math.IsNaN(scores[i]) {
			return fmt.Errorf("read vocabulary: score of token %d is not a number", i)
		}
		v.scores[i] = float32(scores[i])
	}
	return nil
}

// specialDefaults are the ids and flags that a kind of vocabulary has where
// the file does not say.
type specialDefaults struct {
	bos, eos, unknown, separator int32
	addBOS, addEOS, addSeparator bool
}

// readSpecials finds the special tokens. A key whose id is out of range (files
// write 4294967295 for "none") counts as "none".
func (v *vocabulary) readSpecials(m metadata, d specialDefaults) error {
	v.eot, v.eom, v.padding = none, none, none
	v.bos, v.eos, v.unknown, v.separator = d.bos, d.eos, d.unknown, d.separator
	for _, s := range []struct {
		key string
		id  *int32
	}{
		{"cls_token_id", &v.bos}, // older BERT files
		{"bos_token_id", &v.bos},
		{"eos_token_id", &v.eos},
		{"eot_token_id", &v.eot},
		{"eom_token_id", &v.eom},
		{"unknown_token_id", &v.unknown},
		{"padding_token_id", &v.padding},
		{"seperator_token_id", &v.separator}, // spelt so in GGUF
	} {
		if s.key == "cls_token_id" && v.kind != kindWordPiece {
			continue
		}
		if err := v.readID(m, "tokenizer.ggml."+s.key, s.id); err != nil {
			return err
		}
	}
	if err := v.readAdds(m, d); err != nil {
		return err
	}
	return v.markControls(m)
}

func (v *vocabulary) readID(m metadata, key string, id *int32) error {
	n, ok, err := m.integer(key)
	if err != nil {
		return err
	}
	if ok {
		*id = none
		if n >= 0 && n < int64(len(v.texts)) {
			*id = int32(n)
		}
	}
	if int(*id) >= len(v.texts) {
		*id = none
	}
	return nil
}

// readAdds reads which tokens go around a text. A flag in the file needs its
// token; a default without its token is off, without an error.
func (v *vocabulary) readAdds(m metadata, d specialDefaults) error {
	for _, a := range []struct {
		key      string
		id       int32
		flag     *bool
		fallback bool
	}{
		{"tokenizer.ggml.add_bos_token", v.bos, &v.addBOS, d.addBOS},
		{"tokenizer.ggml.add_eos_token", v.eos, &v.addEOS, d.addEOS},
		{"tokenizer.ggml.add_sep_token", v.separator, &v.addSeparator, d.addSeparator},
	} {
		on, set, err := m.flag(a.key, a.fallback)
		if err != nil {
			return err
		}
		if on && a.id == none {
			if set {
				return fmt.Errorf("read special tokens: %s is true, but the token to add is not set", a.key)
			}
			on = false
		}
		*a.flag = on
	}
	return nil
}

// endTexts end a generation in every vocabulary that has them, and are control
// tokens there whatever the file says: converters get their type wrong often
// enough that llama.cpp decides by text too.
var endTexts = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>",
	"<|endoftext|>", "<|eom_id|>", "<EOT>", "_<EOT>", "<|end_of_text|>", "<end_of_utterance>",
	"<｜end▁of▁sentence｜>",
	// Fill-in-the-middle padding and file borders: nothing useful follows.
	"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>",
	"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>",
	"<|file_sep|>",
}

// controlEndTexts end a generation only where the file itself calls them
// control tokens; elsewhere they may be text, as "</s>" is in HTML.
var controlEndTexts = []string{
	"[EOT]", "[EOS]", "<|flush|>", "<|calls|>", "<turn|>", "<eos>", "</s>", "<|tool_response>", "[e~[", "<|observation|>",
}

// escapedEndTexts end a generation in vocabularies of Gemma 4, whose converter lets some of them be user-defined.
var escapedEndTexts = []string{"<turn|>", "<eos>", "<|tool_response>"}

// markControls collects the end-of-generation set, and gives the type control
// to it and to the beginning token, so that text never turns into them.
func (v *vocabulary) markControls(m metadata) error {
	v.endsGeneration = map[int32]bool{}
	for _, id := range []int32{v.eos, v.eot, v.eom} {
		v.end(id)
	}
	for _, key := range []string{"fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id"} {
		id := none
		if err := v.readID(m, "tokenizer.ggml."+key, &id); err != nil {
			return err
		}
		v.end(id)
	}
	for _, text := range endTexts {
		if id, ok := v.ids[text]; ok {
			v.end(id)
		}
	}
	for _, text := range controlEndTexts {
		if id, ok := v.ids[text]; ok && v.types[id] == typeControl {
			v.end(id)
		}
	}
	for _, text := range escapedEndTexts {
		if id, ok := v.ids[text]; ok && v.kind == kindEscaped {
			v.end(id)
		}
	}
	v.keepHarmonyEnd()
	v.keepSlashS()
	if v.bos != none {
		v.types[v.bos] = typeControl
	}
	for id := range v.endsGeneration {
		v.types[id] = typeControl
		v.eog = append(v.eog, id)
	}
	slices.Sort(v.eog)
	return v.readFillIn(m)
}

func (v *vocabulary) end(id int32) {
	if id != none {
		v.endsGeneration[id] = true
	}
}

func (v *vocabulary) ends(text string) bool {
	id, ok := v.ids[text]
	return ok && v.endsGeneration[id]
}

// keepHarmonyEnd: in vocabularies of the harmony format "<|end|>" ends a
// message, and a generation is several messages.
func (v *vocabulary) keepHarmonyEnd() {
	call := v.ends("<|call|>") || v.ends("<|calls|>")
	if !v.ends("<|end|>") || !call || !v.ends("<|return|>") && !v.ends("<|flush|>") {
		return
	}
	id := v.ids["<|end|>"]
	delete(v.endsGeneration, id)
	v.types[id] = typeControl
}

// keepSlashS: vocabularies with "<|tool_response>" carry "</s>" as text, unless
// the file names it as the end token.
func (v *vocabulary) keepSlashS() {
	if !v.ends("<|tool_response>") || !v.ends("</s>") {
		return
	}
	if id := v.ids["</s>"]; id != v.eos && id != v.eot && id != v.eom {
		delete(v.endsGeneration, id)
	}
}

func (v *vocabulary) has(id int32) bool { return id >= 0 && int(id) < len(v.texts) }

// hidden reports whether a token has no text of its own unless special tokens
// are asked for.
func (v *vocabulary) hidden(id int32) bool {
	return v.types[id] == typeControl || v.types[id] == typeUnknown
}

// looksLikeControl finds chat markers that a converter left as user-defined: <|this|>, and Gemma 4's <|begin> and <end|>.
func looksLikeControl(text string) bool {
	if len(text) <= 4 || text[0] != '<' || text[len(text)-1] != '>' {
		return false
	}
	return strings.HasPrefix(text, "<|") || strings.HasSuffix(text, "|>") || strings.HasPrefix(text, "<｜") && strings.HasSuffix(text, "｜>")
}

// byteOf reads a byte token such as "<0x0A>".
func byteOf(text string) (byte, bool) {
	if len(text) != 6 || text[:3] != "<0x" || text[5] != '>' {
		return 0, false
	}
	high, low := hexDigit(text[3]), hexDigit(text[4])
	if high < 0 || low < 0 {
		return 0, false
	}
	return byte(high<<4 | low), true
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
