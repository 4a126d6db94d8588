package grammar

import (
	"bytes"
	"strings"

	"weir/internal/work"
	"weir/tokenizer/grammar/regex"
)

// itemKind says of a terminal that it is an item of a list whose items differ.
type itemKind uint8

const (
	noItem itemKind = iota
	firstItem
	furtherItem
)

// Item is a terminal like Regex: an item of a list whose items differ, in its front or further behind. The list holds no lists, ends with ] and
// has , and blanks between its items; equal items have equal texts. A list may be no longer than r has texts.
func (b *Builder) Item(r *regex.Regex, first bool) Symbol {
	kind := furtherItem
	if first {
		kind = firstItem
	}
	return b.add(symbol{kind: kindRegex, regex: r, item: kind})
}

// list is where an answer stands in a list whose items differ; the zero list is outside of one. Lists never change.
type list struct {
	items *listItem // those that are complete, the last one first
	text  string    // of the item in progress; "" is none
}

type listItem struct {
	text   string
	before *listItem
}

// begun counts the items that begin with a text.
func (l *listItem) begun(text string, m *work.Meter) (n int, err error) {
	for ; l != nil; l = l.before {
		if err := m.Spend(1); err != nil {
			return 0, err
		}
		if strings.HasPrefix(l.text, text) {
			n++
		}
	}
	return n, nil
}

// with adds an item; ok is false where it is there already.
func (l *listItem) with(text string, m *work.Meter) (longer *listItem, ok bool, err error) {
	for i := l; i != nil; i = i.before {
		if err := m.Spend(1); err != nil || i.text == text {
			return nil, false, err
		}
	}
	return &listItem{text, l}, true, nil
}

// itemOf is the kind and the node of a state's item, noItem where none is in progress.
func (g *Grammar) itemOf(s *lexState) (itemKind, regex.Node) {
	for _, p := range s.parts {
		if int(p.term) < len(g.items) && g.items[p.term] != noItem {
			return g.items[p.term], p.node
		}
	}
	return noItem, regex.NoText
}

// mayEnd reports whether a state's item may be over.
func (g *Grammar) mayEnd(s *lexState) bool {
	for _, t := range s.ends {
		if int(t) < len(g.items) && g.items[t] != noItem {
			return true
		}
	}
	return false
}

// atItem is the lexer state of an item that is in progress at a place, or, where none is, of one that may begin there; nil where there is none.
func (e *engine) atItem(p *place, begun bool) *lexState {
	for _, x := range p.parts {
		if kind, _ := e.g.itemOf(x.lex); kind != noItem && begun != (x.lex == x.row.lexer) {
			return x.lex
		}
	}
	return nil
}

// follow is where an answer stands after a byte, which the grammar lets through at p; ok is false where an item would be one that is there, or
// could only become one.
func (e *engine) follow(l list, p *place, b byte, m *work.Meter) (next list, ok bool, err error) {
	at := e.atItem(p, l.text != "")
	if at != nil {
		n := at.next.Load()
		s := n.to[n.of[e.class[b]]]
		kind, node := e.g.itemOf(s)
		if kind != noItem {
			if kind == firstItem && l.text == "" {
				l.items = nil
			}
			return e.within(l.items, l.text+string([]byte{b}), node, m)
		}
	}
	if l.text != "" {
		if at == nil || !e.g.mayEnd(at) {
			return list{}, true, nil // it was no item
		}
		if l.items, ok, err = l.items.with(l.text, m); !ok {
			return list{}, false, err
		}
		l.text = ""
	}
	if b == ']' {
		return list{}, true, nil
	}
	return l, true, nil
}

// within is a list with an item in progress that node says the rest of.
func (e *engine) within(items *listItem, text string, node regex.Node, m *work.Meter) (list, bool, error) {
	if node == regex.EmptyText {
		longer, ok, err := items.with(text, m)
		return list{items: longer}, ok, err
	}
	n, err := items.begun(text, m)
	if n == 0 || err != nil {
		return list{items, text}, err == nil, err
	}
	if err := e.enter(m); err != nil {
		return list{}, false, err
	}
	defer e.leave()
	ways, err := e.table.lexer.auto.Count(node, n+1)
	if err != nil {
		return list{}, false, e.wrong(err)
	}
	return list{items, text}, ways > n, nil
}

