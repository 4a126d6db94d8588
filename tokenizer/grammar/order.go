package grammar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Member is a part of a list whose parts come in any order.
type Member struct {
	Symbols  []Symbol // one after the other
	Required bool
	Repeats  bool // it may come again and again; else it comes once at most
}

// AnyOrder is a list of members in any order, with separator between them: all that are required, and from least to most members in all;
// a negative most is no bound. One of those that repeat counts towards least at most once. The list has one member at least; the first symbol of a
// member and the separator may not be the empty text.
//
// What it takes grows with the number of members, and not with that of their orders: an answer carries the set of those that it has.
func (b *Builder) AnyOrder(members []Member, separator Symbol, least, most int) Symbol {
	s := symbol{kind: kindAnyOrder, child: separator, members: members, least: int32(max(least, 1)), most: int32(max(most, -1))} //nolint:gosec // checked below
	for _, m := range append([]Member{{Symbols: []Symbol{separator}}}, members...) {
		b.size += 1 + len(m.Symbols)
		for _, part := range m.Symbols {
			if !b.valid(part) {
				b.fail(fmt.Errorf("symbol %d is not of this builder", part))
				return 0
			}
		}
	}
	if int(s.least) != max(least, 1) || int(s.most) != max(most, -1) {
		b.fail(fmt.Errorf("a list of %d to %d members in any order: the counts are too large", least, most))
		return 0
	}
	return b.add(s)
}

var errEmptyMember = errors.New("a member of a list in any order, or its separator, may begin with the empty text")

// order is a list whose members come in any order.
type order struct {
	members     []member
	separator   step
	more        int32 // place behind a member: another one, or the end
	least, most int   // most is negative where unbounded
	required    int
	once        int // members that come once at most
	repeats     bool
}

type member struct {
	at       int32 // its place
	required bool
	repeats  bool
}

// written is what an answer has of a list in any order.
type written struct {
	has     []uint64 // by member
	once    int      // members that come once and are there
	further int      // members that repeat and are there, up to what counts
	missing int      // required members that are not there
}

func (w *written) with(i int) bool { return w.has[i>>6]>>(i&63)&1 != 0 }

// takes reports whether a member may come next, so that the list can still become what it has to be.
func (o *order) takes(w *written, i int) bool {
	m := &o.members[i]
	once, further, missing := w.once, w.further, w.missing
	switch {
	case m.repeats:
		further++
	case w.with(i):
		return false
	default:
		once++
		if m.required {
			missing--
		}
	}
	left := o.once - once
	if o.repeats && further == 0 {
		left++
	}
	if o.most >= 0 {
		room := o.most - once - further
		if room < missing {
			return false
		}
		left = min(left, room)
	}
	return once+min(further, 1)+left >= o.least
}

// complete reports whether a list may end.
func (o *order) complete(w *written) bool {
	return w.missing == 0 && w.once+min(w.further, 1) >= o.least
}

// goesOn reports whether any member may come next.
func (o *order) goesOn(w *written) bool {
	for i := range o.members {
		if o.takes(w, i) {
			return true
		}
	}
	return false
}

// after is what an answer has with a further member, which takes let through.
func (o *order) after(w *written, i int) *written {
	n := *w
	n.has = append([]uint64(nil), w.has...)
	switch m := &o.members[i]; {
	case m.repeats:
		n.further = min(n.further+1, max(o.most, 1))
	default:
		n.has[i>>6] |= 1 << (i & 63)
		n.once++
		if m.required {
			n.missing--
		}
	}
	return &n
}

// begun is what an answer has of a list before its first member.
func (o *order) begun() *written {
	return &written{has: make([]uint64, (len(o.members)+63)/64), missing: o.required}
}

// sets numbers what answers have of lists in any order, by the list; its engine's mutex guards it. Number 0 is a list before its first member.
type sets struct {
	of    []written
	index map[string]int32
	empty []*written // by list
	key   []byte
}

// set is what a number stands for.
func (t *placeTable) set(list, number int32) *written {
	s := &t.sets
	if number > 0 {
		return &s.of[number-1]
	}
	if s.empty == nil {
		s.empty = make([]*written, len(t.g.orders))
	}
	if s.empty[list] == nil {
		s.empty[list] = t.g.orders[list].begun()
		t.memory.grown(setSize + 8*len(s.empty[list].has))
	}
	return s.empty[list]
}

