package grammar

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"weir/internal/work"
)

// Matcher follows one answer through a grammar. It is not safe for concurrent use; matchers of one Grammar may be used side by side.
type Matcher struct {
	e    *engine
	path []*place // where the answer stood after each of its tokens, the start first
	ids  []int32  // the tokens
	// lists are where the answer stood in a list whose items differ, as path; nil where the grammar has none.
	lists []list
	walk  scratch

	caller        *work.Meter   // counts the calls, too
	taken         *atomic.Int64 // units that all matchers forked from one have taken
	forced, whole []byte        // scratch of Forced
	encoded       []int32
	err           error // what a step failed with; it stays until a Rollback
}

// Matcher begins an answer. Its error is an ErrNoToken where the vocabulary lacks a control token of the grammar, else an ErrLimit.
func (g *Grammar) Matcher(v *Vocabulary) (*Matcher, error) { return g.MatcherUnder(v, nil) }

// MatcherUnder is Matcher where a meter counts what that takes.
func (g *Grammar) MatcherUnder(v *Vocabulary, meter *work.Meter) (*Matcher, error) {
	e, err := g.engine(v, meter)
	if err != nil {
		return nil, compileError(err)
	}
	m := &Matcher{e: e, path: append(make([]*place, 0, 64), e.start), ids: make([]int32, 0, 64), taken: &atomic.Int64{}}
	m.walk.meter.Limit, m.walk.meter.Ask = int64(g.limits.Work), m.ask
	if g.items != nil {
		m.lists = make([]list, 1, 64)
	}
	return m, nil
}

// Begun reports whether Matcher finds what it needs, so that it takes next to nothing.
func (g *Grammar) Begun(v *Vocabulary) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.engines[v] != nil
}

// engine is the one that new matchers begin with. Nothing is locked while it is made.
func (g *Grammar) engine(v *Vocabulary, meter *work.Meter) (*engine, error) {
	g.mu.Lock()
	e := g.engines[v]
	g.mu.Unlock()
	if e != nil {
		return e, nil
	}
	made, err := newEngine(g, v, meter)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.engines[v]; e != nil {
		return e, nil
	}
	g.engines[v] = made
	return made, nil
}

// drop forgets an engine that no new matcher shall begin with. Those that use it go on, and its memory goes with the last of them.
func (g *Grammar) drop(e *engine) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.engines[e.v] == e {
		delete(g.engines, e.v)
	}
}

// Under says what counts the calls to come beside the matcher's own limits, and may end them. A call that ended late has changed nothing and
// can be made again.
func (m *Matcher) Under(meter *work.Meter) { m.caller = meter }

// ask counts what the own meter has counted, a stride ahead.
func (m *Matcher) ask() error { return m.caller.Spend(work.Stride) }

// begin opens a call.
func (m *Matcher) begin() *work.Meter {
	own := &m.walk.meter
	own.Reset()
	own.Hurried, own.Aside = false, nil
	if m.caller != nil {
		own.Hurried, own.Aside = m.caller.Hurried, m.caller.Aside
	}
	return own
}

// end closes a call, whose error stays unless it came late.
func (m *Matcher) end(err error) error {
	if err == nil && m.walk.meter.Spent() == 0 {
		return nil // all of it was known
	}
	limits, total := &m.e.g.limits, m.count()
	switch {
	case errors.Is(err, work.ErrLate):
		return err
	case errors.Is(err, work.ErrSpent):
		err = limitError("units of work for one token", limits.Work, "make the grammar less ambiguous or its patterns simpler")
	case err == nil && total > int64(limits.Answer)+int64(len(m.ids))*int64(limits.Work/10):
		err = limitError("units of work for one answer", limits.Answer, "make the grammar less ambiguous or its patterns simpler")
	}
	m.err = err
	return err
}

