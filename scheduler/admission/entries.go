package admission

import "fmt"

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
		if t.at(e).pos[d.by] != int32(i) || i > 0 && t.sooner(d, i, (i-1)/2) {
			return fmt.Errorf("check queue: the heap of dates is broken at %d", i)
		}
	}
	return nil
}

func (t *entryTable) sooner(d *dates, i, j int) bool {
	a, b := t.at(d.heap[i]), t.at(d.heap[j])
	if x, y := a.item.date(d.by), b.item.date(d.by); x != y {
		return x < y
	}
	return a.number < b.number
}

func (t *entryTable) swapDates(d *dates, i, j int) {
	d.heap[i], d.heap[j] = d.heap[j], d.heap[i]
	t.at(d.heap[i]).pos[d.by] = int32(i)
	t.at(d.heap[j]).pos[d.by] = int32(j)
}

func (t *entryTable) pushDate(d *dates, e int32) {
	d.heap = append(d.heap, e)
	i := len(d.heap) - 1
	t.at(e).pos[d.by] = int32(i)
	t.siftUpDates(d, i)
}

// removeDate takes an entry off a heap that it may be on.
func (t *entryTable) removeDate(d *dates, e int32) {
	pos := t.at(e).pos[d.by]
	if pos == none {
		return
	}
	last := len(d.heap) - 1
	t.swapDates(d, int(pos), last)
	t.at(e).pos[d.by] = none
	d.heap = d.heap[:last]
	if int(pos) < last {
		t.siftDownDates(d, int(pos))
		t.siftUpDates(d, int(pos))
	}
}

func (t *entryTable) siftUpDates(d *dates, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.sooner(d, i, parent) {
			return
		}
		t.swapDates(d, i, parent)
		i = parent
	}
}

func (t *entryTable) siftDownDates(d *dates, i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(d.heap); child++ {
			if t.sooner(d, child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		t.swapDates(d, i, least)
		i = least
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
