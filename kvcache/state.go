package kvcache

import (
	"fmt"
	"slices"
)

// Layers that keep a state of a sequence, instead of keys and values of its rows, change it with each row: what rows [0,n) leave is of
// use to a sequence that begins with these rows and no others. So states are kept as checkpoints at the ends of blocks. A checkpoint hangs
// on the block of the chain that ends there, leaves the cache with it or before, and a hit goes as far as the last block that has one.
//
// A slot of the engine's memory holds one state. A step reads a sequence's state in one slot and writes it to another, so that nothing is
// copied: a slot becomes a checkpoint by name alone, a hit is read where it lies, and a step whose last rows do not become final has
// destroyed nothing.

// StateID names a slot of the engine's memory of states. 0 is the state before any row, which takes no memory.
type StateID int32

// Pass is a part of a step's rows of a sequence: from the row behind the pass before on, up to Rows of the sequence. To gets the state then.
type Pass struct {
	Rows int
	To   StateID
}

// ownStates is how many slots a sequence has of its own, at least: it reads one and writes another.
const ownStates = 2

// stateSlot is what the pool records about one slot.
type stateSlot struct {
	ref    int32   // tables that read it, or will write it
	block  BlockID // on which it hangs; 0 is none
	gen    uint32  // times it was handed out
	domain int32   // of the block
	class  Class
}

// stateStore has the slots. Its lists have room for nodes of slots and a sentinel for each class.
type stateStore struct {
	slots    []stateSlot // by StateID
	free     []StateID   // a stack
	lru      rings       // slots, then a list for each class of checkpoints that no table reads
	idle     int         // on these lists
	of       []StateID   // [Blocks] what hangs on a block of the chain
	interval int         // rows between checkpoints that are made on the way
}

func newStateStore(c Config) stateStore {
	s := stateStore{interval: c.StateInterval}
	if c.States == 0 {
		return s
	}
	s.slots, s.of = make([]stateSlot, c.States+1), make([]StateID, c.Blocks)
	s.lru.grow(len(s.slots) + numClasses)
	for id := StateID(c.States); id > 0; id-- {
		s.free = append(s.free, id)
	}
	return s
}

// list is that of the idle checkpoints of a class.
func (s *stateStore) list(c Class) int32 { return int32(len(s.slots)) + int32(c) }

// spare is how many slots could be handed out now.
func (s *stateStore) spare() int { return len(s.free) + s.idle }

// alloc takes a slot: a free one, else the checkpoint of the lowest class that was not used for longest, of a domain that has more
// than its share if there is one near. 0: there is none.
func (s *stateStore) alloc() StateID {
	if len(s.free) == 0 && !s.evict() {
		return 0
	}
	last := len(s.free) - 1
	id := s.free[last]
	s.free = s.free[:last]
	m := &s.slots[id]
	m.ref, m.gen = 1, m.gen+1
	return id
}

func (s *stateStore) evict() bool {
	for c := range Class(numClasses) {
		if list := s.list(c); !s.lru.empty(list) {
			s.unhang(StateID(s.crowding(list)))
			return true
		}
	}
	return false
}

// crowding is the first checkpoint near the front of a list whose domain has as many as any other there.
func (s *stateStore) crowding(list int32) int32 {
	count, most, best := map[int32]int{}, 0, s.lru.front(list)
	for n, at := 0, best; n < floorScan && at != list; n, at = n+1, s.lru.front(at) {
		d := s.slots[at].domain
		if count[d]++; count[d] > most {
			most = count[d]
		}
	}
	for at := best; at != list; at = s.lru.front(at) {
		if count[s.slots[at].domain] == most {
			return at
		}
	}
	return best
}

// hold adds a table that reads a slot.
func (s *stateStore) hold(id StateID) {
	if id == 0 {
		return
	}
	m := &s.slots[id]
	if m.ref == 0 {
		s.lru.remove(int32(id))
		s.idle--
	}
	m.ref++
}

// drop takes a table's reference back.
func (s *stateStore) drop(id StateID) {
	if id == 0 {
		return
	}
	m := &s.slots[id]
	if m.ref--; m.ref > 0 {
		return
	}
	if m.block == 0 {
		s.free = append(s.free, id)
		return
	}
	s.lru.pushBack(s.list(m.class), int32(id))
	s.idle++
}

// hang makes a slot the checkpoint of a published block of the chain that has none.
func (s *stateStore) hang(id StateID, b BlockID, m *block) {
	slot := &s.slots[id]
	slot.block, slot.domain, slot.class = b, m.domain, m.class
	s.of[b] = id
}

