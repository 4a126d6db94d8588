package regex

import (
	"fmt"
	"math"
	"slices"

	"weir/internal/work"
)

// lowering turns trees into nodes of an automaton.
type lowering struct {
	a     *Automaton
	seen  map[*Regex]Node
	bytes ByteSet // bytes of words, each a class of its own
}

func (l *lowering) lower(r *Regex) Node {
	if n, ok := l.seen[r]; ok {
		return n
	}
	if !l.a.spend(1 + len(r.kids) + len(r.words)/4 + len(r.runes)/4) {
		return NoText
	}
	n := l.make(r)
	l.seen[r] = n
	return n
}

func (l *lowering) make(r *Regex) Node {
	a := l.a
	switch r.op {
	case opEmpty:
		return EmptyText
	case opBytes:
		return a.bytes(r.set)
	case opRunes:
		var seqs [][]byteRange
		for _, rr := range r.runes {
			utf8Sequences(rr, func(s []byteRange) { seqs = append(seqs, slices.Clone(s)) })
		}
		return l.sequences(seqs)
	case opWords:
		for _, w := range r.words {
			for i := range len(w) {
				l.bytes.Add(w[i])
			}
		}
		a.words = append(a.words, r.words)
		return a.wordRange(uint32(len(a.words)-1), 0, 0, uint32(len(r.words)))
	case opConcat:
		n := EmptyText
		for _, k := range slices.Backward(r.kids) {
			n = a.concat(l.lower(k), n)
		}
		return n
	case opOr:
		return a.or(l.lowerAll(r.kids)...)
	case opAnd:
		return a.and(l.lowerAll(r.kids)...)
	case opNot:
		return a.not(l.lower(r.kids[0]))
	case opMultiple:
		for b := byte('0'); b <= '9'; b++ {
			l.bytes.Add(b)
		}
		return a.multiple(uint32(r.least), 0)
	case opRepeat:
		most := noMost
		if r.most >= 0 {
			most = uint32(r.most)
		}
		return a.repeat(l.lower(r.kids[0]), uint32(r.least), most)
	default:
		return NoText
	}
}

func (l *lowering) lowerAll(kids []*Regex) []Node {
	nodes := make([]Node, len(kids))
	for i, k := range kids {
		nodes[i] = l.lower(k)
	}
	return nodes
}

// sequences makes one node of sequences of byte ranges whose order is that of UTF-8, so that ranges of one first byte lie together.
// First bytes whose rest is the same node become one set.
func (l *lowering) sequences(seqs [][]byteRange) Node {
	a := l.a
	var tails []Node
	sets := map[Node]*ByteSet{}
	add := func(first byteRange, tail Node) {
		if sets[tail] == nil {
			sets[tail] = &ByteSet{}
			tails = append(tails, tail)
		}
		sets[tail].AddRange(first.first, first.last)
	}
	for i := 0; i < len(seqs); {
		first := seqs[i][0]
		if len(seqs[i]) == 1 {
			add(first, EmptyText)
			i++
			continue
		}
		var rest [][]byteRange
		for ; i < len(seqs) && seqs[i][0] == first; i++ {
			rest = append(rest, seqs[i][1:])
		}
		add(first, l.sequences(rest))
	}
	kids := make([]Node, len(tails))
	for i, t := range tails {
		kids[i] = a.concat(a.bytes(*sets[t]), t)
	}
	return a.or(kids...)
}

// partition gives every byte its class: bytes that all sets hold or lack alike, and that no word has, are one class.
func (a *Automaton) partition(single ByteSet) {
	var class, size [256]int
	size[0] = 256
	count := 1
	for i := range a.sets {
		if !a.spend(64) {
			return
		}
		var in [256]int // by class, how many bytes the set has of it
		for b := range 256 {
			if a.sets[i].Has(byte(b)) {
				in[class[b]]++
			}
		}
		var moved [256]int // by class, the class that the set's bytes go to
		for c := range count {
			if in[c] > 0 && in[c] < size[c] {
				moved[c] = count
				size[c], size[count] = size[c]-in[c], in[c]
				count++
			}
		}
		for b := range 256 {
			if to := moved[class[b]]; to > 0 && a.sets[i].Has(byte(b)) {
				class[b] = to
			}
		}
	}
	for b := range 256 {
		if c := class[b]; single.Has(byte(b)) && size[c] > 1 {
			size[c]--
			class[b], size[count] = count, 1
			count++
		}
	}
	a.members = make([]byte, count)
	for b := range 256 {
		a.classes[b] = uint8(class[b])
		a.members[class[b]] = byte(b)
	}
}

// Matches reports whether an expression matches a whole text.
func (r *Regex) Matches(text []byte) (bool, error) { return r.MatchesUnder(nil, math.MaxInt64, text) }

// MatchesUnder is Matches within a meter and some bytes.
func (r *Regex) MatchesUnder(m *work.Meter, room int64, text []byte) (bool, error) {
	a, n, err := NewAutomatonUnder(m, room, r)
	if err != nil {
		return false, err
	}
	at := n[0]
	for _, b := range text {
		if at, err = a.Derive(at, b); err != nil {
			return false, err
		}
	}
	return a.Nullable(at), nil
}

// IsNothing reports whether no text matches an expression. Where that takes more than some ten thousand derivatives to tell, it is an
// ErrSize.
func (r *Regex) IsNothing() (bool, error) { return r.IsNothingUnder(nil, math.MaxInt64) }

// IsNothingUnder is IsNothing within a meter and some bytes.
func (r *Regex) IsNothingUnder(m *work.Meter, room int64) (bool, error) {
	if r.plain(maxDepth) {
		return r.op == opNothing, nil
	}
	a, n, err := NewAutomatonUnder(m, room, r)
	if err != nil {
		return false, err
	}
	alive, err := a.Alive(n[0])
	return !alive, err
}

// plain reports whether a tree of limited depth has neither & nor ~ in it; such a tree matches some text unless it is Nothing itself.
func (r *Regex) plain(depth int) bool {
	if r.op == opAnd || r.op == opNot || depth == 0 {
		return false
	}
	return !slices.ContainsFunc(r.kids, func(k *Regex) bool { return !k.plain(depth - 1) })
}

// Nullable reports whether an expression matches the empty text.
func (r *Regex) Nullable() bool {
	switch r.op {
	case opEmpty:
		return true
	case opWords:
		return r.words[0] == ""
	case opConcat, opAnd:
		return !slices.ContainsFunc(r.kids, func(k *Regex) bool { return !k.Nullable() })
	case opOr:
		return slices.ContainsFunc(r.kids, (*Regex).Nullable)
	case opNot:
		return !r.kids[0].Nullable()
	case opMultiple:
		return true
	case opRepeat:
		return r.least == 0 || r.kids[0].Nullable()
	default:
		return false
	}
}

// Text gives the one text that a literal matches.
func (r *Regex) Text() (text string, ok bool) {
	switch {
	case r.op == opEmpty:
		return "", true
	case r.op == opWords && len(r.words) == 1:
		return r.words[0], true
	}
	return "", false
}

// String is a short description for errors and tests, no pattern that could be parsed again.
func (r *Regex) String() string {
	names := [...]string{"nothing", "empty", "bytes", "runes", "words", "concat", "or", "and", "not", "repeat", "multiple"}
	if t, ok := r.Text(); ok {
		return fmt.Sprintf("%q", t)
	}
	return names[r.op]
}