// followToken is where an answer stands after a token that the grammar lets through at p.
func (e *engine) followToken(l list, p *place, id int32, m *work.Meter) (list, bool, error) {
	for _, b := range e.v.pieces[id] {
		q, err := e.step(p, b, m)
		if err == nil {
			err = m.Spend(1)
		}
		if err != nil {
			return list{}, false, err
		}
		if q == e.dead {
			return list{}, true, nil // a control token
		}
		var ok bool
		if l, ok, err = e.follow(l, p, b, m); !ok || err != nil {
			return list{}, false, err
		}
		p = q
	}
	return l, true, nil
}

// differ takes the tokens out of a mask that would give a list an item twice.
func (m *Matcher) differ(dst []uint64) error {
	e, p, l := m.e, m.place(), m.lists[len(m.lists)-1]
	pairs := e.v.pairs()
	several := pairs.inside
	if l == (list{}) && e.atItem(p, false) == nil {
		several = pairs.opening
	}
	for _, id := range several { // those that may end an item and begin another
		if dst[id>>6]>>(id&63)&1 == 0 {
			continue
		}
		_, ok, err := e.followToken(l, p, id, &m.walk.meter)
		if err != nil {
			return err
		}
		if !ok {
			dst[id>>6] &^= 1 << (id & 63)
		}
	}
	if l.items == nil {
		return nil
	}
	if n, err := l.items.begun(l.text, &m.walk.meter); n == 0 || err != nil {
		return err
	}
	m.walk.grow(e.v)
	return e.differFrom(p, l, dst, &m.walk)
}

// differFrom walks the tokens that go on with the beginning of an item that is there.
func (e *engine) differFrom(p *place, l list, dst []uint64, walk *scratch) error {
	at, lists, m := walk.places, make([]list, e.v.depth+1), &walk.meter
	at[0], lists[0] = p, l
	for trie, i := e.v.trie, 0; i < len(trie); {
		n := &trie[i]
		q, err := e.step(at[n.depth-1], n.byte, m)
		if err == nil {
			err = m.Spend(1)
		}
		if err != nil {
			return err
		}
		if q == e.dead {
			i += int(n.size)
			continue
		}
		next, ok, err := e.follow(lists[n.depth-1], at[n.depth-1], n.byte, m)
		if err != nil {
			return err
		}
		if !ok {
			for _, below := range trie[i : i+int(n.size)] {
				e.v.unset(dst, below.token)
			}
		}
		begun := 0
		if ok {
			if begun, err = next.items.begun(next.text, m); err != nil {
				return err
			}
		}
		if begun == 0 {
			i += int(n.size)
			continue
		}
		at[n.depth], lists[n.depth] = q, next
		i++
	}
	return nil
}

// unset clears the bits of a node's tokens.
func (v *Vocabulary) unset(dst []uint64, token int32) {
	if token >= 0 {
		dst[token>>6] &^= 1 << (token & 63)
	}
	if token < none {
		for _, id := range v.many[-2-token] {
			dst[id>>6] &^= 1 << (id & 63)
		}
	}
}

// tokenPairs are the tokens that may hold the end of one item of a list and the beginning of another: a comma with something behind it. Those of
// opening have a bracket in front of it, and may begin a list, too.
type tokenPairs struct{ inside, opening []int32 }

// pairs finds them once.
func (v *Vocabulary) pairs() *tokenPairs {
	v.pairsOnce.Do(func() {
		for id, piece := range v.pieces {
			front, behind, ok := bytes.Cut(piece, []byte(","))
			if !ok || len(bytes.Trim(behind, ", \t\r\n")) == 0 {
				continue
			}
			v.pairTokens.inside = append(v.pairTokens.inside, int32(id))
			if bytes.IndexByte(front, '[') >= 0 || bytes.IndexByte(behind, '[') >= 0 {
				v.pairTokens.opening = append(v.pairTokens.opening, int32(id))
			}
		}
	})
	return &v.pairTokens
}