// count adds what the call has taken to what was taken before.
func (m *Matcher) count() (total int64) {
	if spent := m.walk.meter.Spent(); spent > 0 {
		return m.taken.Add(spent)
	}
	return 0
}

// Taken is how many units of work.Meter the matcher has taken, with all that it was forked to and from.
func (m *Matcher) Taken() int64 { return m.taken.Load() }

func (m *Matcher) place() *place { return m.path[len(m.path)-1] }

// Mask sets the bit of every token that may come next and clears all others; end reports whether the answer may end here. dst has
// Vocabulary.Words words at least. After an error the answer cannot go on.
func (m *Matcher) Mask(dst []uint64) (end bool, err error) {
	if m.err != nil {
		return false, m.err
	}
	if err := m.e.v.check(dst); err != nil {
		return false, err
	}
	p := m.place()
	m.begin()
	clear(dst[m.e.v.words:])
	err = m.e.fill(p, dst[:m.e.v.words], &m.walk)
	if err == nil && m.lists != nil {
		err = m.differ(dst)
	}
	if err := m.end(err); err != nil {
		return false, err
	}
	return p.end, nil
}

// Allows reports whether Mask would set a token's bit, for less work than Mask. Where that cannot be found out, it says no.
func (m *Matcher) Allows(id int32) bool {
	if m.err != nil || id < 0 || int(id) >= m.e.v.size {
		return false
	}
	p, _, err := m.after(id)
	return m.end(err) == nil && p != m.e.dead
}

// after is where a token leads, dead where it may not come.
func (m *Matcher) after(id int32) (*place, list, error) {
	meter := m.begin()
	p, err := m.e.token(m.place(), id, meter)
	if err != nil || p == m.e.dead || m.lists == nil {
		return p, list{}, err
	}
	l, ok, err := m.e.followToken(m.lists[len(m.lists)-1], m.place(), id, meter)
	if !ok {
		p = m.e.dead
	}
	return p, l, err
}

// Accept takes in a token; one that may not come next is an ErrRefused and changes nothing.
func (m *Matcher) Accept(id int32) error {
	if m.err != nil {
		return m.err
	}
	if id < 0 || int(id) >= m.e.v.size {
		return fmt.Errorf("%w: id %d, the vocabulary has %d", ErrRefused, id, m.e.v.size)
	}
	p, l, err := m.after(id)
	if err := m.end(err); err != nil {
		return err
	}
	if p == m.e.dead {
		return fmt.Errorf("%w: id %d %q after %d tokens", ErrRefused, id, m.e.v.pieces[id], len(m.path)-1)
	}
	m.path, m.ids = append(m.path, p), append(m.ids, id)
	if m.lists != nil {
		m.lists = append(m.lists, l)
	}
	return nil
}

// Rollback takes back the last tokens that were accepted, all of them where there are fewer.
func (m *Matcher) Rollback(tokens int) {
	if tokens <= 0 {
		return
	}
	kept := max(len(m.ids)-tokens, 0)
	m.path, m.ids = m.path[:kept+1], m.ids[:kept]
	if m.lists != nil {
		m.lists = m.lists[:kept+1]
	}
	m.err = nil
}

// Fork is a matcher that stands at the same place; the two share nothing that changes.
func (m *Matcher) Fork() *Matcher {
	f := &Matcher{
		e: m.e, path: append(make([]*place, 0, cap(m.path)), m.path...), ids: append(make([]int32, 0, cap(m.ids)), m.ids...), err: m.err,
		taken: m.taken, lists: slices.Clone(m.lists),
	}
	f.walk.meter.Limit, f.walk.meter.Ask = m.walk.meter.Limit, f.ask
	return f
}

// Done reports whether the answer is complete: it may end and nothing may follow.
func (m *Matcher) Done() bool { p := m.place(); return p.end && len(p.parts) == 0 }

// Tokens is the number of tokens accepted and not taken back.
func (m *Matcher) Tokens() int { return len(m.ids) }