// unhang takes a checkpoint off its block. One that no table reads becomes free.
func (s *stateStore) unhang(id StateID) {
	m := &s.slots[id]
	if m.block == 0 {
		return
	}
	s.of[m.block], m.block = 0, 0
	if m.ref == 0 {
		s.lru.remove(int32(id))
		s.idle--
		s.free = append(s.free, id)
	}
}

// tableState is a table's part of the states.
type tableState struct {
	state  StateID   // what the final rows leave
	spares []StateID // of the table's own, to be written
	passes []Pass    // of the step in the making
	trail  StateID   // the checkpoint that the table's last step but one left, and its generation
	gen    uint32
	fork   int // rows after which another sequence went on otherwise, where there is no checkpoint yet
}

// exclusive reports whether a table's state is its own, and no checkpoint.
func (s *stateStore) exclusive(id StateID) bool {
	return id != 0 && s.slots[id].ref == 1 && s.slots[id].block == 0
}

// enter gives an empty table the state of a hit and slots of its own; affordable has said that they are there.
func (s *stateStore) enter(t *tableState, hit *Hit) {
	s.hold(hit.state)
	t.state, t.fork = hit.state, hit.Fork
	for len(t.spares) < ownStates {
		t.spares = append(t.spares, s.alloc())
	}
}

// affordable reports whether an empty table can enter behind a hit.
func (s *stateStore) affordable(hit *Hit) bool {
	least := ownStates
	if hit.state != 0 && s.slots[hit.state].ref == 0 {
		least++
	}
	return s.spare() >= least
}

// leave gives everything back.
func (s *stateStore) leave(t *tableState) {
	if s.slots == nil {
		return
	}
	s.cancel(t)
	s.drop(t.state)
	for _, id := range t.spares {
		s.drop(id)
	}
	*t = tableState{spares: t.spares[:0], passes: t.passes[:0]}
}

// cancel gives back what the passes of a step were to write.
func (s *stateStore) cancel(t *tableState) {
	for _, p := range t.passes {
		s.drop(p.To)
	}
	t.passes = t.passes[:0]
}

// Advance says that the next step computes the table's rows up to rows, and arranges where its states go: the state that all of them leave,
// and those at the ends of blocks that other sequences may go on from. May be called again before Commit, for other rows.
func (t *Table) Advance(rows int) {
	if t.pool == nil || !t.pool.Stateful() || rows <= t.tokens {
		return
	}
	s := &t.pool.states
	if n := len(t.passes); n > 0 { // the last one's slot is the table's own
		t.spares = append(t.spares, t.passes[n-1].To)
		t.passes = t.passes[:n-1]
		s.cancel(&t.tableState)
	}
	for _, end := range t.ends(rows) {
		if id := s.alloc(); id != 0 {
			t.passes = append(t.passes, Pass{Rows: end * t.y.blockTokens, To: id})
		}
	}
	last := len(t.spares) - 1
	t.passes = append(t.passes, Pass{Rows: rows, To: t.spares[last]})
	t.spares = t.spares[:last]
}

// mostEnds bounds the checkpoints of a step.
const mostEnds = 8

// ends are the blocks, counted from the beginning, after which a step up to rows leaves a checkpoint, in order, the end of the step left out.
func (t *Table) ends(rows int) (list []int) {
	n := t.y.blockTokens
	first, last := t.tokens/n+1, (rows-1)/n // blocks
	add := func(end int) {
		if end >= first && end <= last && len(list) < mostEnds && !slices.Contains(list, end) {
			list = append(list, end)
		}
	}
	add(t.fork / n)
	add(last)
	if t.expected > 0 {
		add((t.expected - 1) / n)
	}
	if every := t.pool.states.interval / n; every > 0 {
		for end := (first + every - 1) / every * every; end <= last; end += every {
			add(end)
		}
	}
	slices.Sort(list)
	return list
}

// Passes tells from where a step takes the table's state, and where it leaves it. It is valid until the next call that changes the table.
func (t *Table) Passes() (from StateID, passes []Pass) { return t.state, t.passes }

// reached is how many rows can become final of those that are asked for: there must be a state behind them.
func (t *Table) reached(verified int) int {
	rows := t.tokens
	for _, p := range t.passes {
		if p.Rows <= verified {
			rows = p.Rows
		}
	}
	return rows
}

// settle takes in the states of a step, once its blocks are published.
func (t *Table) settle() {
	s := &t.pool.states
	for i, pass := range t.passes {
		switch {
		case pass.Rows > t.tokens: // not final: as if it had never been written
			t.keep(s, pass.To)
		case pass.Rows == t.tokens:
			t.advance(pass)
		default:
			t.checkpoint(pass)
			s.drop(pass.To)
		}
		t.passes[i].To = 0
	}
	t.passes = t.passes[:0]
}

