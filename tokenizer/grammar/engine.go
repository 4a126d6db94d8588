package grammar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"weir/internal/work"
	"weir/tokenizer/grammar/regex"
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

// engine holds what the matchers of one grammar over one vocabulary have worked out so far. Steps that are known are read without a lock.
type engine struct {
	g       *Grammar
	v       *Vocabulary
	control []int32 // ids of the grammar's control tokens, by terminal less the number of expressions
	class   *[256]uint8
	classes int
	start   *place
	dead    *place
	account *work.Account // of what all of it takes
	empty   int64         // bytes before any answer
	slow    atomic.Int32  // goroutines that hold mu, or wait for it, and take their time

	mu     sync.Mutex
	meter  *work.Meter // of who holds mu
	lexer  *lexer
	rows   map[string]*row
	places map[string]*place
	build  rowBuilder
	added  int64 // bytes that the account does not know of yet
	sets   sets
	key    []byte
}

// newEngine makes an engine.
func newEngine(g *Grammar, v *Vocabulary, m *work.Meter) (*engine, error) {
	e := &engine{
		g: g, v: v, dead: &place{}, rows: map[string]*row{}, places: map[string]*place{}, meter: m,
	}
	e.account = work.Of(e, max(1, int64(g.limits.Bytes)-g.own.Bytes()), g.account)
	var err error
	if e.lexer, err = newLexer(e); err != nil {
		return nil, e.wrong(err)
	}
	e.class, e.classes = e.lexer.auto.Class(), e.lexer.auto.Classes()
	e.grown(grammarSize)
	e.build = rowBuilder{e: e, seen: map[item]bool{}, done: map[item]bool{}}
	if err := e.begin(); err != nil {
		return nil, e.wrong(err)
	}
	e.tell()
	e.empty = e.account.Bytes()
	return e, nil
}

// begin makes the place before any answer.
func (e *engine) begin() error {
	g, v := e.g, e.v
	for _, t := range g.tokens {
		id, err := v.controlID(t)
		if err != nil {
			return err
		}
		e.control = append(e.control, id)
	}
	if err := e.build.add(item{at: g.start, rule: g.root}); err != nil {
		return err
	}
	r, err := e.build.take()
	if err != nil {
		return err
	}
	e.start, err = e.arrive(nil, r)
	return err
}

// enter takes the engine for one call, which m counts. The caller leaves.
func (e *engine) enter(m *work.Meter) error {
	if m != nil && m.Hurried {
		for !e.mu.TryLock() { // a second worker that hurries is done at once
			if e.slow.Load() > 0 {
				return work.ErrLate
			}
			runtime.Gosched()
		}
	} else {
		e.slow.Add(1)
		if !e.mu.TryLock() {
			m.Wait(e.mu.Lock)
		}
	}
	e.meter = m
	room := e.account.Room()
	e.lexer.auto.Under(m, room)
	if room > 0 && e.size() <= e.g.limits.States {
		return nil
	}
	e.g.drop(e)
	e.leave()
	return limitError("bytes or places of answers", min(e.g.limits.Bytes, e.g.limits.States), "make the grammar less ambiguous or the answer shorter")
}

func (e *engine) leave() {
	if e.added != 0 { // else nothing was
		e.tell()
		if e.full() {
			e.g.drop(e)
		}
	}
	if m := e.meter; m == nil || !m.Hurried {
		e.slow.Add(-1)
	}
	e.meter = nil
	e.mu.Unlock()
}

// wrong is the error of a call that failed: the rows that it began are dropped. All else is as it was, with what may be looked up.
func (e *engine) wrong(err error) error {
	e.build.reset()
	if errors.Is(err, regex.ErrSize) {
		return fmt.Errorf("%w: %w", ErrLimit, err)
	}
	return err
}

// full reports whether new matchers should begin with an engine of their own: too much has been worked out, or there is no room for more.
func (e *engine) full() bool {
	return e.size() > e.g.limits.States/4 || e.kept() > e.g.limits.Bytes/4 || e.account.Room() <= 0
}

// kept is what the answers so far have added to the memory of the engine.
func (e *engine) kept() int { return int(e.account.Bytes() - e.empty) }

func (e *engine) size() int { return len(e.places) + len(e.rows) + len(e.lexer.states) }

// step is the place after a byte.
func (e *engine) step(p *place, b byte, m *work.Meter) (*place, error) {
	c := e.class[b]
	if n := p.after(c); n != nil {
		return n, nil
	}
	return e.work(p, c, m)
}

// after is the place after a class of bytes, nil where it is not known yet.
func (p *place) after(class uint8) *place {
	s := p.next.Load()
	if s == nil {
		return nil
	}
	return s.to[s.of[class]].Load()
}

// work finds out where a class of bytes leads.
func (e *engine) work(p *place, class uint8, m *work.Meter) (*place, error) {
	if err := e.enter(m); err != nil {
		return nil, err
	}
	defer e.leave()
	if n := p.after(class); n != nil {
		return n, nil
	}
	n, err := e.derive(p, class)
	if err != nil {
		return nil, e.wrong(err)
	}
	s := p.next.Load()
	s.to[s.of[class]].Store(n)
	return n, nil
}

// placeWork is what a place takes beside its parts, in units.
const placeWork = 16

