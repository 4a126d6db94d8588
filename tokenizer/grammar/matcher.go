package grammar

import (
	"fmt"
)

// Matcher follows one answer through a grammar. It is not safe for concurrent use; matchers of one Grammar may be used side by side.
type Matcher struct {
	e    *engine
	path []*place // where the answer stood after each of its tokens, the start first
	ids  []int32  // the tokens
	walk scratch

	forced, whole []byte // scratch of Forced
	encoded       []int32
	err           error // what a step failed with; it stays until a Rollback
}

// Matcher begins an answer. Its error is an ErrNoToken where the vocabulary lacks a control token of the grammar, else an ErrLimit.
func (g *Grammar) Matcher(v *Vocabulary) (*Matcher, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.engines[v]
	if e == nil || e.full() {
		var err error
		if e, err = newEngine(g, v); err != nil {
			return nil, err
		}
		g.engines[v] = e
	}
	return &Matcher{e: e, path: append(make([]*place, 0, 64), e.start), ids: make([]int32, 0, 64)}, nil
}

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
	m.walk.made = 0
	clear(dst[m.e.v.words:])
	if err := m.e.fill(p, dst[:m.e.v.words], &m.walk); err != nil {
		m.err = err
		return false, err
	}
	return p.end, nil
}

// Allows reports whether Mask would set a token's bit, for less work than Mask.
func (m *Matcher) Allows(id int32) bool {
	if m.err != nil || id < 0 || int(id) >= m.e.v.size {
		return false
	}
	p, err := m.e.token(m.place(), id)
	return err == nil && p != m.e.dead
}

// Accept takes in a token; one that may not come next is an ErrRefused and changes nothing.
func (m *Matcher) Accept(id int32) error {
	if m.err != nil {
		return m.err
	}
	if id < 0 || int(id) >= m.e.v.size {
		return fmt.Errorf("%w: id %d, the vocabulary has %d", ErrRefused, id, m.e.v.size)
	}
	p, err := m.e.token(m.place(), id)
	if err != nil {
		m.err = err
		return err
	}
	if p == m.e.dead {
		return fmt.Errorf("%w: id %d %q after %d tokens", ErrRefused, id, m.e.v.pieces[id], len(m.path)-1)
	}
	m.path, m.ids = append(m.path, p), append(m.ids, id)
	return nil
}

// Rollback takes back the last tokens that were accepted, all of them where there are fewer.
func (m *Matcher) Rollback(tokens int) {
	if tokens <= 0 {
		return
	}
	kept := max(len(m.ids)-tokens, 0)
	m.path, m.ids = m.path[:kept+1], m.ids[:kept]
	m.err = nil
}

// Fork is a matcher that stands at the same place; the two share nothing that changes.
func (m *Matcher) Fork() *Matcher {
	return &Matcher{
		e: m.e, path: append(make([]*place, 0, cap(m.path)), m.path...), ids: append(make([]int32, 0, cap(m.ids)), m.ids...), err: m.err,
	}
}

// Done reports whether the answer is complete: it may end and nothing may follow.
func (m *Matcher) Done() bool { p := m.place(); return p.end && len(p.parts) == 0 }

// Tokens is the number of tokens accepted and not taken back.
func (m *Matcher) Tokens() int { return len(m.ids) }
