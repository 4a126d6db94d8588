package moderation

import "unicode"

// border says between which runes a match may begin and end.
type border uint8

const (
	borderNone    border = iota
	borderWord           // no letter or digit of the same word
	borderNumber         // no letter or digit, and nothing that makes a number part of another one
	borderLocal          // nothing that an e-mail address may begin with
	borderAddress        // nothing of an IP address
	borderDash           // no letter, digit or dash
	maxBorders    = 6
)

// begins reports whether a match may begin behind prev, before which prev2 stands; -1 is the
// begin of the text.
func (b border) begins(prev2, prev rune) bool {
	switch b {
	case borderNumber:
		return !isAlnum(prev) && prev != '_' && (prev != '.' || !isDigit(prev2))
	case borderLocal:
		return !isLocal(prev)
	case borderNone, borderWord, borderAddress, borderDash:
	}
	return b.ends(prev)
}

// ends reports whether a match may end before next; -1 is the end of the text.
func (b border) ends(next rune) bool {
	switch b {
	case borderWord:
		return !isWordPart(next)
	case borderNumber, borderLocal:
		return !isAlnum(next)
	case borderAddress:
		return !isAlnum(next) && next != ':'
	case borderDash:
		return !isAlnum(next) && next != '-'
	case borderNone:
	}
	return true
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func isAlnum(r rune) bool { return isDigit(r) || r|0x20 >= 'a' && r|0x20 <= 'z' }

// isLocal takes what an address has before its @.
func isLocal(r rune) bool {
	if r < unicode.MaxASCII {
		return isAlnum(r) || r > ' ' && indexRune(".!#$%&'*+-/=?^_`{|}~", r)
	}
	return unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic)
}

func indexRune(s string, r rune) bool {
	for _, c := range s {
		if c == r {
			return true
		}
	}
	return false
}

// isWordPart takes letters, marks and digits of the scripts that put spaces between words: in
// others a word may stand in the midst of letters.
func isWordPart(r rune) bool {
	if r <= unicode.MaxASCII {
		return isAlnum(r)
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd) &&
		!unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
