package admission

import "weir/internal/inference"

// A class queue's heap orders backlogged flows by (rank, turn). A flow's service
// only grows between two looks at the top, so ranks are lower bounds: the top
// is the least served flow once its rank is up to date.

// leastServed brings the least served backlogged flow of a class to the top.
func (q *Queue) leastServed(c inference.Class) (int32, bool) {
	l := &q.classes[c]
	for len(l.backlog) > 0 {
		f := q.flows.at(l.backlog[0])
		if f.rank == f.service {
			return l.backlog[0], true
		}
		f.rank = f.service
		q.siftDown(l, 0)
	}
	return none, false
}

func (q *Queue) push(fi int32) {
	f := q.flows.at(fi)
	f.rank = f.service
	l := &q.classes[f.key.class]
	l.backlog = append(l.backlog, fi)
	f.pos = int32(len(l.backlog) - 1)
	q.siftUp(l, int(f.pos))
}

func (q *Queue) removeFlow(c inference.Class, pos int32) {
	l := &q.classes[c]
	last := len(l.backlog) - 1
	q.swap(l, int(pos), last)
	q.flows.at(l.backlog[last]).pos = none
	l.backlog = l.backlog[:last]
	if int(pos) < last {
		q.siftDown(l, int(pos))
		q.siftUp(l, int(pos))
	}
}

func (q *Queue) less(l *classQueue, i, j int) bool {
	a, b := q.flows.at(l.backlog[i]), q.flows.at(l.backlog[j])
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return a.turn < b.turn
}

func (q *Queue) swap(l *classQueue, i, j int) {
	l.backlog[i], l.backlog[j] = l.backlog[j], l.backlog[i]
	q.flows.at(l.backlog[i]).pos = int32(i)
	q.flows.at(l.backlog[j]).pos = int32(j)
}

func (q *Queue) siftUp(l *classQueue, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.less(l, i, parent) {
			return
		}
		q.swap(l, i, parent)
		i = parent
	}
}

func (q *Queue) siftDown(l *classQueue, i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(l.backlog); child++ {
			if q.less(l, child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		q.swap(l, i, least)
		i = least
	}
}