// join is the number of what an answer has of a list with a further member.
func (t *placeTable) join(list, number int32, i int) (int32, error) {
	s, w := &t.sets, t.set(list, number)
	if err := t.meter.Spend(setWork + 2*len(w.has)); err != nil {
		return 0, err
	}
	n := t.g.orders[list].after(w, i)
	s.key = binary.LittleEndian.AppendUint32(s.key[:0], uint32(list)) //nolint:gosec // an index
	s.key = binary.AppendUvarint(s.key, uint64(n.further))            //nolint:gosec // not negative
	for _, word := range n.has {
		s.key = binary.LittleEndian.AppendUint64(s.key, word)
	}
	if known, ok := s.index[string(s.key)]; ok {
		return known, nil
	}
	if s.index == nil {
		s.index = map[string]int32{}
	}
	s.of = append(s.of, *n)
	s.index[string(s.key)] = int32(len(s.of)) //nolint:gosec // bounded by memory
	t.memory.grown(setSize + 16*len(n.has))
	return int32(len(s.of)), nil //nolint:gosec // bounded by memory
}

// setWork is what a set takes beside its members, in units.
const setWork = 16

// join says that a list's member is there.
type join struct {
	list   int32
	member int32
}

// joined is an item whose member is complete, behind that member.
func (t *placeTable) joined(it item, j join) (item, error) {
	count, err := t.join(j.list, it.count, int(j.member))
	return item{t.g.orders[j.list].more, count, it.rule, it.row}, err
}

// pick visits the members that may come next.
func (p *prediction) pick(list int32, w waiting) {
	o, has := &p.g.orders[list], p.t.set(list, w.it.count)
	for i := range o.members {
		if p.places > p.g.limits.Items {
			return // which ends the prediction
		}
		if o.takes(has, i) {
			w.it.at = o.members[i].at
			p.visit(w)
		}
	}
	p.places += len(o.members) / 8 // those that were passed over
}

// ordered reports whether a list in any order has any text.
func (c *compiler) ordered(s *symbol) bool {
	for _, m := range s.members {
		if m.Required && !every(m.Symbols, c.fits) {
			return false
		}
	}
	o := c.order(s)
	return c.fits[s.child] && o.goesOn(o.begun())
}

// order is a list of the members that have a text.
func (c *compiler) order(s *symbol) order {
	o := order{least: int(s.least), most: int(s.most)}
	for _, m := range s.members {
		if !every(m.Symbols, c.fits) {
			continue
		}
		o.members = append(o.members, member{required: m.Required && !m.Repeats, repeats: m.Repeats})
		switch {
		case m.Repeats:
			o.repeats = true
			continue
		case m.Required:
			o.required++
		}
		o.once++
	}
	return o
}

// checkMembers refuses members of lists in any order that may begin with no text.
func (c *compiler) checkMembers() error {
	for i := range c.b.symbols {
		s := &c.b.symbols[i]
		if s.kind == kindAnyOrder && (c.empty[s.child] || slices.ContainsFunc(s.members, func(m Member) bool { return len(m.Symbols) == 0 || c.empty[m.Symbols[0]] })) {
			return errEmptyMember
		}
	}
	return nil
}

// writeOrder appends the code of a list in any order: its beginning, what comes behind a member, and each of the members.
func (c *compiler) writeOrder(s *symbol) {
	g, list := c.g, int32(len(c.g.orders))
	o := c.order(s)
	o.separator = c.steps[s.child]
	o.more = int32(len(g.code)) + 1
	g.code = append(g.code, step{opPick, list}, step{opMore, list}, step{opPick, list})
	i := 0
	for _, m := range s.members {
		if !every(m.Symbols, c.fits) {
			continue
		}
		o.members[i].at = int32(len(g.code))
		for _, part := range m.Symbols {
			g.code = append(g.code, c.steps[part])
		}
		g.code = append(g.code, step{opJoin, int32(len(g.joins))})
		g.joins = append(g.joins, join{list, int32(i)})
		i++
	}
	g.orders = append(g.orders, o)
}
