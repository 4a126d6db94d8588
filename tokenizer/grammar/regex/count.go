package regex

// Counted says of a node which is a repetition, followed by whatever may come, what it repeats and how often at most: as many texts of the node one,
// and fewer, are the beginning of a text that matches. Unbounded is no bound; ok is false for other nodes. An unbounded repetition may leave out
// texts of a finite number: some text is always left.
func (a *Automaton) Counted(id Node) (one Node, most int, ok bool, err error) {
	a.begin()
	one, most, ok = a.counted(id)
	return one, most, ok, a.err
}

func (a *Automaton) counted(id Node) (one Node, most int, ok bool) {
	n := a.nodes[id]
	if n.op == opConcat {
		if !a.facts[n.b].plain {
			return 0, 0, false
		}
		id, n = Node(n.a), a.nodes[n.a]
	}
	if n.op == opAnd {
		return a.countedBut(n)
	}
	if n.op != opRepeat || !a.facts[id].plain {
		return 0, 0, false
	}
	if n.hi == noMost {
		return Node(n.a), Unbounded, true
	}
	return Node(n.a), int(n.hi), true
}

// countedBut is Counted for an and of an unbounded repetition and the contraries of finite sets.
func (a *Automaton) countedBut(and node) (one Node, most int, ok bool) {
	for _, k := range a.kids[and.lo:and.hi] {
		switch n := a.nodes[k]; {
		case n.op == opNot && a.finite(Node(n.a)):
		case n.op == opRepeat && n.hi == noMost && a.facts[k].plain && !a.facts[n.a].nullable && !ok:
			one, ok = Node(n.a), true
		default:
			return 0, 0, false
		}
	}
	return one, Unbounded, ok
}

// finite reports whether a node plainly matches a finite number of texts.
func (a *Automaton) finite(id Node) bool {
	if !a.spend(1) {
		return false
	}
	n := a.nodes[id]
	switch n.op {
	case opNothing, opEmpty, opBytes, opWords:
		return true
	case opConcat:
		return a.finite(Node(n.a)) && a.finite(Node(n.b))
	case opOr:
		for _, k := range a.kids[n.lo:n.hi] {
			if !a.finite(k) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// clip is a question to Clip.
type clip struct {
	node  Node
	bytes uint32
}

// Clip gives a node that texts of fewer than some bytes cannot tell from a given one, neither by what may follow them nor by whether they match: counts
// that no such text reaches are made alike. A node with & or ~ in it is left as it is, since what may follow depends on all of it.
func (a *Automaton) Clip(id Node, bytes uint32) (Node, error) {
	a.begin()
	c := a.clip(id, bytes)
	return c, a.err
}

func (a *Automaton) clip(id Node, bytes uint32) Node {
	if !a.spend(1) {
		return NoText
	}
	n := a.nodes[id]
	if !a.facts[id].plain || n.op != opRepeat && n.op != opConcat && n.op != opOr {
		return id
	}
	key := clip{id, bytes}
	if c, ok := a.clipped[key]; ok {
		return c
	}
	var c Node
	switch n.op {
	case opRepeat:
		most := n.hi
		if most >= bytes {
			most = noMost
		}
		c = a.repeat(Node(n.a), min(n.lo, bytes), most)
	case opConcat:
		c = a.concat(a.clip(Node(n.a), bytes), a.clip(Node(n.b), bytes))
	default:
		kids := make([]Node, 0, n.hi-n.lo)
		for i := n.lo; i < n.hi; i++ { // a.kids may grow meanwhile
			if kids = append(kids, a.clip(a.kids[i], bytes)); a.err != nil {
				return NoText
			}
		}
		c = a.or(kids...)
	}
	if a.grow(entrySize); a.err == nil {
		a.clipped[key] = c
	}
	return c
}
