package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is a set of rune classes. Every rune belongs to exactly one; they are
// the Unicode general categories as the published pre-tokenizer expressions
// group them, with White_Space apart.
type class uint16

const (
	upper       class = 1 << iota // Lu, Lt
	lower                         // Ll
	otherLetter                   // Lm, Lo: counts as upper and as lower where case matters
	mark                          // M
	numeral                       // N
	punctuation                   // P
	symbol                        // S
	space                         // White_Space
	other                         // all else: controls, format, unassigned

	letter  = upper | lower | otherLetter
	anyRune = letter | mark | numeral | punctuation | symbol | space | other
)

// classTable gives the class of a rune in two loads. Pages of 256 runes are
// shared where equal, which leaves about 100 KB.
type classTable struct {
	ascii [utf8.RuneSelf]class
	index [(unicode.MaxRune + 1) >> 8]uint16
	pages [][256]class
}

// runeClasses is built on first use and shared by all tokenizers.
var runeClasses = sync.OnceValue(newClassTable)

func newClassTable() *classTable {
	flat := make([]class, unicode.MaxRune+1)
	for i := range flat {
		flat[i] = other
	}
	for _, set := range []struct {
		table *unicode.RangeTable
		class class
	}{
		{unicode.Lu, upper}, {unicode.Lt, upper}, {unicode.Ll, lower},
		{unicode.Lm, otherLetter}, {unicode.Lo, otherLetter}, {unicode.M, mark},
		{unicode.N, numeral}, {unicode.P, punctuation}, {unicode.S, symbol},
		{unicode.White_Space, space},
	} {
		fillClass(flat, set.table, set.class)
	}
	return packClasses(flat)
}

func fillClass(flat []class, table *unicode.RangeTable, c class) {
	for _, r := range table.R16 {
		for i := uint32(r.Lo); i <= uint32(r.Hi); i += uint32(r.Stride) {
			flat[i] = c
		}
	}
	for _, r := range table.R32 {
		for i := r.Lo; i <= r.Hi; i += r.Stride {
			flat[i] = c
		}
	}
}

func packClasses(flat []class) *classTable {
	t := new(classTable)
	copy(t.ascii[:], flat)
	seen := map[[256]class]uint16{}
	for i := range t.index {
		page := [256]class(flat[i<<8:])
		at, ok := seen[page]
		if !ok {
			at = uint16(len(t.pages))
			seen[page] = at
			t.pages = append(t.pages, page)
		}
		t.index[i] = at
	}
	return t
}

func (t *classTable) of(r rune) class {
	return t.pages[t.index[uint32(r)>>8]][uint32(r)&255]
}

// at gives the class and width of the rune at s[i:]; no class at the end.
func (t *classTable) at(s string, i int) (class, int) {
	if i >= len(s) {
		return 0, 0
	}
	if c := s[i]; c < utf8.RuneSelf {
		return t.ascii[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return t.of(r), n
}

// skip returns the end of the run of runes at s[i:] that are in set.
func (t *classTable) skip(s string, i int, set class) int {
	for i < len(s) {
		if c := s[i]; c < utf8.RuneSelf {
			if t.ascii[c]&set == 0 {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if t.of(r)&set == 0 {
			return i
		}
		i += n
	}
	return i
}
