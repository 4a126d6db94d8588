package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The matchers of this file are the single stages of pre-tokenizers that cut
// text several times over. Each returns the length of its match at the start
// of text, or 0.

type matcher = func(t *classTable, text string) int

// oneLineBreak: [\r\n]
func oneLineBreak(_ *classTable, text string) int {
	if isLineBreak(text[0]) {
		return 1
	}
	return 0
}

// threeDigits: [0-9][0-9][0-9]
func threeDigits(_ *classTable, text string) int {
	if len(text) < 3 {
		return 0
	}
	for i := range 3 {
		if text[i] < '0' || text[i] > '9' {
			return 0
		}
	}
	return 3
}

// upToThreeNumerals: \p{N}{1,3}
func upToThreeNumerals(t *classTable, text string) int { return numerals(t, text, 3) }

func oneOfClass(set class) matcher {
	return func(t *classTable, text string) int {
		if c, n := t.at(text, 0); c&set != 0 {
			return n
		}
		return 0
	}
}

func runOfClass(set class) matcher {
	return func(t *classTable, text string) int { return t.skip(text, 0, set) }
}

func runOf(in func(t *classTable, r rune) bool) matcher {
	return func(t *classTable, text string) int {
		for i, r := range text {
			if !in(t, r) {
				return i
			}
		}
		return len(text)
	}
}

// spaced puts \s? before a run. Where the white space is itself in the run's
// set both readings match the same text.
func spaced(run matcher) matcher {
	return func(t *classTable, text string) int {
		if c, n := t.at(text, 0); c&space != 0 && n < len(text) {
			if m := run(t, text[n:]); m > 0 {
				return n + m
			}
		}
		return run(t, text)
	}
}

func spacedRunOf(in func(t *classTable, r rune) bool) matcher { return spaced(runOf(in)) }

func spacedRunOfClass(set class) matcher { return spaced(runOfClass(set)) }

// cutTrailingSpace isolates \s+$. It looks from the end, so that white space
// in the middle costs nothing.
func cutTrailingSpace(t *classTable, text string) int {
	end := len(text)
	for end > 0 {
		r, n := utf8.DecodeLastRuneInString(text[:end])
		if t.of(r)&space == 0 {
			break
		}
		end -= n
	}
	if end == 0 {
		return len(text)
	}
	return end
}

// isDefaultPunctuation: [\p{P}\$\+<=>\^~\|]
func isDefaultPunctuation(t *classTable, r rune) bool {
	return t.of(r)&punctuation != 0 || r < utf8.RuneSelf && strings.IndexByte("$+<=>^~|", byte(r)) >= 0
}

// isFalconPunctuation adds the grave accent.
func isFalconPunctuation(t *classTable, r rune) bool { return r == '`' || isDefaultPunctuation(t, r) }

// isHanOrKana: [一-龥぀-ゟ゠-ヿ]
func isHanOrKana(_ *classTable, r rune) bool {
	return r >= 0x4E00 && r <= 0x9FA5 || r >= 0x3040 && r <= 0x30FF
}

// isDeepseekEastAsian: [一-龥ࠀ-一가-퟿]. The middle range, from U+0800 up, is
// far more than East Asian scripts; the model was trained with it.
func isDeepseekEastAsian(_ *classTable, r rune) bool {
	return r >= 0x0800 && r <= 0x9FA5 || r >= 0xAC00 && r <= 0xD7FF
}

// isDeepseekPunctuation: [!-/:-~！-／：-～‘-‟　-。]. ":-~" holds the letters too;
// an earlier stage has already cut them off.
func isDeepseekPunctuation(_ *classTable, r rune) bool {
	return r >= '!' && r <= '/' || r >= ':' && r <= '~' ||
		r >= 0xFF01 && r <= 0xFF0F || r >= 0xFF1A && r <= 0xFF5E ||
		r >= 0x2018 && r <= 0x201F || r >= 0x3000 && r <= 0x3002
}

func isDeepseekLetter(_ *classTable, r rune) bool {
	if r < utf8.RuneSelf {
		return isASCIILetter(byte(r))
	}
	return unicode.Is(deepseekLetters, r)
}

// matchDeepseekV3:
//
//	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
//	| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func matchDeepseekV3(t *classTable, text string) int {
	c, n := t.at(text, 0)
	if text[0] < utf8.RuneSelf && c&(punctuation|symbol) != 0 {
		if end := asciiLetters(text, 1); end > 1 {
			return end
		}
	}
	if c&(letter|mark) != 0 {
		return t.skip(text, n, letter|mark)
	}
	if c&(punctuation|symbol) == 0 && !isLineBreak(text[0]) {
		if next, width := t.at(text, n); next&(letter|mark) != 0 {
			return t.skip(text, n+width, letter|mark)
		}
	}
	if n := signs(t, text, punctuation|symbol); n > 0 {
		for n < len(text) && isLineBreak(text[n]) {
			n++
		}
		return n
	}
	if c&space != 0 {
		return brokenSpaceRun(t, text)
	}
	return 0
}

func asciiLetters(text string, i int) int {
	for i < len(text) && isASCIILetter(text[i]) {
		i++
	}
	return i
}
