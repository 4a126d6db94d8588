package grammar

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"weir/internal/work"
	"weir/tokenizer/grammar/regex"
)

// engine holds what the matchers of one grammar over one vocabulary have worked out so far. Steps that are known are read without a lock.
type engine struct {
	g     *Grammar
	v     *Vocabulary
	class *[256]uint8
	start *place
	dead  *place
	slow  atomic.Int32 // goroutines that hold mu, or wait for it, and take their time

	mu    sync.Mutex
	table placeTable
}

// newEngine makes an engine.
func newEngine(g *Grammar, v *Vocabulary, m *work.Meter) (*engine, error) {
	e := &engine{g: g, v: v, dead: &place{}}
	t := &e.table
	t.memory.account = work.Of(e, max(1, int64(g.limits.Bytes)-g.own.Bytes()), g.account)
	var err error
	if e.start, err = t.init(g, v, m, e.dead); err != nil {
		return nil, e.wrong(err)
	}
	e.class = t.lexer.auto.Class()
	t.memory.tell()
	t.memory.empty = t.memory.account.Bytes()
	return e, nil
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
	t := &e.table
	t.meter = m
	room := t.memory.account.Room()
	t.lexer.auto.Under(m, room)
	if room > 0 && t.size() <= e.g.limits.States {
		return nil
	}
	e.g.drop(e)
	e.leave()
	return limitError("bytes or places of answers", min(e.g.limits.Bytes, e.g.limits.States), "make the grammar less ambiguous or the answer shorter")
}

func (e *engine) leave() {
	t := &e.table
	if t.memory.added != 0 { // else nothing was
		t.memory.tell()
		if e.full() {
			e.g.drop(e)
		}
	}
	if m := t.meter; m == nil || !m.Hurried {
		e.slow.Add(-1)
	}
	t.meter = nil
	e.mu.Unlock()
}

// wrong is the error of a call that failed: the rows that it began are dropped. All else is as it was, with what may be looked up.
func (e *engine) wrong(err error) error {
	e.table.build.reset()
	if errors.Is(err, regex.ErrSize) {
		return fmt.Errorf("%w: %w", ErrLimit, err)
	}
	return err
}

// full reports whether new matchers should begin with an engine of their own: too much has been worked out, or there is no room for more.
func (e *engine) full() bool {
	t := &e.table
	return t.size() > e.g.limits.States/4 || t.memory.kept() > e.g.limits.Bytes/4 || t.memory.account.Room() <= 0
}

// step is the place after a byte.
func (e *engine) step(p *place, b byte, m *work.Meter) (*place, error) {
	c := e.class[b]
	if n := p.after(c); n != nil {
		return n, nil
	}
	return e.work(p, c, m)
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
	n, err := e.table.derive(p, class)
	if err != nil {
		return nil, e.wrong(err)
	}
	s := p.next.Load()
	s.to[s.of[class]].Store(n)
	return n, nil
}

// take is the place after a control token.
func (e *engine) take(p *place, id int32, m *work.Meter) (*place, error) {
	if err := e.enter(m); err != nil {
		return nil, err
	}
	defer e.leave()
	n, err := e.table.named(p, id)
	if err != nil {
		return nil, e.wrong(err)
	}
	return n, nil
}

// either is the place of an answer that stands at one of two.
func (e *engine) either(a, b *place, m *work.Meter) (*place, error) {
	if err := e.enter(m); err != nil {
		return nil, err
	}
	defer e.leave()
	return e.table.intern(a.end || b.end, append(slices.Clone(a.parts), b.parts...))
}
