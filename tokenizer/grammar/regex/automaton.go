package regex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/internal/work"
)

// Node is one regular expression of an Automaton. Equal nodes are equal languages; unequal nodes may be, too.
type Node uint32

// Nodes that every automaton has.
const (
	NoText    Node = iota // matches nothing
	EmptyText             // matches the empty text only
	AllText               // matches everything
)

// ErrSize is wrapped by errors of expressions and automata that exceed a limit.
var ErrSize = errors.New("the regular expression is too large")

const (
	maxDepth = 5_000
	maxNodes = 2_000_000
)

// node is a hash-consed expression; what a, b, lo and hi mean depends on op:
// bytes: a is the set; words: words[a][lo:hi] from their byte b on; concat: a then b; not: a; repeat: lo to hi times a (hi of
// unbounded is all ones); or, and: kids[lo:hi], sorted.
type node struct {
	op           op
	a, b, lo, hi uint32
}

const noMost = ^uint32(0)

// facts are what is known of a node from its making on.
type facts struct {
	nullable bool
	plain    bool // neither & nor ~ in it: some text matches it
}

// Automaton holds expressions as hash-consed nodes and derives them on demand. It is not safe for concurrent use. A call that ends with an
// error has changed nothing but what it may look up: made again, it goes on from there.
type Automaton struct {
	nodes   []node
	facts   []facts
	index   map[node]Node
	lists   map[string]Node // or and and, by op and kids
	kids    []Node
	sets    []ByteSet
	setOf   map[ByteSet]uint32
	words   [][]string
	derived map[uint64]Node
	alive   map[Node]bool
	tight   map[Node]Node
	clipped map[clip]Node
	letters Alphabet // scratch of search
	classes [256]uint8
	members []byte // one byte of each class
	key     []byte

	meter *work.Meter
	size  int64 // bytes of all the above
	most  int64 // bytes that there may be
	err   error // what ends the current call
}

// What entries take, in bytes, with what their tables have in reserve.
const (
	automatonSize = 3072
	nodeSize      = 96 // with its facts and its place in the index
	entrySize     = 40 // of a small table
	listSize      = 64 // of an or or and, beside its kids
	kidSize       = 10 // with its part of the list's key
	setSize       = 120
)

// Under says what the calls to come are counted by, and how many more bytes the automaton may take in all of them.
func (a *Automaton) Under(m *work.Meter, room int64) {
	a.meter, a.most = m, math.MaxInt64
	if room < math.MaxInt64-a.size {
		a.most = a.size + room
	}
}

// Bytes is about how much memory the automaton takes.
func (a *Automaton) Bytes() int64 { return a.size }

// begin opens a call.
func (a *Automaton) begin() {
	if a.err != nil {
		a.err = nil
	}
}

// spend counts work; false means that the call must end.
func (a *Automaton) spend(units int) bool {
	if a.err != nil {
		return false
	}
	if err := a.meter.Spend(units); err != nil {
		a.err = err
		return false
	}
	return true
}

// grow counts bytes.
func (a *Automaton) grow(bytes int) {
	if a.size += int64(bytes); a.size > a.most && a.err == nil {
		a.err = fmt.Errorf("%w: it has no room left", ErrSize)
	}
}

// NewAutomaton takes in expressions; the nodes of the roots are in their order. An expression that exceeds a limit is an ErrSize.
func NewAutomaton(roots ...*Regex) (*Automaton, []Node, error) {
	return NewAutomatonUnder(nil, math.MaxInt64, roots...)
}

// NewAutomatonUnder is NewAutomaton within a meter and some bytes.
func NewAutomatonUnder(m *work.Meter, room int64, roots ...*Regex) (*Automaton, []Node, error) {
	a := &Automaton{
		index: map[node]Node{}, lists: map[string]Node{}, setOf: map[ByteSet]uint32{}, derived: map[uint64]Node{}, alive: map[Node]bool{},
		tight: map[Node]Node{}, clipped: map[clip]Node{}, size: automatonSize,
	}
	a.Under(m, room)
	a.intern(node{op: opNothing}, facts{plain: true})
	a.intern(node{op: opEmpty}, facts{nullable: true, plain: true})
	a.intern(node{op: opNot, a: uint32(NoText)}, facts{nullable: true, plain: true})
	nodes := make([]Node, len(roots))
	l := lowering{a: a, seen: map[*Regex]Node{}}
	for i, r := range roots {
		if r.depth > maxDepth {
			return nil, nil, fmt.Errorf("%w: nested %d deep, the limit is %d", ErrSize, r.depth, maxDepth)
		}
		if nodes[i] = l.lower(r); a.err != nil {
			break
		}
	}
	if a.err != nil {
		return nil, nil, a.err
	}
	a.partition(l.bytes)
	return a, nodes, a.err
}