// keep makes a slot the table's own again, as far as it lacks any.
func (t *Table) keep(s *stateStore, id StateID) {
	if len(t.spares) < ownStates {
		t.spares = append(t.spares, id)
	} else {
		s.drop(id)
	}
}

// advance makes a pass's state that of the table. At the end of a block it becomes a checkpoint, too, if there is another slot to go on with.
func (t *Table) advance(pass Pass) {
	s := &t.pool.states
	if old := t.state; s.exclusive(old) {
		t.keep(s, old)
	} else {
		s.drop(old)
	}
	t.state = pass.To
	if pass.Rows%t.y.blockTokens != 0 || t.checkpointed(pass.Rows) {
		return
	}
	if len(t.spares) < ownStates {
		id := s.alloc()
		if id == 0 {
			return
		}
		t.spares = append(t.spares, id)
	}
	t.checkpoint(pass)
}

// checkpointed reports whether the block that ends behind so many rows has a checkpoint, or cannot have one.
func (t *Table) checkpointed(rows int) bool {
	p := t.pool
	b := t.blocks[rows/t.y.blockTokens-1]
	return b == 0 || !p.blocks[b].published || p.states.of[b] != 0
}

// checkpoint hangs a pass's state on the block that ends with its rows. The one that the table left before goes, unless sequences are
// expected to go on from there.
func (t *Table) checkpoint(pass Pass) {
	p, s := t.pool, &t.pool.states
	if t.checkpointed(pass.Rows) {
		return
	}
	b := t.blocks[pass.Rows/t.y.blockTokens-1]
	s.hang(pass.To, b, &p.blocks[b])
	if t.lasting(pass.Rows) {
		return
	}
	if old := t.trail; old != 0 && s.slots[old].gen == t.gen && s.slots[old].ref == 0 {
		s.unhang(old)
	}
	t.trail, t.gen = pass.To, s.slots[pass.To].gen
}

// lasting reports whether a checkpoint behind so many rows stays when the table goes on.
func (t *Table) lasting(rows int) bool {
	n := t.y.blockTokens
	every := t.pool.states.interval / n * n
	return rows == t.fork/n*n || t.expected > 0 && rows == (t.expected-1)/n*n || every > 0 && rows%every == 0
}

// states checks the slots:
//
//	K23 a slot is free, a checkpoint that no table reads, or in tables as often as it says; what hangs on a block is what it hangs on
func (c *checker) states() error {
	p, s := c.p, &c.p.states
	if !p.Stateful() {
		return nil
	}
	refs, lists := make([]int32, len(s.slots)), make([]int, len(s.slots))
	for i, t := range p.tables {
		refs[t.state]++
		for _, id := range t.spares {
			refs[id]++
		}
		for _, pass := range t.passes {
			refs[pass.To]++
		}
		if len(t.blocks) > 0 && len(t.passes)+len(t.spares) == 0 {
			return fmt.Errorf("K23: table %d has no slot to write", i)
		}
		if (t.state == 0) != (t.tokens == 0) {
			return fmt.Errorf("K23: table %d has %d rows and state %d", i, t.tokens, t.state)
		}
	}
	for _, id := range s.free {
		lists[id]++
	}
	idle := 0
	for class := range Class(numClasses) {
		for at := s.lru.front(s.list(class)); at != s.list(class) && idle <= len(s.slots); at = s.lru.front(at) {
			lists[at]++
			idle++
			if m := &s.slots[at]; m.block == 0 || m.class != class {
				return fmt.Errorf("K23: slot %d is on the list of %v, hangs on %d and is of %v", at, class, m.block, m.class)
			}
		}
	}
	if idle != s.idle {
		return fmt.Errorf("K23: %d checkpoints are idle, the pool says %d", idle, s.idle)
	}
	hung := 0
	for id := 1; id < len(s.slots); id++ {
		m := &s.slots[id]
		if m.ref != refs[id] || (m.ref == 0) != (lists[id] == 1) || lists[id] > 1 {
			return fmt.Errorf("K23: slot %d has %d references, tables name it %d times, and it is on %d lists", id, m.ref, refs[id], lists[id])
		}
		if m.block != 0 {
			hung++
			if b := &p.blocks[m.block]; s.of[m.block] != StateID(id) || !b.published || b.domain != m.domain {
				return fmt.Errorf("K23: slot %d hangs on block %d (published %v), on which hangs %d", id, m.block, b.published, s.of[m.block])
			}
		}
	}
	for _, id := range s.of {
		if id != 0 {
			hung--
		}
	}
	if hung != 0 {
		return fmt.Errorf("K23: %d more slots hang on blocks than these say", hung)
	}
	return nil
}
