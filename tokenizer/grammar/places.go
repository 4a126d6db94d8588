package grammar

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"weir/internal/work"
)

// place is where an answer stands: for each row at which a terminal in progress began, that terminal's lexer state. Places are
// hash-consed, and equal places have equal futures.
type place struct {
	parts []part
	end   bool // the answer may end here
	next  atomic.Pointer[steps]
	mask  atomic.Pointer[known]
	only  atomic.Int32 // the byte that must come, as onlyByte keeps it
}

// steps are the places after a place: of[class] says in which slot of to a byte leads to. Slots are filled as bytes come up.
type steps struct {
	of []uint8
	to []atomic.Pointer[place]
}

type part struct {
	row *row
	lex *lexState
}

// after is the place after a class of bytes, nil where it is not known yet.
func (p *place) after(class uint8) *place {
	s := p.next.Load()
	if s == nil {
		return nil
	}
	return s.to[s.of[class]].Load()
}

// placeTable holds the places of answers that are known, with the rows and the lexer states that they consist of, and works out further ones.
type placeTable struct {
	g       *Grammar
	control []int32 // ids of the grammar's control tokens, by terminal less the number of expressions
	classes int
	dead    *place
	memory  memory
	meter   *work.Meter // of the current call
	lexer   *lexer
	rows    map[string]*row
	places  map[string]*place
	build   rowBuilder
	sets    sets
	key     []byte
}

// init makes the place before any answer, and gives it.
func (t *placeTable) init(g *Grammar, v *Vocabulary, m *work.Meter, dead *place) (*place, error) {
	t.g, t.dead, t.meter, t.rows, t.places = g, dead, m, map[string]*row{}, map[string]*place{}
	t.build = rowBuilder{t: t, seen: map[item]bool{}, done: map[item]bool{}}
	var err error
	if t.lexer, err = newLexer(t); err != nil {
		return nil, err
	}
	t.classes = t.lexer.auto.Classes()
	t.memory.grown(grammarSize)
	for _, name := range g.tokens {
		id, err := v.controlID(name)
		if err != nil {
			return nil, err
		}
		t.control = append(t.control, id)
	}
	if err := t.build.add(item{at: g.start, rule: g.root}); err != nil {
		return nil, err
	}
	r, err := t.build.take()
	if err != nil {
		return nil, err
	}
	return t.arrive(nil, r)
}

func (t *placeTable) size() int { return len(t.places) + len(t.rows) + len(t.lexer.states) }

// placeWork is what a place takes beside its parts, in units.
const placeWork = 16

func (t *placeTable) derive(p *place, class uint8) (*place, error) {
	if err := t.meter.Spend(placeWork + len(p.parts)); err != nil {
		return nil, err
	}
	if err := t.open(p); err != nil {
		return nil, err
	}
	parts := make([]part, 0, len(p.parts)+1)
	var reached *row
	for _, x := range p.parts {
		n := x.lex.next.Load()
		s := n.to[n.of[class]]
		if s == t.lexer.dead {
			continue
		}
		if s.bytes {
			parts = append(parts, part{x.row, s})
		}
		if len(s.ends) == 0 {
			continue
		}
		r, err := t.after(x.row, s)
		if err != nil {
			return nil, err
		}
		if reached, err = t.merge(reached, r); err != nil {
			return nil, err
		}
	}
	return t.arrive(parts, reached)
}

// open makes the slots of a place: one for the classes that lead each of its terminals to the same states.
func (t *placeTable) open(p *place) error {
	if p.next.Load() != nil {
		return nil
	}
	s := &steps{}
	count := 1
	for i, x := range p.parts {
		n, err := t.lexer.derive(x.lex)
		if err != nil {
			return err
		}
		if i == 0 {
			s.of, count = n.of, len(n.to)
			continue
		}
		if err := t.meter.Spend(t.classes); err != nil {
			return err
		}
		both := make([]uint8, t.classes)
		slot := map[[2]uint8]uint8{}
		for c := range both {
			pair := [2]uint8{s.of[c], n.of[c]}
			if _, ok := slot[pair]; !ok {
				slot[pair] = uint8(len(slot))
			}
			both[c] = slot[pair]
		}
		s.of, count = t.lexer.partition(both), len(slot)
	}
	if len(p.parts) == 0 {
		s.of = t.lexer.partition(make([]uint8, t.classes))
	}
	s.to = make([]atomic.Pointer[place], count)
	t.memory.grown(stepSize * count)
	p.next.Store(s)
	return nil
}

// arrive is the place of terminals in progress and a row that was just reached.
func (t *placeTable) arrive(parts []part, reached *row) (*place, error) {
	end := false
	if reached != nil {
		end = reached.end
		if reached.lexer != nil {
			parts = append(parts, part{reached, reached.lexer})
		}
	}
	return t.intern(end, parts)
}

func (t *placeTable) named(p *place, id int32) (*place, error) {
	var reached *row
	for _, x := range p.parts {
		for _, term := range x.lex.tokens {
			if t.control[int(term)-len(t.g.regexes)] != id {
				continue
			}
			i, _ := slices.BinarySearch(x.row.terms, term)
			for _, it := range x.row.after[i] {
				if err := t.build.add(it); err != nil {
					return nil, err
				}
			}
			r, err := t.build.take()
			if err == nil {
				reached, err = t.merge(reached, r)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return t.arrive(nil, reached)
}

// after is the row that a row's terminals lead to where they may be over.
func (t *placeTable) after(r *row, s *lexState) (*row, error) {
	if n := r.reached[s.id]; n != nil {
		return n, nil
	}
	for _, term := range s.ends {
		i, _ := slices.BinarySearch(r.terms, term)
		for _, it := range r.after[i] {
			if err := t.build.add(it); err != nil {
				return nil, err
			}
		}
	}
	n, err := t.build.take()
	if err != nil {
		return nil, err
	}
	if r.reached == nil {
		r.reached = map[uint32]*row{}
	}
	r.reached[s.id] = n
	t.memory.grown(4 * stepSize)
	return n, nil
}

// merge is the row of the items of two rows that were reached at one byte.
func (t *placeTable) merge(a, b *row) (*row, error) {
	if a == nil || a == b {
		return b, nil
	}
	for _, r := range []*row{a, b} {
		for _, it := range r.items {
			if err := t.build.add(it); err != nil {
				return nil, err
			}
		}
		t.build.end = t.build.end || r.end
	}
	return t.build.take()
}

func (t *placeTable) intern(end bool, parts []part) (*place, error) {
	if len(parts) == 0 && !end {
		return t.dead, nil
	}
	if len(parts) > 1 {
		if err := t.meter.Spend(2 * len(parts)); err != nil {
			return nil, err
		}
		slices.SortFunc(parts, func(a, b part) int {
			if a.row != b.row {
				return int(a.row.id) - int(b.row.id)
			}
			return int(a.lex.id) - int(b.lex.id)
		})
		parts = slices.Compact(parts)
	}
	t.key = append(t.key[:0], 0)
	if end {
		t.key[0] = 1
	}
	for _, x := range parts {
		t.key = binary.LittleEndian.AppendUint32(t.key, x.row.id)
		t.key = binary.LittleEndian.AppendUint32(t.key, x.lex.id)
	}
	if p, ok := t.places[string(t.key)]; ok {
		return p, nil
	}
	p := &place{parts: slices.Clone(parts), end: end}
	t.places[string(t.key)] = p
	t.memory.grown(placeSize + 2*partSize*len(parts))
	return p, nil
}
