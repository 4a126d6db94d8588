package admission

import "weir/internal/inference"

// A request that finds the queue full is let in where others give way to it.
// Those beyond a quota count as of the lowest class, whatever theirs is. Only
// requests of lower classes give way, the lowest class first. In a class those of
// the tenant go first that is furthest beyond its fair share: whose counter of
// service by weight would be furthest above that of the least served tenant that
// waits, once what waits of it is served. (The counters alone do not tell who floods
// the queue: taking turns keeps them together.) Of a tenant, and of tenants that are
// equally far, those go first that their clients have sent before, and of these the
// youngest, which has waited least.

// standing is the class that an item counts as when others give way to it.
func (it *Item) standing() inference.Class {
	if it.OverQuota {
		return inference.Batch
	}
	return it.Class
}

// ranks counts what waits by its standing.
type ranks [inference.NumClasses]Waiting

// below is what gives way to requests of a standing.
func (r *ranks) below(s inference.Class) (w Waiting) {
	for i := s + 1; i < inference.NumClasses; i++ {
		w.Add(r[i])
	}
	return w
}

// piles are the entries of a flow that may give way, in order of arrival.
type piles [numPiles]line

// Entries of a flow are of one class, and so of at most two standings: their class's, and
// that of those beyond a quota.
const (
	firstTries = iota
	retries
	firstTriesLowered
	retriesLowered
	numPiles

	lowered = firstTriesLowered // the offset of those whose standing is below their class
)

var emptyPiles = piles{emptyLine, emptyLine, emptyLine, emptyLine}

func (it *Item) pile() int {
	p := firstTries
	if it.Retries > 0 {
		p = retries
	}
	if it.standing() != it.Class {
		p += lowered
	}
	return p
}

// pile puts an entry among those that may give way.
func (q *Queue) pile(e int32) {
	n := q.entries.at(e)
	if n.item.standing() == inference.Interactive {
		return // nobody is above these
	}
	if n.item.standing() != n.item.Class {
		q.classes[n.item.Class].lowered++
	}
	p := &q.flows.at(n.flow).piles[n.item.pile()]
	n.older, n.younger = p.tail, none
	if p.tail == none {
		p.head = e
	} else {
		q.entries.at(p.tail).younger = e
	}
	p.tail = e
}

// unpile takes an entry out of its pile: it leaves the queue.
func (q *Queue) unpile(e int32) {
	n := q.entries.at(e)
	if n.item.standing() == inference.Interactive {
		return
	}
	if n.item.standing() != n.item.Class {
		q.classes[n.item.Class].lowered--
	}
	p := &q.flows.at(n.flow).piles[n.item.pile()]
	if n.older == none {
		p.head = n.younger
	} else {
		q.entries.at(n.older).younger = n.younger
	}
	if n.younger == none {
		p.tail = n.older
	} else {
		q.entries.at(n.younger).older = n.older
	}
}

// Shed takes out a request that gives way to an item for which the queue has no
// room, and hands back its Ref: call it until it reports false, then Offer the
// item. Nothing is taken out where that would not make room. It costs O(tenants that
// wait in the class).
func (q *Queue) Shed(it Item) (ref uint64, ok bool) {
	it.Choices = max(it.Choices, 1)
	if it.Class >= inference.NumClasses || q.room(&it, Waiting{}) == nil || q.room(&it, q.ranks.below(it.standing())) != nil {
		return 0, false
	}
	for s := inference.Class(inference.NumClasses - 1); s > it.standing(); s-- {
		if q.ranks[s].Requests > 0 {
			return q.drop(q.furthest(s)), true
		}
	}
	return 0, false
}

// candidate is an entry that may give way, and what decides between candidates.
type candidate struct {
	entry  int32
	beyond uint64 // cost by weight, see furthest
	retry  bool
	number uint64
}

// before reports whether a gives way before b.
func (a candidate) before(b candidate) bool {
	switch {
	case a.beyond != b.beyond:
		return a.beyond > b.beyond
	case a.retry != b.retry:
		return a.retry
	}
	return a.number > b.number
}

// work is what serving the item is expected to cost: its answers, too, where that is known.
func (it *Item) work() uint64 { return min(max(it.Work, it.Cost), maxCost) }

// furthest is the entry of a standing, of which some wait, that gives way first. Tenants
// compare by their service above the least served one of their class plus the work that
// waits of them, by weight.
func (q *Queue) furthest(s inference.Class) int32 {
	best := candidate{entry: none}
	for c := range inference.Class(inference.NumClasses) {
		offset := firstTries
		if c != s {
			if s != inference.Batch || q.classes[c].lowered == 0 {
				continue
			}
			offset = lowered
		}
		least, any := q.leastServed(c)
		if !any {
			continue
		}
		floor := q.flows.at(least).service
		for _, fi := range q.classes[c].backlog {
			f := q.flows.at(fi)
			next := candidate{
				entry: f.piles[offset+retries].tail, retry: true,
				beyond: (f.service-floor)/unitScale + f.work/(unitScale/f.scale),
			}
			if next.entry == none {
				next.entry, next.retry = f.piles[offset].tail, false
			}
			if next.entry == none || best.entry != none && next.beyond < best.beyond {
				continue
			}
			next.number = q.entries.at(next.entry).number
			if best.entry == none || next.before(best) {
				best = next
			}
		}
	}
	return best.entry
}
