package admission

// Expire takes out one item whose time to wait is over and hands back its Ref;
// call it until it reports false. Items with the same end leave in order
// of arrival.
func (q *Queue) Expire(now int64) (ref uint64, ok bool) {
	if len(q.due) == 0 {
		return 0, false
	}
	e := q.due[0]
	n := q.entries.at(e)
	if n.item.Until > now {
		return 0, false
	}
	ref = n.item.Ref
	f := n.flow
	q.unlink(e)
	q.release(f)
	return ref, true
}

func (q *Queue) sooner(i, j int) bool {
	a, b := q.entries.at(q.due[i]), q.entries.at(q.due[j])
	if a.item.Until != b.item.Until {
		return a.item.Until < b.item.Until
	}
	return a.number < b.number
}

func (q *Queue) swapDue(i, j int) {
	q.due[i], q.due[j] = q.due[j], q.due[i]
	q.entries.at(q.due[i]).due = int32(i)
	q.entries.at(q.due[j]).due = int32(j)
}

func (q *Queue) pushDue(e int32) {
	q.due = append(q.due, e)
	q.entries.at(e).due = int32(len(q.due) - 1)
	q.siftUpDue(len(q.due) - 1)
}

func (q *Queue) removeDue(pos int32) {
	last := len(q.due) - 1
	q.swapDue(int(pos), last)
	q.entries.at(q.due[last]).due = none
	q.due = q.due[:last]
	if int(pos) < last {
		q.siftDownDue(int(pos))
		q.siftUpDue(int(pos))
	}
}

func (q *Queue) siftUpDue(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.sooner(i, parent) {
			return
		}
		q.swapDue(i, parent)
		i = parent
	}
}

func (q *Queue) siftDownDue(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.due); child++ {
			if q.sooner(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		q.swapDue(i, least)
		i = least
	}
}
