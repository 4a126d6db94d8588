// Package regex holds regular expressions over bytes with intersection and complement. A Regex is an immutable tree that front ends
// build; an Automaton holds many of them as hash-consed nodes and derives them byte by byte, so that no automaton is ever built in full.
package regex

import (
	"slices"
	"strings"
)

type op uint8

const (
	opNothing op = iota
	opEmpty
	opBytes
	opRunes
	opWords
	opConcat
	opOr
	opAnd
	opNot
	opRepeat
	opMultiple
)

// Unbounded as the most of Repeat is no bound at all.
const Unbounded = -1

// MaxCount is the largest count of Repeat; counts stay numbers, whatever their size.
const MaxCount = 1<<30 - 1

// Regex is a set of byte strings. It is immutable; trees may share subtrees. The zero value is Nothing.
type Regex struct {
	op    op
	set   ByteSet
	runes []RuneRange
	words []string // sorted, without repetition
	kids  []*Regex
	least int32
	most  int32 // Unbounded or a count
	depth int32
}

var (
	nothing = &Regex{op: opNothing}
	empty   = &Regex{op: opEmpty}
)

// Nothing matches no text at all.
func Nothing() *Regex { return nothing }

// Empty matches the empty text only.
func Empty() *Regex { return empty }

// Literal matches one text, byte by byte.
func Literal(text string) *Regex {
	if text == "" {
		return empty
	}
	return &Regex{op: opWords, words: []string{text}}
}

// Words matches each of the texts. Their number costs next to nothing: 10,000 texts are one node that is searched by halves.
func Words(texts ...string) *Regex {
	words := slices.Clone(texts)
	slices.Sort(words)
	words = slices.Compact(words)
	switch {
	case len(words) == 0:
		return nothing
	case len(words) == 1 && words[0] == "":
		return empty
	}
	return &Regex{op: opWords, words: words}
}

// Bytes matches one byte of a set.
func Bytes(set ByteSet) *Regex {
	if set == (ByteSet{}) {
		return nothing
	}
	return &Regex{op: opBytes, set: set}
}

// ByteRange matches one byte from first to last, both included.
func ByteRange(first, last byte) *Regex {
	var s ByteSet
	s.AddRange(first, last)
	return Bytes(s)
}

// Runes matches the UTF-8 bytes of one character of the ranges; surrogates, which UTF-8 has none of, are left out.
func Runes(ranges ...RuneRange) *Regex {
	r := normalRunes(ranges)
	if len(r) == 0 {
		return nothing
	}
	return &Regex{op: opRunes, runes: r}
}

// Except matches the UTF-8 bytes of any one character outside the ranges.
func Except(ranges ...RuneRange) *Regex { return Runes(invertRunes(normalRunes(ranges))...) }

// Fold matches a character in any of its cases.
func Fold(r rune) *Regex { return letter(r, true) }

// AnyRune matches the UTF-8 bytes of any one character, line ends included.
func AnyRune() *Regex { return anyRune }

// AnyText matches any valid UTF-8 text, the empty one included.
func AnyText() *Regex { return anyText }

var (
	anyRune = Runes(RuneRange{0, maxRune})
	anyText = Repeat(anyRune, 0, Unbounded)
)

// Concat matches one text of each part, one after the other.
func Concat(parts ...*Regex) *Regex {
	kids := make([]*Regex, 0, len(parts))
	for _, p := range parts {
		switch p.op {
		case opNothing:
			return nothing
		case opEmpty:
		case opConcat:
			kids = append(kids, p.kids...)
		default:
			kids = append(kids, p)
		}
	}
	return group(opConcat, joinLiterals(kids), empty)
}

// joinLiterals makes one literal of neighbours.
func joinLiterals(kids []*Regex) []*Regex {
	joined := kids[:0]
	for i := 0; i < len(kids); {
		j := i
		for j < len(kids) && kids[j].op == opWords && len(kids[j].words) == 1 {
			j++
		}
		if j-i < 2 {
			joined = append(joined, kids[i])
			i++
			continue
		}
		var text strings.Builder
		for _, k := range kids[i:j] {
			text.WriteString(k.words[0])
		}
		joined = append(joined, Literal(text.String()))
		i = j
	}
	return joined
}

// Or matches what any of the parts matches.
func Or(parts ...*Regex) *Regex {
	kids := make([]*Regex, 0, len(parts))
	var words []string
	for _, p := range parts {
		switch p.op {
		case opNothing:
		case opWords:
			words = append(words, p.words...)
		case opOr:
			kids = append(kids, p.kids...)
		default:
			kids = append(kids, p)
		}
	}
	if len(words) > 0 {
		kids = append(kids, Words(words...))
	}
	return group(opOr, kids, nothing)
}

// And matches what every part matches.
func And(parts ...*Regex) *Regex {
	kids := make([]*Regex, 0, len(parts))
	for _, p := range parts {
		switch p.op {
		case opNothing:
			return nothing
		case opAnd:
			kids = append(kids, p.kids...)
		default:
			kids = append(kids, p)
		}
	}
	return group(opAnd, kids, Not(nothing))
}

// Not matches every byte string that r does not match, texts that are no UTF-8 included; And(AnyText(), Not(r)) leaves those out.
func Not(r *Regex) *Regex {
	if r.op == opNot {
		return r.kids[0]
	}
	return &Regex{op: opNot, kids: []*Regex{r}, depth: r.depth + 1}
}

// Repeat matches least to most texts of r, one after the other; most is Unbounded or a count up to MaxCount, larger ones count as that.
// A range with no count in it matches nothing.
func Repeat(r *Regex, least, most int) *Regex {
	least, most = min(max(least, 0), MaxCount), min(most, MaxCount)
	switch {
	case most >= 0 && least > most:
		return nothing
	case most == 0, r.op == opEmpty, r.op == opNothing && least == 0:
		return empty
	case r.op == opNothing:
		return nothing
	case least == 1 && most == 1:
		return r
	}
	if most < 0 {
		most = Unbounded
	}
	return &Regex{op: opRepeat, kids: []*Regex{r}, least: int32(least), most: int32(most), depth: r.depth + 1}
}

// Optional matches r or the empty text.
func Optional(r *Regex) *Regex { return Repeat(r, 0, 1) }

// Without matches any valid UTF-8 text that holds none of the markers: free text that ends before the first of them.
func Without(markers ...string) *Regex {
	if len(markers) == 0 {
		return anyText
	}
	anything := Not(nothing)
	return And(anyText, Not(Concat(anything, Words(markers...), anything)))
}

func group(o op, kids []*Regex, neutral *Regex) *Regex {
	switch len(kids) {
	case 0:
		return neutral
	case 1:
		return kids[0]
	}
	depth := int32(0)
	for _, k := range kids {
		depth = max(depth, k.depth)
	}
	return &Regex{op: o, kids: kids, depth: depth + 1}
}
