package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// wordPiece is BERT's scheme (Wu et al. 2016; Devlin et al. 2018): text is
// normalised and cut into words; each word is spelt by the longest entries
// from the left, or is the unknown token. GGUF writes the entries that begin
// a word with a word mark, and those inside one without "##".
type wordPiece struct {
	entries      map[string]int32
	longestBytes int
	unknown      int32
	lowerCase    bool
	stripAccents bool
	// baseRunes is how llama.cpp normalised when files did not yet carry the
	// normaliser's options: a rune becomes the first of its decomposition, so
	// accents of composed letters go, combining marks of the text stay, and a
	// Hangul syllable is its leading consonant. Files with the options get
	// BERT's own normalisation: decompose and drop nonspacing marks.
	baseRunes bool
}

func newWordPiece(v *vocabulary, m metadata) (*wordPiece, error) {
	w := &wordPiece{entries: make(map[string]int32, len(v.texts)), unknown: v.unknown}
	var err error
	var set [2]bool
	if w.lowerCase, set[0], err = m.flag("tokenizer.ggml.normalizer.lowercase", true); err != nil {
		return nil, err
	}
	if w.stripAccents, set[1], err = m.flag("tokenizer.ggml.normalizer.strip_accents", w.lowerCase); err != nil {
		return nil, err
	}
	w.baseRunes = !set[0] && !set[1]
	for i, text := range v.texts {
		if v.mergeable(int32(i)) {
			w.entries[text] = int32(i)
			w.longestBytes = max(w.longestBytes, len(text))
		}
	}
	return w, nil
}

// appendText encodes a stretch of ordinary text. It normalises rune by rune
// into one word at a time, so memory is bounded by the longest word.
func (w *wordPiece) appendText(dst []int32, text string, _ bool, s *scratch) []int32 {
	word := append(s.word[:0], wordMark...)
	classes := runeClasses()
	flush := func() {
		if len(word) > len(wordMark) {
			dst = w.appendWord(dst, word, s)
		}
		word = word[:len(wordMark)]
	}
	emit := func(r rune) {
		switch c := classes.of(r); {
		case c&space != 0:
			flush()
		case c&other != 0 || r == utf8.RuneError:
		case c&mark != 0 && w.stripAccents && !w.baseRunes && unicode.Is(unicode.Mn, r):
		case c&punctuation != 0 || r < 0x7F && c&symbol != 0 || isBERTHan(r):
			flush()
			word = utf8.AppendRune(word, w.fold(r))
			flush()
		default:
			word = utf8.AppendRune(word, w.fold(r))
		}
	}
	w.eachRune(text, func(r rune) bool {
		emit(r)
		return s.more(dst)
	})
	flush()
	s.word = word
	return dst
}

// eachRune decomposes canonically (NFD) where accents are to go. It ends early
// when emit returns false.
func (w *wordPiece) eachRune(text string, emit func(rune) bool) {
	var source, decomposed [64]byte
	for _, r := range text {
		if !w.stripAccents || r < utf8.RuneSelf {
			if !emit(r) {
				return
			}
			continue
		}
		n := utf8.EncodeRune(source[:], r)
		for rest := norm.NFD.Append(decomposed[:0], source[:n]...); len(rest) > 0; {
			d, n := utf8.DecodeRune(rest)
			rest = rest[n:]
			if !emit(d) {
				return
			}
			if w.baseRunes {
				break
			}
		}
	}
}

func (w *wordPiece) fold(r rune) rune {
	if w.lowerCase {
		return unicode.ToLower(r)
	}
	return r
}

// longestWord is how many letters a word may have: BERT's libraries spell longer ones
// as the unknown token. llama.cpp spells words of any length, so that the files that
// are read its way (baseRunes) have no limit.
const longestWord = 100

// appendWord spells one word, which starts with the word mark.
func (w *wordPiece) appendWord(dst []int32, word []byte, s *scratch) []int32 {
	start := len(dst)
	if !w.baseRunes && len(word) > longestWord && utf8.RuneCount(word) > longestWord+1 {
		return w.appendUnknown(dst)
	}
	for i := 0; i < len(word) && s.spend(w.longestBytes); {
		id, n := w.longest(word[i:])
		if n == 0 {
			return w.appendUnknown(dst[:start])
		}
		dst = append(dst, id)
		i += n
	}
	return dst
}

func (w *wordPiece) appendUnknown(dst []int32) []int32 {
	if w.unknown != none {
		dst = append(dst, w.unknown)
	}
	return dst
}

func (w *wordPiece) longest(rest []byte) (id int32, n int) {
	for n := min(len(rest), w.longestBytes); n > 0; n-- {
		if id, ok := w.entries[string(rest[:n])]; ok {
			return id, n
		}
	}
	return none, 0
}

// isBERTHan lists the blocks that BERT cuts into single characters. The odd
// start of the sixth is in the reference implementations.
func isBERTHan(r rune) bool {
	if r < 0x3400 {
		return false
	}
	for _, block := range [...][2]rune{
		{0x4E00, 0x9FFF}, {0x3400, 0x4DBF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
		{0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF}, {0x2F800, 0x2FA1F},
	} {
		if r >= block[0] && r <= block[1] {
			return true
		}
	}
	return false
}

// wordPieceText is the text of an entry: a space in place of the word mark.
func wordPieceText(entry string) string { return strings.ReplaceAll(entry, wordMark, " ") }
