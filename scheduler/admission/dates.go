package admission

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

// Expire takes out one item whose time to wait is over and hands back its Ref;
// call it until it reports false. Items with the same end leave in order of
// arrival.
func (q *Queue) Expire(now int64) (ref uint64, ok bool) {
	if len(q.ending.heap) == 0 {
		return 0, false
	}
	e := q.ending.heap[0]
	n := q.entries.at(e)
	if n.item.Until > now {
		return 0, false
	}
	return q.drop(e), true
}

// drop takes an entry out without service and returns its Ref.
func (q *Queue) drop(e int32) uint64 {
	n := q.entries.at(e)
	ref, f := n.item.Ref, n.flow
	q.unlink(e)
	q.release(f)
	return ref
}

func (q *Queue) sooner(d *dates, i, j int) bool {
	a, b := q.entries.at(d.heap[i]), q.entries.at(d.heap[j])
	if x, y := a.item.date(d.by), b.item.date(d.by); x != y {
		return x < y
	}
	return a.number < b.number
}

func (q *Queue) swapDates(d *dates, i, j int) {
	d.heap[i], d.heap[j] = d.heap[j], d.heap[i]
	q.entries.at(d.heap[i]).pos[d.by] = int32(i)
	q.entries.at(d.heap[j]).pos[d.by] = int32(j)
}

func (q *Queue) pushDate(d *dates, e int32) {
	d.heap = append(d.heap, e)
	i := len(d.heap) - 1
	q.entries.at(e).pos[d.by] = int32(i)
	q.siftUpDates(d, i)
}

// removeDate takes an entry off a heap that it may be on.
func (q *Queue) removeDate(d *dates, e int32) {
	pos := q.entries.at(e).pos[d.by]
	if pos == none {
		return
	}
	last := len(d.heap) - 1
	q.swapDates(d, int(pos), last)
	q.entries.at(e).pos[d.by] = none
	d.heap = d.heap[:last]
	if int(pos) < last {
		q.siftDownDates(d, int(pos))
		q.siftUpDates(d, int(pos))
	}
}

func (q *Queue) siftUpDates(d *dates, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.sooner(d, i, parent) {
			return
		}
		q.swapDates(d, i, parent)
		i = parent
	}
}

func (q *Queue) siftDownDates(d *dates, i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(d.heap); child++ {
			if q.sooner(d, child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		q.swapDates(d, i, least)
		i = least
	}
}
