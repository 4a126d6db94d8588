package admission

import (
	"errors"
	"fmt"

	"weir/internal/inference"
)

// Check recounts the queue and names the first thing that does not add up. It
// walks everything: for tests, and for servers when idle.
func (q *Queue) Check() error {
	entries, tokens := 0, 0
	for c := range inference.Class(inference.NumClasses) {
		n, t, err := q.checkLane(c)
		if err != nil {
			return fmt.Errorf("check queue: class %d: %w", c, err)
		}
		entries += n
		tokens += t
	}
	live := len(q.entries.slots) - len(q.entries.free)
	if entries != live || entries != q.Len() || tokens != q.tokens {
		return fmt.Errorf("check queue: %d items with %d tokens in flows; %d live, counted %d with %d tokens",
			entries, tokens, live, q.Len(), q.tokens)
	}
	if flows := len(q.flows.slots) - len(q.flows.free); flows != len(q.byKey) {
		return fmt.Errorf("check queue: %d live flows, %d by name", flows, len(q.byKey))
	}
	if groups := len(q.groups.slots) - len(q.groups.free); groups != len(q.byGroup) {
		return fmt.Errorf("check queue: %d live groups, %d by name", groups, len(q.byGroup))
	}
	return errors.Join(q.entries.checkDates(&q.ending), q.sheds.checkTotals())
}

func (q *Queue) checkLane(c inference.Class) (entries, tokens int, err error) {
	l := &q.classes[c]
	backlogged, idle, refs := 0, 0, 0
	for i := range q.flows.slots {
		s := &q.flows.slots[i]
		if !s.live || s.value.key.class != c {
			continue
		}
		n, t, err := q.checkFlow(int32(i), &s.value)
		if err != nil {
			return 0, 0, err
		}
		entries += n
		tokens += t
		refs += s.value.refs
		if n > 0 {
			backlogged++
		}
		if s.value.isIdle {
			idle++
		}
	}
	if entries != l.waiting || backlogged != len(l.backlog) || idle != l.idle.n || refs != l.refs {
		return 0, 0, fmt.Errorf("%d waiting (counted %d), %d backlogged flows (heap %d), %d idle (list %d), %d references (counted %d)",
			entries, l.waiting, backlogged, len(l.backlog), idle, l.idle.n, refs, l.refs)
	}
	for i := 1; i < len(l.backlog); i++ {
		if (backlog{&q.counters, l}).Less(i, (i-1)/2) {
			return 0, 0, fmt.Errorf("heap order is broken at %d", i)
		}
	}
	return entries, tokens, nil
}

func (q *Queue) checkFlow(i int32, f *flow) (entries, tokens int, err error) {
	choices, dated, work := 0, 0, uint64(0)
	walk := func(l *line, in where) error {
		last, place := int32(none), uint64(0)
		for e := l.head; e != none; e = q.entries.at(e).next {
			n := q.entries.at(e)
			if n.flow != i || n.prev != last || n.where != in || entries > f.waiting || n.place <= place {
				return fmt.Errorf("flow %q: list %d is broken at entry %d", f.key.tenant, in, e)
			}
			last, place = e, n.place
			entries++
			if in == inLine && n.item.Due != 0 && !n.passed {
				dated++
			}
			choices += n.item.Choices
			tokens += n.item.Tokens
			work += n.item.work()
		}
		if last != l.tail {
			return fmt.Errorf("flow %q: list %d does not end with its tail", f.key.tenant, in)
		}
		return nil
	}
	err = errors.Join(walk(&f.line, inLine), walk(&f.aside, aside))
	listed := entries
	for g := range q.groups.slots {
		if s := &q.groups.slots[g]; s.live && s.value.key.flow == i {
			err = errors.Join(err, walk(&s.value.rest, follows))
		}
	}
	if err = errors.Join(err, q.entries.checkDates(&f.due)); err != nil {
		return 0, 0, err
	}
	onHeap := f.pos != none && q.classes[f.key.class].backlog[f.pos] == i
	switch {
	case entries != f.waiting || listed != f.listed || choices != f.choices || tokens != f.tokens || work != f.work || entries > f.refs:
		return 0, 0, fmt.Errorf("flow %q: %d items, %d listed, %d choices, %d tokens, %d of work, counted %d, %d, %d, %d, %d; %d references",
			f.key.tenant, entries, listed, choices, tokens, work, f.waiting, f.listed, f.choices, f.tokens, f.work, f.refs)
	case dated != len(f.due.heap):
		return 0, 0, fmt.Errorf("flow %q: %d items are due, %d on the heap", f.key.tenant, dated, len(f.due.heap))
	case onHeap != (entries > 0) || f.parked || f.scanned || entries > 0 && listed == 0:
		return 0, 0, fmt.Errorf("flow %q: %d items, on the heap: %v, parked: %v", f.key.tenant, entries, onHeap, f.parked)
	case f.report != none && (int(f.report) >= len(q.charged) || q.charged[f.report].flow != i || q.charged[f.report].key != f.key):
		return 0, 0, fmt.Errorf("flow %q: its charges are to be reported as number %d of %d", f.key.tenant, f.report, len(q.charged))
	case f.rank > f.service || f.isIdle != (f.refs == 0):
		return 0, 0, fmt.Errorf("flow %q: rank %d, service %d, %d references, idle: %v", f.key.tenant, f.rank, f.service, f.refs, f.isIdle)
	}
	return entries, tokens, nil
}