// Nullable reports whether a node matches the empty text.
func (a *Automaton) Nullable(n Node) bool { return a.facts[n].nullable }

// Classes is the number of classes of bytes: bytes of one class are told apart by no expression.
func (a *Automaton) Classes() int { return len(a.members) }

// Class gives the class of each byte.
func (a *Automaton) Class() *[256]uint8 { return &a.classes }

// Member is a byte of a class.
func (a *Automaton) Member(class int) byte { return a.members[class] }

// Size is the number of nodes.
func (a *Automaton) Size() int { return len(a.nodes) }

func (a *Automaton) intern(n node, f facts) Node {
	if id, ok := a.index[n]; ok {
		return id
	}
	if len(a.nodes) >= maxNodes && a.err == nil {
		a.err = fmt.Errorf("%w: more than %d derivatives", ErrSize, maxNodes)
	}
	id := Node(len(a.nodes))
	a.nodes, a.facts = append(a.nodes, n), append(a.facts, f)
	a.index[n] = id
	a.grow(nodeSize)
	a.spend(4)
	return id
}

func (a *Automaton) bytes(s ByteSet) Node {
	if s == (ByteSet{}) {
		return NoText
	}
	i, ok := a.setOf[s]
	if !ok {
		i = uint32(len(a.sets))
		a.sets = append(a.sets, s)
		a.setOf[s] = i
		a.grow(setSize)
	}
	return a.intern(node{op: opBytes, a: i}, facts{plain: true})
}

// wordRange is words lo to hi of a table from their byte at on.
func (a *Automaton) wordRange(table, at, lo, hi uint32) Node {
	w := a.words[table]
	switch {
	case lo == hi:
		return NoText
	case hi-lo == 1 && len(w[lo]) == int(at):
		return EmptyText
	}
	return a.intern(node{op: opWords, a: table, b: at, lo: lo, hi: hi}, facts{nullable: len(w[lo]) == int(at), plain: true})
}

func (a *Automaton) concat(x, y Node) Node {
	if !a.spend(1) {
		return NoText
	}
	switch {
	case x == NoText || y == NoText:
		return NoText
	case x == EmptyText:
		return y
	case y == EmptyText:
		return x
	case x == AllText && y == AllText:
		return AllText
	}
	if n := a.nodes[x]; n.op == opConcat {
		return a.concat(Node(n.a), a.concat(Node(n.b), y))
	}
	fx, fy := a.facts[x], a.facts[y]
	return a.intern(node{op: opConcat, a: uint32(x), b: uint32(y)}, facts{fx.nullable && fy.nullable, fx.plain && fy.plain})
}

func (a *Automaton) not(x Node) Node {
	if n := a.nodes[x]; n.op == opNot {
		return Node(n.a)
	}
	return a.intern(node{op: opNot, a: uint32(x)}, facts{nullable: !a.facts[x].nullable})
}

func (a *Automaton) repeat(x Node, least, most uint32) Node {
	f := a.facts[x]
	if f.nullable {
		least = 0
	}
	switch {
	case most == 0 || x == EmptyText || x == NoText && least == 0:
		return EmptyText
	case x == NoText || x == AllText:
		return x
	case least == 1 && most == 1:
		return x
	}
	if n := a.nodes[x]; n.op == opRepeat && n.lo <= 1 && n.hi == noMost && (n.lo == 0 || least <= 1) {
		return a.repeat(Node(n.a), min(least, n.lo), noMost)
	}
	return a.intern(node{op: opRepeat, a: uint32(x), lo: least, hi: most}, facts{least == 0, f.plain})
}

// list interns an or or an and of kids, which are sorted, without repetition and at least two.
func (a *Automaton) list(o op, kids []Node) Node {
	if !a.spend(len(kids)) {
		return NoText
	}
	a.key = append(a.key[:0], byte(o))
	f := facts{nullable: o == opAnd, plain: o == opOr}
	for _, k := range kids {
		a.key = binary.LittleEndian.AppendUint32(a.key, uint32(k))
		if o == opOr {
			f.nullable = f.nullable || a.facts[k].nullable
			f.plain = f.plain && a.facts[k].plain
		} else {
			f.nullable = f.nullable && a.facts[k].nullable
		}
	}
	if id, ok := a.lists[string(a.key)]; ok {
		return id
	}
	if a.grow(listSize + kidSize*len(kids)); a.err != nil {
		return NoText
	}
	from := uint32(len(a.kids))
	a.kids = append(a.kids, kids...)
	id := a.intern(node{op: o, lo: from, hi: uint32(len(a.kids))}, f)
	a.lists[string(a.key)] = id
	return id
}

