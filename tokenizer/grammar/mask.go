package grammar

// token is the place after a token. A token that has both a text and a name in the grammar is taken as either.
func (e *engine) token(p *place, id int32) (*place, error) {
	dead := e.dead
	n := dead
	var err error
	if piece := e.v.pieces[id]; len(piece) > 0 && len(piece) <= maxPiece {
		n = p
		for _, b := range piece {
			if n, err = e.step(n, b); err != nil || n == dead {
				break
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if len(e.control) == 0 {
		return n, nil
	}
	for _, x := range p.parts {
		for _, t := range x.lex.tokens {
			if e.control[int(t)-len(e.g.regexes)] == id {
				named, err := e.take(p, id)
				if err != nil || n == dead {
					return named, err
				}
				return e.either(n, named)
			}
		}
	}
	return n, nil
}

// fill sets the bits of the tokens that may come at a place.
func (e *engine) fill(p *place, dst []uint64, walk *[]*place) error {
	if err := e.walkTrie(p, e.v.trie, dst, walk); err != nil {
		return err
	}
	e.fillControl(p, dst)
	return nil
}

func (e *engine) fillControl(p *place, dst []uint64) {
	for _, x := range p.parts {
		for _, t := range x.lex.tokens {
			e.v.set(dst, e.control[int(t)-len(e.g.regexes)])
		}
	}
}

// walkTrie sets the bits of the tokens of a trie that may come at a place.
func (e *engine) walkTrie(p *place, trie []node, dst []uint64, walk *[]*place) error {
	if len(*walk) <= e.v.depth {
		*walk = make([]*place, e.v.depth+1)
	}
	at := *walk
	at[0] = p
	dead, class := e.dead, e.class
	for i := 0; i < len(trie); {
		n := &trie[i]
		q := at[n.depth-1].next[class[n.byte]].Load()
		if q == nil {
			var err error
			if q, err = e.work(at[n.depth-1], class[n.byte]); err != nil {
				return err
			}
		}
		if q == dead {
			i += int(n.size)
			continue
		}
		at[n.depth] = q
		if n.token != none {
			e.v.set(dst, n.token)
		}
		i++
	}
	return nil
}