// open makes the slots of a place: one for the classes that lead each of its terminals to the same states.
func (e *engine) open(p *place) error {
	if p.next.Load() != nil {
		return nil
	}
	s := &steps{}
	count := 1
	for i, x := range p.parts {
		n, err := e.lexer.derive(x.lex)
		if err != nil {
			return err
		}
		if i == 0 {
			s.of, count = n.of, len(n.to)
			continue
		}
		if err := e.meter.Spend(e.classes); err != nil {
			return err
		}
		both := make([]uint8, e.classes)
		slot := map[[2]uint8]uint8{}
		for c := range both {
			pair := [2]uint8{s.of[c], n.of[c]}
			if _, ok := slot[pair]; !ok {
				slot[pair] = uint8(len(slot))
			}
			both[c] = slot[pair]
		}
		s.of, count = e.lexer.partition(both), len(slot)
	}
	if len(p.parts) == 0 {
		s.of = e.lexer.partition(make([]uint8, e.classes))
	}
	s.to = make([]atomic.Pointer[place], count)
	e.grown(stepSize * count)
	p.next.Store(s)
	return nil
}

func (e *engine) derive(p *place, class uint8) (*place, error) {
	if err := e.meter.Spend(placeWork + len(p.parts)); err != nil {
		return nil, err
	}
	if err := e.open(p); err != nil {
		return nil, err
	}
	parts := make([]part, 0, len(p.parts)+1)
	var reached *row
	for _, x := range p.parts {
		n := x.lex.next.Load()
		s := n.to[n.of[class]]
		if s == e.lexer.dead {
			continue
		}
		if s.bytes {
			parts = append(parts, part{x.row, s})
		}
		if len(s.ends) == 0 {
			continue
		}
		r, err := e.after(x.row, s)
		if err != nil {
			return nil, err
		}
		if reached, err = e.merge(reached, r); err != nil {
			return nil, err
		}
	}
	return e.arrive(parts, reached)
}

// arrive is the place of terminals in progress and a row that was just reached.
func (e *engine) arrive(parts []part, reached *row) (*place, error) {
	end := false
	if reached != nil {
		end = reached.end
		if reached.lexer != nil {
			parts = append(parts, part{reached, reached.lexer})
		}
	}
	return e.intern(end, parts)
}

// take is the place after a control token.
func (e *engine) take(p *place, id int32, m *work.Meter) (*place, error) {
	if err := e.enter(m); err != nil {
		return nil, err
	}
	defer e.leave()
	n, err := e.named(p, id)
	if err != nil {
		return nil, e.wrong(err)
	}
	return n, nil
}

func (e *engine) named(p *place, id int32) (*place, error) {
	var reached *row
	for _, x := range p.parts {
		for _, t := range x.lex.tokens {
			if e.control[int(t)-len(e.g.regexes)] != id {
				continue
			}
			i, _ := slices.BinarySearch(x.row.terms, t)
			for _, it := range x.row.after[i] {
				if err := e.build.add(it); err != nil {
					return nil, err
				}
			}
			r, err := e.build.take()
			if err == nil {
				reached, err = e.merge(reached, r)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return e.arrive(nil, reached)
}

// either is the place of an answer that stands at one of two.
func (e *engine) either(a, b *place, m *work.Meter) (*place, error) {
	if err := e.enter(m); err != nil {
		return nil, err
	}
	defer e.leave()
	return e.intern(a.end || b.end, append(slices.Clone(a.parts), b.parts...))
}

// after is the row that a row's terminals lead to where they may be over.
func (e *engine) after(r *row, s *lexState) (*row, error) {
	if n := r.reached[s.id]; n != nil {
		return n, nil
	}
	for _, t := range s.ends {
		i, _ := slices.BinarySearch(r.terms, t)
		for _, it := range r.after[i] {
			if err := e.build.add(it); err != nil {
				return nil, err
			}
		}
	}
	n, err := e.build.take()
	if err != nil {
		return nil, err
	}
	if r.reached == nil {
		r.reached = map[uint32]*row{}
	}
	r.reached[s.id] = n
	e.grown(4 * stepSize)
	return n, nil
}

// merge is the row of the items of two rows that were reached at one byte.
func (e *engine) merge(a, b *row) (*row, error) {
	if a == nil || a == b {
		return b, nil
	}
	for _, r := range []*row{a, b} {
		for _, it := range r.items {
			if err := e.build.add(it); err != nil {
				return nil, err
			}
		}
		e.build.end = e.build.end || r.end
	}
	return e.build.take()
}

func (e *engine) intern(end bool, parts []part) (*place, error) {
	if len(parts) == 0 && !end {
		return e.dead, nil
	}
	if len(parts) > 1 {
		if err := e.meter.Spend(2 * len(parts)); err != nil {
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
	e.key = append(e.key[:0], 0)
	if end {
		e.key[0] = 1
	}
	for _, x := range parts {
		e.key = binary.LittleEndian.AppendUint32(e.key, x.row.id)
		e.key = binary.LittleEndian.AppendUint32(e.key, x.lex.id)
	}
	if p, ok := e.places[string(e.key)]; ok {
		return p, nil
	}
	p := &place{parts: slices.Clone(parts), end: end}
	e.places[string(e.key)] = p
	e.grown(placeSize + 2*partSize*len(parts))
	return p, nil
}
