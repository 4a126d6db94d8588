package grammar

import "weir/internal/work"

// token is the place after a token. A token that has both a text and a name in the grammar is taken as either.
func (e *engine) token(p *place, id int32, m *work.Meter) (*place, error) {
	dead := e.dead
	n := dead
	var err error
	if piece := e.v.pieces[id]; len(piece) > 0 && len(piece) <= maxPiece {
		n = p
		for _, b := range piece {
			if n, err = e.step(n, b, m); err != nil || n == dead {
				break
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if len(e.table.control) == 0 {
		return n, nil
	}
	if err := spendParts(m, p); err != nil {
		return nil, err
	}
	for _, x := range p.parts {
		for _, t := range x.lex.tokens {
			if e.table.control[int(t)-len(e.g.regexes)] == id {
				named, err := e.take(p, id, m)
				if err != nil || n == dead {
					return named, err
				}
				return e.either(n, named, m)
			}
		}
	}
	return n, nil
}

// fill makes dst the tokens that may come at a place: those that stay inside the terminals in progress, and those that the parser takes
// past a terminal's end. The latter are few, and kept.
func (e *engine) fill(p *place, dst []uint64, walk *scratch) error {
	if err := spendParts(&walk.meter, p); err != nil {
		return err
	}
	clear(dst)
	splits := walk.splits[:0]
	for _, x := range p.parts {
		if !x.lex.bytes {
			continue
		}
		k, err := e.split(x.lex, walk)
		if err != nil {
			return err
		}
		k.tokens.addTo(dst)
		splits = append(splits, k)
	}
	walk.splits = splits[:0]
	if k := p.mask.Load(); k != nil {
		k.used.Store(true)
		k.tokens.addTo(dst)
		return nil
	}
	walk.grow(e.v)
	past := walk.bits[:e.v.words]
	clear(past)
	for _, k := range splits {
		if err := e.walkSplit(p, k, past, walk); err != nil {
			return err
		}
	}
	e.fillControl(p, past)
	for i, w := range dst {
		dst[i], past[i] = w|past[i], past[i]&^w
	}
	e.v.cache.put(&p.mask, &known{tokens: newTokenSet(past)})
	return nil
}

// scratch is what the walks of one matcher use again.
type scratch struct {
	places  []*place // by depth of the trie
	lexes   []*lexState
	past    []bool // by depth: a terminal may be over there or above
	bits    []uint64
	splits  []*known
	letters []byte     // of contains
	meter   work.Meter // of the current call
}

// spendParts counts a look at all parts of a place. Few are free, so that what is known costs nothing.
func spendParts(m *work.Meter, p *place) error {
	const free, each = 8, 64
	if len(p.parts) <= free {
		return nil
	}
	return m.Spend(each * len(p.parts))
}

// nodesPerUnit is how many nodes of a trie are passed in a unit. They are counted by their places, some at once.
const (
	nodesPerUnit = 4
	countedNodes = 256
)

// grow makes the scratch large enough for a vocabulary.
func (s *scratch) grow(v *Vocabulary) {
	if len(s.bits) < v.words || len(s.places) <= v.depth {
		s.bits, s.places = make([]uint64, v.words), make([]*place, v.depth+1)
		s.lexes, s.past = make([]*lexState, v.depth+1), make([]bool, v.depth+1)
	}
}

// split says what the tokens do at a lexer state, whatever the parser's row is: they stay inside the terminals in progress, they run past
// the end of one, or they do not fit.
func (e *engine) split(s *lexState, walk *scratch) (*known, error) {
	s, err := e.like(s, &walk.meter)
	if err != nil {
		return nil, err
	}
	if k := s.split.Load(); k != nil {
		k.used.Store(true)
		return k, nil
	}
	v := e.v
	walk.grow(v)
	inside := walk.bits[:v.words]
	clear(inside)
	trie := v.trie
	for _, sl := range v.slices {
		ok, err := e.inside(s, sl, walk)
		if err != nil {
			return nil, err
		}
		if ok {
			copy(inside, sl.tokens)
			trie = sl.rest
			break
		}
	}
	lexes, past, class, dead := walk.lexes, walk.past, e.class, e.table.lexer.dead
	lexes[0], past[0] = s, false
	p := pruned{from: trie}
	for i, due := 0, countedNodes; i < len(trie); {
		if i >= due {
			if err := walk.meter.Spend(countedNodes / nodesPerUnit); err != nil {
				return nil, err
			}
			due = i + countedNodes
		}
		n := &trie[i]
		var q *lexState
		if next := lexes[n.depth-1].next.Load(); next != nil {
			q = next.to[next.of[class[n.byte]]]
		} else {
			var err error
			if q, err = e.lexStep(lexes[n.depth-1], n.byte, walk); err != nil {
				return nil, err
			}
		}
		p.at(i)
		if q == dead {
			if past[n.depth-1] {
				p.keepTree(i)
			}
			i += int(n.size)
			continue
		}
		lexes[n.depth], past[n.depth] = q, past[n.depth-1] || len(q.ends) > 0
		if n.token != none {
			v.set(inside, n.token)
		}
		i++
	}
	k := &known{tokens: newTokenSet(inside), cross: p.take(), whole: trie}
	v.cache.put(&s.split, k)
	return k, nil
}

// like is the state whose split is that of a state, too: one where counts that no token reaches are no bound.
func (e *engine) like(s *lexState, m *work.Meter) (*lexState, error) {
	if c := s.like.Load(); c != nil {
		return c, nil
	}
	if err := e.enter(m); err != nil {
		return nil, err
	}
	defer e.leave()
	c, err := e.table.lexer.clip(s, e.v.depth+1)
	if err != nil {
		return nil, e.wrong(err)
	}
	return c, nil
}

// lexStep is the lexer state after a byte.
func (e *engine) lexStep(s *lexState, b byte, walk *scratch) (*lexState, error) {
	if s == e.table.lexer.dead {
		return s, nil
	}
	c := e.class[b]
	if n := s.next.Load(); n != nil {
		return n.to[n.of[c]], nil
	}
	if err := e.enter(&walk.meter); err != nil {
		return nil, err
	}
	defer e.leave()
	n, err := e.table.lexer.derive(s)
	if err != nil {
		return nil, e.wrong(err)
	}
	return n.to[n.of[c]], nil
}

func (e *engine) fillControl(p *place, dst []uint64) {
	for _, x := range p.parts {
		for _, t := range x.lex.tokens {
			e.v.set(dst, e.table.control[int(t)-len(e.g.regexes)])
		}
	}
}

// walkSplit sets the bits of the tokens that run past a terminal's end and may come at a place.
func (e *engine) walkSplit(p *place, k *known, dst []uint64, walk *scratch) error {
	walk.places[0] = p
	return e.walkTrie(k.cross, k.whole, dst, walk)
}

// walkTrie walks a trie whose nodes' parents have their places in walk.
func (e *engine) walkTrie(trie, whole []node, dst []uint64, walk *scratch) error {
	at, dead, class := walk.places, e.dead, e.class
	for i, due := 0, countedNodes; i < len(trie); {
		if i >= due {
			if err := walk.meter.Spend(countedNodes / nodesPerUnit); err != nil {
				return err
			}
			due = i + countedNodes
		}
		n := &trie[i]
		c, depth := class[n.byte], n.depth&^wholeTree
		q := at[depth-1].after(c)
		if q == nil {
			var err error
			if q, err = e.work(at[depth-1], c, &walk.meter); err != nil {
				return err
			}
		}
		if q == dead {
			i += int(n.size)
			continue
		}
		at[depth] = q
		i++
		if n.depth != depth {
			tree := whole[n.token : n.token+int32(whole[n.token].size)]
			e.v.set(dst, tree[0].token)
			if err := e.walkTrie(tree[1:], nil, dst, walk); err != nil {
				return err
			}
			continue
		}
		if n.token != none {
			e.v.set(dst, n.token)
		}
	}
	return nil
}
