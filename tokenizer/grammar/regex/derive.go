package regex

import (
	"fmt"
	"slices"
	"sort"
)

// Derive gives the node that matches what may follow a byte.
func (a *Automaton) Derive(n Node, b byte) (Node, error) {
	a.begin()
	d := a.derive(n, b)
	return d, a.err
}

// derive gives any node once the call must end; what is made of it is not kept.
func (a *Automaton) derive(id Node, b byte) Node {
	if !a.spend(1) {
		return NoText
	}
	n := a.nodes[id]
	switch n.op {
	case opBytes:
		if a.sets[n.a].Has(b) {
			return EmptyText
		}
		return NoText
	case opWords:
		return a.deriveWords(n, b)
	case opMultiple:
		return a.deriveMultiple(id, n, b)
	case opNothing, opEmpty:
		return NoText
	default: // what is put together, below
	}
	if id == AllText {
		return AllText
	}
	key := uint64(id)<<8 | uint64(a.classes[b])
	if d, ok := a.derived[key]; ok {
		return d
	}
	d := a.deriveNode(n, b)
	if a.grow(entrySize); a.err == nil {
		a.derived[key] = d
	}
	return d
}

func (a *Automaton) deriveNode(n node, b byte) Node {
	switch n.op {
	case opConcat:
		d := a.concat(a.derive(Node(n.a), b), Node(n.b))
		if !a.facts[n.a].nullable {
			return d
		}
		return a.or(d, a.derive(Node(n.b), b))
	case opNot:
		return a.not(a.derive(Node(n.a), b))
	case opRepeat:
		d := a.derive(Node(n.a), b)
		if d == NoText {
			return NoText
		}
		most := n.hi
		if most != noMost {
			most--
		}
		return a.concat(d, a.repeat(Node(n.a), max(n.lo, 1)-1, most))
	default: // or and and, below
	}
	kids := make([]Node, 0, n.hi-n.lo)
	for i := n.lo; i < n.hi; i++ { // a.kids may grow meanwhile
		d := a.derive(a.kids[i], b)
		if a.err != nil || n.op == opAnd && d == NoText {
			return NoText
		}
		if d != NoText {
			kids = append(kids, d)
		}
	}
	if n.op == opOr {
		return a.or(kids...)
	}
	return a.and(kids...)
}

func (a *Automaton) deriveWords(n node, b byte) Node {
	words, at := a.words[n.a][n.lo:n.hi], int(n.b)
	skip := 0
	if len(words[0]) == at {
		skip = 1
	}
	words = words[skip:]
	from := sort.Search(len(words), func(i int) bool { return words[i][at] >= b })
	count := sort.Search(len(words)-from, func(i int) bool { return words[from+i][at] > b })
	lo := n.lo + uint32(skip+from)
	return a.wordRange(n.a, n.b+1, lo, lo+uint32(count))
}

// maxSearch bounds the derivatives that Alive looks at.
const maxSearch = 20_000

// Alive reports whether any text matches a node. With & and ~ in a node that takes a search through its derivatives; one that does not
// end in time is an ErrSize.
func (a *Automaton) Alive(n Node) (bool, error) {
	a.begin()
	if n == NoText {
		return false, a.err
	}
	if f := a.facts[n]; f.plain || f.nullable {
		return true, a.err
	}
	if known, ok := a.alive[n]; ok {
		return known, a.err
	}
	if t := a.tighten(n); t != n {
		switch alive, err := a.search(t); {
		case a.err != nil:
			return false, a.err
		case alive && err == nil:
			a.keepAlive(n, true)
			return true, a.err
		}
	}
	return a.search(n)
}

// slack is how much room tighten leaves between a count's two ends.
const slack = 16

// tighten gives a node that matches some of a node's texts: the upper counts are cut down to what is near the lower ones. Nodes that differ in how
// much of a large count is left have one tight node, so that one search says of all of them that they are alive.
func (a *Automaton) tighten(id Node) Node {
	if !a.spend(1) {
		return NoText
	}
	n := a.nodes[id]
	switch n.op {
	case opRepeat, opConcat, opOr, opAnd:
	default:
		return id
	}
	if t, ok := a.tight[id]; ok {
		return t
	}
	t := id
	switch n.op {
	case opRepeat:
		if n.hi != noMost && n.hi > n.lo+slack {
			t = a.repeat(Node(n.a), n.lo, n.lo+slack)
		}
	case opConcat:
		t = a.concat(a.tighten(Node(n.a)), a.tighten(Node(n.b)))
	default:
		kids := make([]Node, 0, n.hi-n.lo)
		for i := n.lo; i < n.hi; i++ { // a.kids may grow meanwhile
			if kids = append(kids, a.tighten(a.kids[i])); a.err != nil {
				return NoText
			}
		}
		if n.op == opOr {
			t = a.or(kids...)
		} else {
			t = a.and(kids...)
		}
	}
	if a.grow(entrySize); a.err == nil {
		a.tight[id] = t
	}
	return t
}