// flatten appends x, or the kids of x where x is the same operation.
func (a *Automaton) flatten(o op, dst []Node, x Node) []Node {
	if n := a.nodes[x]; n.op == o {
		return append(dst, a.kids[n.lo:n.hi]...)
	}
	return append(dst, x)
}

func (a *Automaton) and(kids ...Node) Node {
	var flat []Node
	for _, k := range kids {
		flat = a.flatten(opAnd, flat, k)
	}
	if !a.spend(2 * len(flat)) {
		return NoText
	}
	slices.Sort(flat)
	flat = slices.Compact(flat)
	set, sets := ByteSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}, 0
	for _, k := range flat {
		switch {
		case k == NoText:
			return NoText
		case a.nodes[k].op == opBytes:
			set, sets = set.both(a.sets[a.nodes[k].a]), sets+1
		}
	}
	if slices.Contains(flat, EmptyText) {
		for _, k := range flat {
			if !a.facts[k].nullable {
				return NoText
			}
		}
		return EmptyText
	}
	kept := flat[:0]
	for _, k := range flat {
		if k != AllText && (sets < 2 || a.nodes[k].op != opBytes) {
			kept = append(kept, k)
		}
	}
	if sets >= 2 {
		s := a.bytes(set)
		if s == NoText {
			return NoText
		}
		kept = append(kept, s)
		slices.Sort(kept)
	}
	switch len(kept) {
	case 0:
		return AllText
	case 1:
		return kept[0]
	}
	return a.list(opAnd, kept)
}

func (a *Automaton) or(kids ...Node) Node {
	var flat []Node
	for _, k := range kids {
		flat = a.flatten(opOr, flat, k)
	}
	if !a.spend(2 * len(flat)) {
		return NoText
	}
	slices.Sort(flat)
	flat = slices.Compact(flat)
	var set ByteSet
	sets, repeats, nullable := 0, 0, false
	for _, k := range flat {
		switch n := a.nodes[k]; {
		case k == AllText:
			return AllText
		case n.op == opBytes:
			set, sets = set.union(a.sets[n.a]), sets+1
		case n.op == opRepeat, n.op == opConcat && a.nodes[n.a].op == opRepeat:
			repeats++
		}
		nullable = nullable || k != EmptyText && a.facts[k].nullable
	}
	kept := flat[:0]
	for _, k := range flat {
		if k == NoText || k == EmptyText && nullable || sets >= 2 && a.nodes[k].op == opBytes {
			continue
		}
		kept = append(kept, k)
	}
	if sets >= 2 {
		kept = append(kept, a.bytes(set))
		slices.Sort(kept)
	}
	if repeats >= 2 {
		kept = a.joinCounts(kept)
	}
	switch len(kept) {
	case 0:
		return NoText
	case 1:
		return kept[0]
	}
	return a.list(opOr, kept)
}

// counted is x repeated, followed by tail.
type counted struct {
	x, tail     Node
	least, most uint32
}

// joinCounts makes one node of alternatives that differ in their counts alone and whose counts touch: x{0,3}y|x{2,5}y is x{0,5}y.
// Without it the derivatives of x{0,1000}x{0,1000} would be a thousand alternatives long.
func (a *Automaton) joinCounts(kids []Node) []Node {
	var rest []Node
	var all []counted
	if !a.spend(4 * len(kids)) {
		return nil
	}
	for _, k := range kids {
		n, tail := a.nodes[k], EmptyText
		if n.op == opConcat {
			n, tail = a.nodes[n.a], Node(n.b)
		}
		if n.op != opRepeat {
			rest = append(rest, k)
			continue
		}
		all = append(all, counted{Node(n.a), tail, n.lo, n.hi})
	}
	slices.SortFunc(all, func(p, q counted) int {
		if p.x != q.x {
			return int(p.x) - int(q.x)
		}
		if p.tail != q.tail {
			return int(p.tail) - int(q.tail)
		}
		return int(p.least) - int(q.least)
	})
	for i := 0; i < len(all); {
		c := all[i]
		for i++; i < len(all) && all[i].x == c.x && all[i].tail == c.tail && (c.most == noMost || all[i].least <= c.most+1); i++ {
			c.most = max(c.most, all[i].most)
		}
		rest = append(rest, a.concat(a.repeat(c.x, c.least, c.most), c.tail))
	}
	slices.Sort(rest)
	return slices.Compact(rest)
}
