package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// The cutters of this file are hand-written forms of the expressions that
// tokenizer.json files carry. Each comment gives its expression; all end in
//
//	\s+(?!\S)|\s+
//
// that is: the last rune of a run of white space belongs to the next piece,
// unless the run is one rune long or ends the text.

// contraction matches 's|'t|'re|'ve|'m|'ll|'d at the start of text, of which
// the first byte is the apostrophe.
func contraction(text string) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(text) < 3 {
		return 0
	}
	switch text[1:3] {
	case "re", "ve", "ll":
		return 3
	}
	return 0
}

// contractionAnyCase is contraction for (?i:…), over ASCII letters alone.
func contractionAnyCase(text string) int {
	if len(text) < 2 {
		return 0
	}
	folded := [3]byte{'\'', text[1] | 0x20, 0}
	if len(text) > 2 {
		folded[2] = text[2] | 0x20
	}
	if !isASCIILetter(text[1]) {
		return 0
	}
	switch folded[1] {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if folded[2] == 'e' && isASCIILetter(text[2]) {
			return 3
		}
	case 'l':
		if folded[2] == 'l' && isASCIILetter(text[2]) {
			return 3
		}
	}
	return 0
}

func isASCIILetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

func isLineBreak(b byte) bool { return b == '\n' || b == '\r' }

// spaceRun cuts white space by the common tail of all expressions.
func spaceRun(t *classTable, text string) int {
	end := t.skip(text, 0, space)
	if end == len(text) {
		return end
	}
	_, n := utf8.DecodeLastRuneInString(text[:end])
	if end == n {
		return end
	}
	return end - n
}

// brokenSpaceRun cuts by \s*[\r\n]+ first: up to the last line break of the run.
func brokenSpaceRun(t *classTable, text string) int {
	end := t.skip(text, 0, space)
	if i := strings.LastIndexAny(text[:end], "\r\n"); i >= 0 {
		return i + 1
	}
	return spaceRun(t, text)
}

// cutGPT2:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func cutGPT2(t *classTable, text string) int {
	if text[0] == '\'' {
		if n := contraction(text); n > 0 {
			return n
		}
	}
	i := 0
	if text[0] == ' ' && len(text) > 1 {
		i = 1
	}
	c, n := t.at(text, i)
	switch {
	case c&letter != 0:
		return t.skip(text, i+n, letter)
	case c&numeral != 0:
		return t.skip(text, i+n, numeral)
	case c&space == 0:
		return t.skip(text, i+n, anyRune&^(space|letter|numeral))
	}
	return spaceRun(t, text)
}

// wordRules is the family of llama3 and qwen2; with L for letters:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?L+|\p{N}{1,digits}
//	| ?[^\s L\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// Where they are bare, signs end before line breaks: [\r\n]* is left out.
type wordRules struct {
	letters class
	digits  int
	bare    bool
}

func (w wordRules) cut(t *classTable, text string) int {
	if text[0] == '\'' {
		if n := contractionAnyCase(text); n > 0 {
			return n
		}
	}
	c, n := t.at(text, 0)
	switch {
	case c&w.letters != 0:
		return t.skip(text, n, w.letters)
	case c&numeral != 0:
		return numerals(t, text, w.digits)
	case !isLineBreak(text[0]):
		if next, width := t.at(text, n); next&w.letters != 0 {
			return t.skip(text, n+width, w.letters)
		}
	}
	if n := signs(t, text, anyRune&^(space|numeral|w.letters)); n > 0 {
		for !w.bare && n < len(text) && isLineBreak(text[n]) {
			n++
		}
		return n
	}
	return brokenSpaceRun(t, text)
}

// numerals cuts \p{N}{1,limit}.
func numerals(t *classTable, text string, limit int) int {
	end := 0
	for range limit {
		c, n := t.at(text, end)
		if c&numeral == 0 {
			break
		}
		end += n
	}
	return end
}

// signs cuts " ?" and a run of set, or nothing.
func signs(t *classTable, text string, set class) int {
	i := 0
	if text[0] == ' ' {
		i = 1
	}
	c, n := t.at(text, i)
	if c&set == 0 {
		return 0
	}
	return t.skip(text, i+n, set)
}

// caseRules is the family of gpt-4o and tekken; with U for
// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], W for [\p{Ll}\p{Lm}\p{Lo}\p{M}] and C for
// the contractions of wordRules, where there are any:
//
//	[^\r\n\p{L}\p{N}]?U*W+C?|[^\r\n\p{L}\p{N}]?U+W*C?|\p{N}{1,digits}
//	| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
type caseRules struct {
	contractions bool
	digits       int
}

const (
	upperRun = upper | otherLetter | mark
	lowerRun = lower | otherLetter | mark
)

func (r caseRules) cut(t *classTable, text string) int {
	if end := casedWord(t, text); end > 0 {
		if r.contractions && end < len(text) && text[end] == '\'' {
			end += contractionAnyCase(text[end:])
		}
		return end
	}
	if n := numerals(t, text, r.digits); n > 0 {
		return n
	}
	if n := signs(t, text, anyRune&^(space|letter|numeral)); n > 0 {
		for n < len(text) && (isLineBreak(text[n]) || text[n] == '/') {
			n++
		}
		return n
	}
	return brokenSpaceRun(t, text)
}

// casedWord tries the two word forms in order, each first with the optional
// rune before the word and then without.
func casedWord(t *classTable, text string) int {
	c, n := t.at(text, 0)
	starts := [2]int{0, -1}
	if c&(letter|numeral) == 0 && !isLineBreak(text[0]) {
		starts = [2]int{n, 0}
	}
	for _, start := range starts {
		if start >= 0 {
			if end := endsLower(t, text, start); end > 0 {
				return end
			}
		}
	}
	for _, start := range starts {
		if start >= 0 {
			if end := t.skip(text, start, upperRun); end > start {
				return end // W* is empty here, or endsLower had matched
			}
		}
	}
	return 0
}

// endsLower matches U*W+ at start and returns its end, or 0. U* takes all
// runes that it can; if no W follows, the match ends with the last of them that
// is W as well.
func endsLower(t *classTable, text string, start int) int {
	u := t.skip(text, start, upperRun)
	if end := t.skip(text, u, lowerRun); end > u {
		return end
	}
	for u > start {
		r, n := utf8.DecodeLastRuneInString(text[start:u])
		if t.of(r)&lowerRun != 0 {
			return u
		}
		u -= n
	}
	return 0
}
