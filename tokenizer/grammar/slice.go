package grammar

import (
	"weir/tokenizer/grammar/regex"
)

// slice is a set of tokens that terminals often take as a whole, such as all without a quotation mark. Where a terminal takes every text
// of its expression, its tokens need no walk, and only the trie of the others is left.
type slice struct {
	table  [][256]uint16 // by state, of which 0 is dead and 1 the first
	class  [256]uint8
	tokens []uint64 // a bit for each
	rest   []node
}

// sliceTexts are the expressions of the slices, those first that leave the fewest tokens.
func sliceTexts() []*regex.Regex {
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
	return []*regex.Regex{
		regex.Repeat(regex.AnyRune(), 1, regex.Unbounded),
		regex.Repeat(quoted, 1, regex.Unbounded),
		regex.Repeat(prose, 1, regex.Unbounded),
		regex.Repeat(quoted, 1, 30),
		regex.Repeat(quoted, 1, 10),
		regex.Repeat(word, 1, regex.Unbounded),
		regex.Repeat(word, 1, 10),
	}
}

// newSlice lists the tokens of a trie that an expression matches. The expression is one of ours and has few states.
func newSlice(v *Vocabulary, r *regex.Regex) *slice {
	s := &slice{tokens: make([]uint64, v.words)}
	a, first, err := regex.NewAutomaton(r)
	if err != nil {
		return nil
	}
	s.class = *a.Class()
	states := []regex.Node{regex.NoText, first[0]}
	number := map[regex.Node]uint16{regex.NoText: 0, first[0]: 1}
	for i := 0; i < len(states); i++ {
		s.table = append(s.table, [256]uint16{})
		for b := range 256 {
			n, err := a.Derive(states[i], byte(b))
			if err != nil {
				return nil
			}
			if _, ok := number[n]; !ok {
				number[n] = uint16(len(states))
				states = append(states, n)
			}
			s.table[i][b] = number[n]
		}
	}
	at := make([]uint16, v.depth+1)
	at[0] = 1
	p := pruned{from: v.trie}
	for i := range v.trie {
		n := &v.trie[i]
		p.at(i)
		q := s.table[at[n.depth-1]][n.byte]
		at[n.depth] = q
		switch {
		case n.token == none:
		case q != 0 && a.Nullable(states[q]):
			v.set(s.tokens, n.token)
		default:
			p.keepNode(i)
		}
	}
	s.rest = p.take()
	return s
}

// contains reports whether every text of a slice, begun at a lexer state, stays inside the terminals in progress. It gives up, and says
// no, where that takes a long search.
func (e *engine) contains(s *lexState, sl *slice, walk *scratch) (bool, error) {
	const most = 1000
	type pair struct {
		s *lexState
		y uint16
	}
	var seen [256][256]bool
	var letters []byte // one byte of each pair of classes
	for b := range 256 {
		if x, y := e.class[b], sl.class[b]; !seen[x][y] {
			seen[x][y] = true
			letters = append(letters, byte(b))
		}
	}
	work, known := []pair{{s, 1}}, map[pair]bool{{s, 1}: true}
	for len(work) > 0 {
		p := work[len(work)-1]
		work = work[:len(work)-1]
		last := p
		for _, b := range letters {
			y := sl.table[p.y][b]
			if y == 0 {
				continue
			}
			q, err := e.lexStep(p.s, b, walk)
			if err != nil {
				return false, err
			}
			if q == e.lexer.dead {
				return false, nil
			}
			if next := (pair{q, y}); next != last && !known[next] {
				last = next
				if len(known) == most {
					return false, nil
				}
				known[next] = true
				work = append(work, next)
			}
		}
	}
	return true, nil
}