// keepAlive notes what a search has found out.
func (a *Automaton) keepAlive(n Node, alive bool) {
	if a.grow(entrySize); a.err == nil {
		a.alive[n] = alive
	}
}

// search looks for a text of a node among its derivatives.
func (a *Automaton) search(n Node) (bool, error) {
	if n == NoText {
		return false, a.err
	}
	if f := a.facts[n]; f.plain || f.nullable {
		return true, a.err
	}
	if known, ok := a.alive[n]; ok {
		return known, a.err
	}
	queue, from := []Node{n}, map[Node]Node{n: n}
	for first, turn := 0, 0; first < len(queue); turn++ {
		if len(from) > maxSearch {
			return false, fmt.Errorf("%w: no text was found that it matches within %d derivatives; use simpler patterns or smaller counts",
				ErrSize, maxSearch)
		}
		// The oldest and the newest by turns: short texts and long ones are both found soon.
		x := queue[first]
		if turn%2 == 0 {
			first++
		} else {
			x = queue[len(queue)-1]
			queue = queue[:len(queue)-1]
		}
		a.letters.Reset(a)
		a.letters.refine(a, x)
		for part := range a.letters.Count {
			d := a.derive(x, a.members[slices.Index(a.letters.Of, uint8(part))]) //nolint:gosec // there are 256 parts at most
			if a.err != nil {
				return false, a.err
			}
			if _, seen := from[d]; seen || d == NoText {
				continue
			}
			from[d] = x
			known, ok := a.alive[d]
			if ok && !known {
				continue
			}
			if ok || a.facts[d].plain || a.facts[d].nullable {
				for x := d; ; x = from[x] { // every node on the way leads there, too
					a.keepAlive(x, true)
					if x == n {
						return true, a.err
					}
				}
			}
			queue = append(queue, d)
		}
	}
	for x := range from {
		a.keepAlive(x, false)
	}
	return false, a.err
}

// Alphabet is a partition of the classes of an automaton: the field Of gives each class its part, and Count is how many parts there are. Bytes of one
// part lead on from a node, or from several nodes at once, alike.
type Alphabet struct {
	Of    []uint8
	Count int
	seen  map[uint32]bool // sets that were refined by
	split [256]int16      // scratch: by part, the part of its members that a set has
	size  [256]int16      // by part, how many classes
	moved [256]int16      // scratch: by part, how many classes a set has of it
}

// Reset makes one part of all classes.
func (p *Alphabet) Reset(a *Automaton) {
	p.Of = append(p.Of[:0], make([]uint8, len(a.members))...)
	p.Count = 1
	p.size[0] = int16(len(a.members))
	if p.seen == nil {
		p.seen = map[uint32]bool{}
	}
	clear(p.seen)
}

// Refine cuts the parts where the derivatives of a node may differ.
func (p *Alphabet) Refine(a *Automaton, id Node) error {
	a.begin()
	p.refine(a, id)
	return a.err
}

func (p *Alphabet) refine(a *Automaton, id Node) {
	if !a.spend(1) {
		return
	}
	n := a.nodes[id]
	switch n.op {
	case opBytes:
		if !p.seen[n.a] {
			p.seen[n.a] = true
			p.cut(a, &a.sets[n.a])
		}
	case opWords:
		words, at := a.words[n.a][n.lo:n.hi], int(n.b)
		if len(words[0]) == at {
			words = words[1:]
		}
		for len(words) > 0 {
			b := words[0][at]
			var one ByteSet
			one.Add(b)
			p.cut(a, &one)
			words = words[sort.Search(len(words), func(i int) bool { return words[i][at] > b }):]
		}
	case opMultiple:
		for b := byte('0'); b <= '9'; b++ {
			var one ByteSet
			one.Add(b)
			p.cut(a, &one)
		}
	case opConcat:
		p.refine(a, Node(n.a))
		if a.facts[n.a].nullable {
			p.refine(a, Node(n.b))
		}
	case opNot, opRepeat:
		p.refine(a, Node(n.a))
	case opOr, opAnd:
		for _, k := range a.kids[n.lo:n.hi] {
			p.refine(a, k)
		}
	default: // no byte leads on
	}
}

// cut gives the classes that a set has parts of their own.
func (p *Alphabet) cut(a *Automaton, set *ByteSet) {
	if !a.spend(len(p.Of) / 4) {
		return
	}
	clear(p.moved[:p.Count])
	for c, part := range p.Of {
		if set.Has(a.members[c]) {
			p.moved[part]++
		}
	}
	before := p.Count
	for part := range before {
		p.split[part] = int16(part)
		if p.moved[part] > 0 && p.moved[part] < p.size[part] {
			p.split[part] = int16(p.Count)
			p.size[p.Count] = p.moved[part]
			p.size[part] -= p.moved[part]
			p.Count++
		}
	}
	if p.Count == before {
		return
	}
	for c, part := range p.Of {
		if set.Has(a.members[c]) {
			p.Of[c] = uint8(p.split[part])
		}
	}
}
