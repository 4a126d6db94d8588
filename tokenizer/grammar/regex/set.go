package regex

import (
	"slices"
	"unicode/utf8"
)

// ByteSet is a set of bytes, one bit each.
type ByteSet [4]uint64

// Add puts a byte into the set.
func (s *ByteSet) Add(b byte) { s[b>>6] |= 1 << (b & 63) }

// AddRange puts the bytes from first to last into the set, both included.
func (s *ByteSet) AddRange(first, last byte) {
	for b := int(first); b <= int(last); b++ {
		s.Add(byte(b))
	}
}

// Has reports whether a byte is in the set.
func (s *ByteSet) Has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

func (s *ByteSet) union(o ByteSet) ByteSet {
	return ByteSet{s[0] | o[0], s[1] | o[1], s[2] | o[2], s[3] | o[3]}
}

func (s *ByteSet) both(o ByteSet) ByteSet {
	return ByteSet{s[0] & o[0], s[1] & o[1], s[2] & o[2], s[3] & o[3]}
}

const maxRune = utf8.MaxRune

// RuneRange is the characters from First to Last, both included.
type RuneRange struct{ First, Last rune }

// normalRunes sorts ranges, joins those that touch and takes the surrogates out.
func normalRunes(ranges []RuneRange) []RuneRange {
	const firstSurrogate, lastSurrogate = 0xD800, 0xDFFF
	sorted := make([]RuneRange, 0, len(ranges)+1)
	for _, r := range ranges {
		r.First, r.Last = max(r.First, 0), min(r.Last, maxRune)
		if r.First < firstSurrogate && r.Last >= firstSurrogate {
			sorted = append(sorted, RuneRange{r.First, firstSurrogate - 1})
			r.First = lastSurrogate + 1
		} else if r.First >= firstSurrogate && r.First <= lastSurrogate {
			r.First = lastSurrogate + 1
		}
		if r.First <= r.Last {
			sorted = append(sorted, r)
		}
	}
	slices.SortFunc(sorted, func(a, b RuneRange) int { return int(a.First - b.First) })
	joined := sorted[:0]
	for _, r := range sorted {
		if n := len(joined); n > 0 && r.First <= joined[n-1].Last+1 {
			joined[n-1].Last = max(joined[n-1].Last, r.Last)
			continue
		}
		joined = append(joined, r)
	}
	return joined
}

// invertRunes gives the characters that the normal ranges leave out.
func invertRunes(ranges []RuneRange) []RuneRange {
	var rest []RuneRange
	from := rune(0)
	for _, r := range ranges {
		if r.First > from {
			rest = append(rest, RuneRange{from, r.First - 1})
		}
		from = r.Last + 1
	}
	if from <= maxRune {
		rest = append(rest, RuneRange{from, maxRune})
	}
	return normalRunes(rest)
}

// byteRange is one byte of a UTF-8 sequence as a range.
type byteRange struct{ first, last byte }

// utf8Sequences cuts a range of characters into sequences of byte ranges, each of which matches exactly the product of its ranges.
func utf8Sequences(r RuneRange, emit func(seq []byteRange)) {
	for _, limit := range []rune{0x7F, 0x7FF, 0xFFFF} {
		if r.First <= limit && r.Last > limit {
			utf8Sequences(RuneRange{r.First, limit}, emit)
			r.First = limit + 1
		}
	}
	var a, b [utf8.UTFMax]byte
	n := utf8.EncodeRune(a[:], r.First)
	// A range is a product when, from the right, every byte below the first that differs runs over all continuation bytes.
	for i := 1; i < n; i++ {
		mask := rune(1)<<(6*i) - 1
		if r.First&^mask == r.Last&^mask {
			continue
		}
		if r.First&mask != 0 {
			utf8Sequences(RuneRange{r.First, r.First | mask}, emit)
			utf8Sequences(RuneRange{(r.First | mask) + 1, r.Last}, emit)
			return
		}
		if r.Last&mask != mask {
			utf8Sequences(RuneRange{r.First, r.Last&^mask - 1}, emit)
			utf8Sequences(RuneRange{r.Last &^ mask, r.Last}, emit)
			return
		}
	}
	utf8.EncodeRune(b[:], r.Last)
	var seq [utf8.UTFMax]byteRange
	for i := range n {
		seq[i] = byteRange{a[i], b[i]}
	}
	emit(seq[:n])
}
