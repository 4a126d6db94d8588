package grammar

import (
	"unicode/utf8"

	"weir/internal/work"
	"weir/tokenizer/grammar/regex"
)

// slice is a set of tokens that terminals often take as a whole, such as all without a quotation mark. Where a terminal takes every text
// of its expression, its tokens need no walk, and only the trie of the others is left.
type slice struct {
	all    *machine // of texts of the slice
	one    *machine // of single characters of it
	most   int      // characters of a token
	tokens []uint64 // a bit for each
	rest   []node
}

// machine is an automaton in full.
type machine struct {
	next  [][256]uint16 // by state, of which 0 is dead and 1 the first
	class [256]uint8
	ends  []bool // by state
}

// sliceText is texts of 1 to most of some characters.
type sliceText struct {
	one  *regex.Regex
	most int
}

// sliceTexts are the expressions of the slices, those first that leave the fewest tokens.
func sliceTexts() []sliceText {
	without := func(letters string, from rune) *regex.Regex {
		ranges := make([]regex.RuneRange, 0, len(letters)+1)
		for _, r := range letters {
			ranges = append(ranges, regex.RuneRange{First: from, Last: r - 1})
			from = r + 1
		}
		return regex.Runes(append(ranges, regex.RuneRange{First: from, Last: 0x10FFFF})...)
	}
	quoted := without(`"\`+"\x7f", ' ')
	prose := without("<>[]`{|}", 0)
	word := regex.Runes(regex.RuneRange{First: '0', Last: '9'}, regex.RuneRange{First: 'A', Last: 'Z'},
		regex.RuneRange{First: '_', Last: '_'}, regex.RuneRange{First: 'a', Last: 'z'})
	return []sliceText{
		{regex.AnyRune(), regex.Unbounded}, {quoted, regex.Unbounded}, {prose, regex.Unbounded}, {quoted, 30}, {quoted, 10},
		{word, regex.Unbounded}, {word, 10},
	}
}

// newMachine is nil for an expression that exceeds a limit, which those of the slices do not.
func newMachine(r *regex.Regex) *machine {
	a, first, err := regex.NewAutomaton(r)
	if err != nil {
		return nil
	}
	t := &machine{class: *a.Class()}
	states := []regex.Node{regex.NoText, first[0]}
	number := map[regex.Node]uint16{regex.NoText: 0, first[0]: 1}
	for i := 0; i < len(states); i++ {
		t.next, t.ends = append(t.next, [256]uint16{}), append(t.ends, a.Nullable(states[i]))
		for b := range 256 {
			n, err := a.Derive(states[i], byte(b))
			if err != nil {
				return nil
			}
			if _, ok := number[n]; !ok {
				number[n] = uint16(len(states))
				states = append(states, n)
			}
			t.next[i][b] = number[n]
		}
	}
	return t
}

// newSlice lists the tokens of a trie that an expression matches.
func newSlice(v *Vocabulary, text sliceText) *slice {
	s := &slice{all: newMachine(regex.Repeat(text.one, 1, text.most)), one: newMachine(text.one), tokens: make([]uint64, v.words)}
	if s.all == nil || s.one == nil {
		return nil
	}
	at, long := make([]uint16, v.depth+1), make([]int, v.depth+1)
	at[0] = 1
	p := pruned{from: v.trie}
	for i := range v.trie {
		n := &v.trie[i]
		p.at(i)
		q := s.all.next[at[n.depth-1]][n.byte]
		at[n.depth], long[n.depth] = q, long[n.depth-1]
		if utf8.RuneStart(n.byte) {
			long[n.depth]++
		}
		switch {
		case n.token == none:
		case s.all.ends[q]:
			v.set(s.tokens, n.token)
			s.most = max(s.most, long[n.depth])
		default:
			p.keepNode(i)
		}
	}
	s.rest = p.take()
	return s
}

// inside reports whether every token of a slice, begun at a lexer state, stays inside the terminals in progress.
func (e *engine) inside(s *lexState, sl *slice, walk *scratch) (bool, error) {
	counted, ok, err := e.counts(s, sl, &walk.meter)
	if ok || err != nil {
		return ok, err
	}
	if counted { // what a search finds out is that the count ends somewhere in the longest token
		return false, nil
	}
	return e.contains(s, sl, walk)
}

// counts reports whether a terminal in progress is a repetition, and whether it is one that the tokens of a slice stay inside of: what is
// repeated takes each of their characters, and as often as they need. counted is false where a search may find out more.
func (e *engine) counts(s *lexState, sl *slice, m *work.Meter) (counted, ok bool, err error) {
	if err := e.enter(m); err != nil {
		return false, false, err
	}
	defer e.leave()
	if counted, ok, err = e.table.lexer.counts(s, sl); err != nil {
		return false, false, e.wrong(err)
	}
	return counted, ok, nil
}

func (l *lexer) counts(s *lexState, sl *slice) (counted, ok bool, err error) {
	counted = true
	for _, p := range s.parts {
		if p.node == controlNode {
			continue
		}
		one, most, repeats, err := l.auto.Counted(p.node)
		if err != nil {
			return false, false, err
		}
		if !repeats {
			counted = false
			continue
		}
		takes, err := l.takes(one, sl.one)
		if err != nil {
			return false, false, err
		}
		switch {
		case !takes:
			counted = false
		case most == regex.Unbounded || most >= sl.most:
			return true, true, nil
		}
	}
	return counted, false, nil
}

// taken is a question to takes.
type taken struct {
	node regex.Node
	t    *machine
}

// takes reports whether a node matches every text of a machine.
func (l *lexer) takes(n regex.Node, t *machine) (bool, error) {
	if ok, known := l.taken[taken{n, t}]; known {
		return ok, nil
	}
	type pair struct {
		n regex.Node
		y uint16
	}
	ok := true
	work, known := []pair{{n, 1}}, map[pair]bool{{n, 1}: true}
	for len(work) > 0 && ok {
		p := work[len(work)-1]
		work = work[:len(work)-1]
		ok = !t.ends[p.y] || l.auto.Nullable(p.n)
		for b := range 256 {
			y := t.next[p.y][b]
			if y == 0 {
				continue
			}
			d, err := l.auto.Derive(p.n, byte(b))
			if err != nil {
				return false, err
			}
			if next := (pair{d, y}); !known[next] {
				known[next] = true
				work = append(work, next)
			}
		}
		ok = ok && len(known) < maxPairs
	}
	l.taken[taken{n, t}] = ok
	return ok, nil
}

// maxPairs bounds the searches that tell whether a slice stays inside terminals; one that takes longer says no.
const maxPairs = 1000

// contains reports whether every text of a slice, begun at a lexer state, stays inside the terminals in progress.
func (e *engine) contains(s *lexState, sl *slice, walk *scratch) (bool, error) {
	type pair struct {
		s *lexState
		y uint16
	}
	letters := e.letters(sl, walk.letters[:0])
	walk.letters = letters
	work, known := []pair{{s, 1}}, map[pair]bool{{s, 1}: true}
	for len(work) > 0 {
		p := work[len(work)-1]
		work = work[:len(work)-1]
		last := p
		if err := walk.meter.Spend(len(letters) / nodesPerUnit); err != nil {
			return false, err
		}
		for _, b := range letters {
			y := sl.all.next[p.y][b]
			if y == 0 {
				continue
			}
			q, err := e.lexStep(p.s, b, walk)
			if err != nil {
				return false, err
			}
			if q == e.table.lexer.dead {
				return false, nil
			}
			if next := (pair{q, y}); next != last && !known[next] {
				last = next
				if len(known) == maxPairs {
					return false, nil
				}
				known[next] = true
				work = append(work, next)
			}
		}
	}
	return true, nil
}

// letters appends one byte of each pair of classes of the terminals and a slice.
func (e *engine) letters(sl *slice, dst []byte) []byte {
	var seen [256][4]uint64 // bits: whole words of them are cleared at once for each search
	for b := range 256 {
		x, y := e.class[b], sl.all.class[b]
		if bit := uint64(1) << (y & 63); seen[x][y>>6]&bit == 0 {
			seen[x][y>>6] |= bit
			dst = append(dst, byte(b))
		}
	}
	return dst
}
