package pii

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// FindEmail finds LOCAL@HOST.NAME. Neither side has an @, so that every byte is looked
// at twice at most.
func FindEmail(text string, from int) (start, end int) {
	for at := from; ; at++ {
		i := strings.IndexByte(text[at:], '@')
		if i < 0 {
			return -1, -1
		}
		at += i
		start = at
		for start > from {
			r, size := utf8.DecodeLastRuneInString(text[from:start])
			if !isLocal(r) {
				break
			}
			start -= size
		}
		end = hostEnd(text, at+1)
		if start < at && end > 0 {
			return start, end
		}
	}
}

// isLocal takes what addresses have before their @.
func isLocal(r rune) bool {
	return r < utf8.RuneSelf && (isAlnum(byte(r)) || strings.ContainsRune(".!#$%&'*+-/=?^_`{|}~", r)) || isForeign(r)
}

// isForeign takes letters beyond ASCII of the scripts that put spaces between words: in
// others an address may stand in the midst of letters.
func isForeign(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic)
}

// hostEnd is where the name of a host that begins at i ends; 0 where none does: it has
// a dot, and behind the last one letters.
func hostEnd(text string, i int) int {
	end := i
	for end < len(text) {
		r, size := utf8.DecodeRuneInString(text[end:])
		plain := r < utf8.RuneSelf && isAlnum(byte(r))
		if !plain && r != '-' && r != '.' && !isForeign(r) {
			break
		}
		end += size
	}
	for end > i && (text[end-1] == '.' || text[end-1] == '-') {
		end--
	}
	dot := strings.LastIndexByte(text[i:end], '.')
	if dot < 1 || end-(i+dot+1) < 2 || isDigit(text[i+dot+1]) {
		return 0
	}
	return end
}
