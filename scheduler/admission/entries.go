package admission

import (
	"fmt"

	"weir/internal/heap"
)

// entryTable holds the waiting items, which stand in lists and heaps by their index.
type entryTable struct{ slab[entry] }

// entry is a waiting item: a node of one of its flow's lists, or of its group's.
type entry struct {
	item   Item
	flow   int32
	group  int32 // none without one
	where  where
	next   int32
	prev   int32
	pos    [numDates]int32 // on Queue.ending and on its flow's dated; none when not on it
	passed bool            // skipped by the scan in progress, and off its flow's dated
	number uint64          // order of arrival over all flows
	place  uint64          // order in the flow's line, or among the followers of its group

	older, younger int32 // in its flow's list of those that may be shed, if it is in one
}

// where says in which list an entry is.
type where uint8

const (
	inLine  where = iota // its turn comes
	aside                // it has a place in line, but waits for something of its own
	follows              // another request of its group is in line
)

// line is a doubly linked list of entries.
type line struct{ head, tail int32 }

var emptyLine = line{none, none}

// date is a time of an entry that a heap is ordered by.
type date uint8

const (
	until date = iota // Item.Until
	due               // Item.Due
	numDates
)

// dates is a binary heap of entries, soonest first; of the same time, first come
// first.
type dates struct {
	by   date
	heap []int32
}

func (it *Item) date(by date) int64 {
	if by == until {
		return it.Until
	}
	return it.Due
}

// checkDates checks the order of a heap and the positions that its entries know.
func (t *entryTable) checkDates(d *dates) error {
	for i, e := range d.heap {
		if t.at(e).pos[d.by] != int32(i) || i > 0 && (dated{t, d}).Less(i, (i-1)/2) {
			return fmt.Errorf("check queue: the heap of dates is broken at %d", i)
		}
	}
	return nil
}

// dated is a heap of entries by one of their dates, the soonest first.
type dated struct {
	table *entryTable
	dates *dates
}

func (d dated) Len() int { return len(d.dates.heap) }

func (d dated) Less(i, j int) bool {
	a, b := d.table.at(d.dates.heap[i]), d.table.at(d.dates.heap[j])
	if x, y := a.item.date(d.dates.by), b.item.date(d.dates.by); x != y {
		return x < y
	}
	return a.number < b.number
}

func (d dated) Swap(i, j int) {
	list, by := d.dates.heap, d.dates.by
	list[i], list[j] = list[j], list[i]
	d.table.at(list[i]).pos[by] = int32(i)
	d.table.at(list[j]).pos[by] = int32(j)
}

func (t *entryTable) pushDate(d *dates, e int32) {
	d.heap = append(d.heap, e)
	i := len(d.heap) - 1
	t.at(e).pos[d.by] = int32(i)
	heap.Up(dated{t, d}, i)
}

// removeDate takes an entry off a heap that it may be on.
func (t *entryTable) removeDate(d *dates, e int32) {
	pos := t.at(e).pos[d.by]
	if pos == none {
		return
	}
	last := len(d.heap) - 1
	dated{t, d}.Swap(int(pos), last)
	t.at(e).pos[d.by] = none
	d.heap = d.heap[:last]
	if int(pos) < last {
		heap.Fix(dated{t, d}, int(pos))
	}
}

// link appends an entry to a list.
func (t *entryTable) link(l *line, e int32) {
	n := t.at(e)
	n.prev, n.next = l.tail, none
	if l.tail == none {
		l.head = e
	} else {
		t.at(l.tail).next = e
	}
	l.tail = e
}

// insert puts an entry into a list that is in the order of places: at its end,
// unless entries that came later are there already.
func (t *entryTable) insert(l *line, e int32) {
	n := t.at(e)
	after := l.tail
	for after != none && t.at(after).place > n.place {
		after = t.at(after).prev
	}
	if after == l.tail {
		t.link(l, e)
		return
	}
	n.prev, n.next = after, l.head
	if after != none {
		n.next = t.at(after).next
		t.at(after).next = e
	} else {
		l.head = e
	}
	t.at(n.next).prev = e
}

// unlinkFrom takes an entry out of the list it is in.
func (t *entryTable) unlinkFrom(l *line, e int32) {
	n := t.at(e)
	if n.prev == none {
		l.head = n.next
	} else {
		t.at(n.prev).next = n.next
	}
	if n.next == none {
		l.tail = n.prev
	} else {
		t.at(n.next).prev = n.prev
	}
}
