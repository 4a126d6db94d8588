package admission

import (
	"slices"

	"weir/internal/inference"
)

// A request that finds the queue full is let in where others give way to it.
// Those beyond a quota count as of the lowest class, whatever theirs is. Only
// requests of lower classes give way, the lowest class first; in a class those
// first that their clients have sent before, and of these the youngest, which
// has waited least.

// standing is what shedding goes by: requests of a higher one give way first.
type standing uint8

const standings = 2 * inference.NumClasses

func (it *Item) standing() standing {
	c := it.Class
	if it.OverQuota {
		c = inference.Batch
	}
	s := standing(2 * c)
	if it.Retries > 0 {
		s++
	}
	return s
}

// ranks counts what waits by its standing.
type ranks [standings]Waiting

// below is what gives way to requests of a standing.
func (r *ranks) below(s standing) (w Waiting) {
	for i := s/2*2 + 2; i < standings; i++ {
		w.Add(r[i])
	}
	return w
}

// pile holds ids of entries of one standing in order of arrival. Those that have
// left the queue are cleared away when they are the most.
type pile []uint64

// pile puts an entry among those that may give way.
func (q *Queue) pile(e int32) {
	s := q.entries.at(e).item.standing()
	if s < 2 {
		return // nobody is above these
	}
	p := append(q.piles[s], q.entries.id(e))
	if len(p) > 2*q.ranks[s].Requests+64 {
		p = slices.DeleteFunc(p, func(id uint64) bool {
			_, live := q.entries.index(id)
			return !live
		})
	}
	q.piles[s] = p
}

// Shed takes out a request that gives way to an item for which the queue has no
// room, and hands back its Ref: call it until it reports false, then Offer the
// item. Nothing is taken out where that would not make room.
func (q *Queue) Shed(it Item) (ref uint64, ok bool) {
	it.Choices = max(it.Choices, 1)
	if it.Class >= inference.NumClasses || q.room(&it, Waiting{}) == nil || q.room(&it, q.ranks.below(it.standing())) != nil {
		return 0, false
	}
	for s := standing(standings - 1); s/2 > it.standing()/2; s-- {
		if e, ok := q.youngest(s); ok {
			return q.drop(e), true
		}
	}
	return 0, false
}

// youngest is the entry of a standing that came last.
func (q *Queue) youngest(s standing) (int32, bool) {
	p := q.piles[s]
	for len(p) > 0 {
		id := p[len(p)-1]
		p = p[:len(p)-1]
		q.piles[s] = p
		if e, live := q.entries.index(id); live {
			return e, true
		}
	}
	return none, false
}
