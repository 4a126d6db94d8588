package llm

import (
	"fmt"
	"unsafe"

	"weir/engine/kernel/attend"
	"weir/engine/kernel/recurrence"
	"weir/internal/arena"
	"weir/kvcache"
)

// states is the memory of what recurrent layers keep of sequences: slots, each with the state of all layers. Slot 0 is that of an empty
// sequence, and has no memory.
type states struct {
	arena  *arena.Arena
	memory []float32
	values int // of a slot
}

// newStates makes room for so many slots of so many values.
func newStates(values, slots int) (*states, error) {
	s := &states{values: values}
	if values == 0 || slots == 0 {
		return s, nil
	}
	var err error
	bytes := int64(values) * int64(slots) * 4
	if s.arena, err = arena.New(bytes + arenaAlign); err != nil {
		return nil, fmt.Errorf("reserve %d bytes for states: %w", bytes, err)
	}
	raw, err := s.arena.Alloc(int(bytes), arenaAlign)
	if err != nil {
		return nil, err
	}
	s.memory = unsafe.Slice((*float32)(unsafe.Pointer(&raw[0])), values*slots)
	return s, nil
}

// of is a layer's part of a slot, nil of slot 0.
func (s *states) of(slot kvcache.StateID, r *recurrent) []float32 {
	if slot == 0 {
		return nil
	}
	at := (int(slot)-1)*s.values + r.plan.offset
	n := r.StateValues()
	return s.memory[at : at+n : at+n]
}

// close frees the memory.
func (s *states) close() error {
	if s == nil || s.arena == nil {
		return nil
	}
	return s.arena.Release()
}

// carryText is carry for a text that is alone: it goes on in its only slot.
func (b *batch) carryText(start int) {
	if start == 0 {
		b.carry(0, 1)
	} else {
		b.carry(1, 1)
	}
}

// stateSpan is where the rows of one sequence find its state and where they leave it.
type stateSpan struct {
	row, count int
	from, to   kvcache.StateID // may be the same
	round      int             // spans of a sequence follow each other in rounds
}

// carry says which state the rows of the last span go on from, and which one they leave.
func (b *batch) carry(from, to kvcache.StateID) {
	last := b.lastSpan()
	b.carried = append(b.carried, stateSpan{row: last.Row, count: last.Count, from: from, to: to})
}

// carryPasses is carry for a span that leaves states on the way, too.
func (b *batch) carryPasses(from kvcache.StateID, passes []kvcache.Pass) {
	last, done := b.lastSpan(), 0
	for round, pass := range passes {
		n := pass.Rows - last.Start - done
		b.carried = append(b.carried, stateSpan{row: last.Row + done, count: n, from: from, to: pass.To, round: round})
		b.rounds = max(b.rounds, round+1)
		done, from = done+n, pass.To
	}
}

func (b *batch) lastSpan() *attend.Span {
	s := b.tables[0].spans
	return &s[len(s)-1]
}

// awaitTurn returns when the rows before a block's have passed the layer.
func (b *batch) awaitTurn() {
	if b.turn.line != nil {
		b.turn.line.reach(b.turn.block, b.turn.stages)
	}
}

// turnInLine is the stages of a block that the next one's state waits for.
type turnInLine struct {
	line          *pipeline
	block, stages int
}

// statesOf are those of a block in a layer, of a round; a span's first row counts from the block's.
func (b *batch) statesOf(y *recurrent, r block, round int) []recurrence.Span {
	list := b.stateSpans[:0]
	for i := range b.carried {
		s := &b.carried[i]
		lo, hi := max(s.row, r.lo), min(s.row+s.count, r.hi)
		if lo >= hi || s.round != round {
			continue
		}
		from := s.from
		if lo > s.row {
			from = s.to
		}
		list = append(list, recurrence.Span{Row: lo - r.lo, Count: hi - lo, From: b.store.of(from, y), To: b.store.of(s.to, y)})
	}
	b.stateSpans = list
	return list
}
