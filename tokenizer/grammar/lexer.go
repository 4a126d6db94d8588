package grammar

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"weir/tokenizer/grammar/regex"
)

// lexPart is a terminal in progress: what may follow of it.
type lexPart struct {
	term int32
	node regex.Node
}

// controlNode stands for a control token that has yet to come: no byte leads on from it.
const controlNode = regex.Node(^uint32(0))

// lexState is a set of terminals in progress that began at one place. It is hash-consed and never changes; next is filled at its first byte.
type lexState struct {
	id     uint32
	parts  []lexPart // sorted by terminal
	ends   []int32   // the terminals that may be over here
	tokens []int32   // the control tokens that may come here, as terminals
	bytes  bool      // a byte may come here
	next   atomic.Pointer[lexSteps]
	like   atomic.Pointer[lexState] // a state that no token can tell from this one; what is known of it holds here, too
	split  atomic.Pointer[known]
}

// lexSteps are the states after a state: of[class] says which of them a byte leads to. States share the few partitions that there are.
type lexSteps struct {
	of []uint8
	to []*lexState
}

// lexer derives terminals. Its engine's mutex guards all but lexState.next of known states.
type lexer struct {
	auto   *regex.Automaton
	first  []regex.Node // by terminal that is an expression
	states map[string]*lexState
	dead   *lexState
	key    []byte
	parts  regex.Alphabet // scratch
	kept   []lexPart      // scratch
	ofs    map[string][]uint8
	taken  map[taken]bool
	table  *placeTable
	size   int64 // bytes of auto that were counted
}

func newLexer(t *placeTable) (*lexer, error) {
	a, err := t.g.automaton(t.meter, t.memory.account.Room())
	if err != nil {
		return nil, err
	}
	l := &lexer{auto: a.Automaton, first: a.nodes, states: map[string]*lexState{}, dead: &lexState{}, ofs: map[string][]uint8{},
		taken: map[taken]bool{}, table: t}
	l.states[""] = l.dead
	l.grown(0)
	return l, nil
}

// grown counts what was added, with what the automaton has grown by.
func (l *lexer) grown(bytes int) {
	l.table.memory.grown(bytes + int(l.auto.Bytes()-l.size))
	l.size = l.auto.Bytes()
}

// begin is the state of terminals before their first byte.
func (l *lexer) begin(terms []int32) (*lexState, error) {
	parts := make([]lexPart, len(terms))
	for i, t := range terms {
		parts[i] = lexPart{t, controlNode}
		if int(t) < len(l.first) {
			parts[i].node = l.first[t]
		}
	}
	return l.intern(parts)
}

// intern drops the parts that no text can complete, and gives the state of the others.
func (l *lexer) intern(parts []lexPart) (*lexState, error) {
	if err := l.table.meter.Spend(placeWork + len(parts)); err != nil {
		return nil, err
	}
	kept := parts[:0]
	for _, p := range parts {
		if p.node != controlNode {
			alive, err := l.auto.Alive(p.node)
			if err != nil {
				return nil, err
			}
			if !alive {
				continue
			}
		}
		kept = append(kept, p)
	}
	l.key = l.key[:0]
	for _, p := range kept {
		l.key = binary.LittleEndian.AppendUint32(l.key, uint32(p.term))
		l.key = binary.LittleEndian.AppendUint32(l.key, uint32(p.node))
	}
	if s, ok := l.states[string(l.key)]; ok {
		return s, nil
	}
	s := &lexState{id: uint32(len(l.states)), parts: slices.Clone(kept)}
	for _, p := range kept {
		switch {
		case p.node == controlNode:
			s.tokens = append(s.tokens, p.term)
			continue
		case l.auto.Nullable(p.node):
			s.ends = append(s.ends, p.term)
		}
		s.bytes = s.bytes || p.node != regex.EmptyText
	}
	l.states[string(l.key)] = s
	l.grown(stateSize + 2*lexPartSize*len(kept))
	return s, nil
}

// clip is the state that stands for all which texts of fewer than some bytes cannot tell apart.
func (l *lexer) clip(s *lexState, bytes int) (*lexState, error) {
	if c := s.like.Load(); c != nil {
		return c, nil
	}
	parts := make([]lexPart, len(s.parts))
	for i, p := range s.parts {
		if parts[i] = p; p.node != controlNode {
			var err error
			if parts[i].node, err = l.auto.Clip(p.node, uint32(bytes)); err != nil { //nolint:gosec // the length of a token
				return nil, err
			}
		}
	}
	c, err := l.intern(parts)
	if err == nil {
		s.like.Store(c)
	}
	return c, err
}

// derive works out the states after a state that is not dead.
func (l *lexer) derive(s *lexState) (*lexSteps, error) {
	if n := s.next.Load(); n != nil {
		return n, nil
	}
	l.parts.Reset(l.auto)
	for _, p := range s.parts {
		if p.node != controlNode {
			if err := l.parts.Refine(l.auto, p.node); err != nil {
				return nil, err
			}
		}
	}
	steps := &lexSteps{of: l.partition(l.parts.Of), to: make([]*lexState, l.parts.Count)}
	for c, part := range l.parts.Of {
		if steps.to[part] == nil {
			n, err := l.after(s, l.auto.Member(c))
			if err != nil {
				return nil, err
			}
			steps.to[part] = n
		}
	}
	s.next.Store(steps)
	l.grown(4*stepSize + stepSize*len(steps.to))
	return steps, nil
}

// partition is the one copy of a partition of the classes.
func (l *lexer) partition(of []uint8) []uint8 {
	if known, ok := l.ofs[string(of)]; ok {
		return known
	}
	known := slices.Clone(of)
	l.grown(8*stepSize + 2*len(of))
	l.ofs[string(of)] = known
	return known
}

func (l *lexer) after(s *lexState, b byte) (*lexState, error) {
	parts := l.kept[:0]
	for _, p := range s.parts {
		if p.node == controlNode {
			continue
		}
		n, err := l.auto.Derive(p.node, b)
		if err != nil {
			return nil, err
		}
		if n != regex.NoText {
			parts = append(parts, lexPart{p.term, n})
		}
	}
	l.kept = parts
	return l.intern(parts)
}
