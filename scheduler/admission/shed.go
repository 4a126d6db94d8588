package admission

import (
	"fmt"

	"weir/internal/inference"
)

// shedOrder has the waiting requests in the order in which they give way.
//
// A request that finds the queue full is let in where others give way to it.
// Those beyond a quota count as of the lowest class, whatever theirs is. Only
// requests of lower classes give way, the lowest class first. In a class those of
// the tenant go first that is furthest beyond its fair share: whose counter of
// service by weight would be furthest above that of the least served tenant that
// waits, once what waits of it is served. (The counters alone do not tell who floods
// the queue: taking turns keeps them together.) Of a tenant, and of tenants that are
// equally far, those go first that their clients have sent before, and of these the
// youngest, which has waited least.
//
// shedOrder knows what waits in this order.
type shedOrder struct {
	entries  *entryTable
	counters *counters
	totals   queueTotals
}

// standing is the class that an item counts as when others give way to it.
func (it *Item) standing() inference.Class {
	if it.OverQuota {
		return inference.Batch
	}
	return it.Class
}

// queueTotals counts what waits by its standing.
type queueTotals [inference.NumClasses]Waiting

// below is what gives way to requests of a standing.
func (r *queueTotals) below(s inference.Class) (w Waiting) {
	for i := s + 1; i < inference.NumClasses; i++ {
		w.Add(r[i])
	}
	return w
}

// shedLists are the entries of a flow that may give way, in order of arrival.
type shedLists [numShedLists]line

// Entries of a flow are of one class, and so of at most two standings: their class's, and
// that of those beyond a quota.
const (
	firstTries = iota
	retries
	firstTriesLowered
	retriesLowered
	numShedLists

	lowered = firstTriesLowered // the offset of those whose standing is below their class
)

var emptyShedLists = shedLists{emptyLine, emptyLine, emptyLine, emptyLine}

func (it *Item) shedList() int {
	p := firstTries
	if it.Retries > 0 {
		p = retries
	}
	if it.standing() != it.Class {
		p += lowered
	}
	return p
}

// list puts an entry among those that may give way.
func (so *shedOrder) list(e int32) {
	n := so.entries.at(e)
	if n.item.standing() == inference.Interactive {
		return // no class is above these
	}
	if n.item.standing() != n.item.Class {
		so.counters.classes[n.item.Class].overQuota++
	}
	p := &so.counters.flows.at(n.flow).shedLists[n.item.shedList()]
	n.older, n.younger = p.tail, none
	if p.tail == none {
		p.head = e
	} else {
		so.entries.at(p.tail).younger = e
	}
	p.tail = e
}

// unlist takes an entry off its list: it leaves the queue.
func (so *shedOrder) unlist(e int32) {
	n := so.entries.at(e)
	if n.item.standing() == inference.Interactive {
		return
	}
	if n.item.standing() != n.item.Class {
		so.counters.classes[n.item.Class].overQuota--
	}
	p := &so.counters.flows.at(n.flow).shedLists[n.item.shedList()]
	if n.older == none {
		p.head = n.younger
	} else {
		so.entries.at(n.older).younger = n.younger
	}
	if n.younger == none {
		p.tail = n.older
	} else {
		so.entries.at(n.younger).older = n.older
	}
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
func (so *shedOrder) furthest(s inference.Class) int32 {
	best := candidate{entry: none}
	for c := range inference.Class(inference.NumClasses) {
		offset := firstTries
		if c != s {
			if s != inference.Batch || so.counters.classes[c].overQuota == 0 {
				continue
			}
			offset = lowered
		}
		least, any := so.counters.leastServed(c)
		if !any {
			continue
		}
		floor := so.counters.flows.at(least).service
		for _, fi := range so.counters.classes[c].backlog {
			f := so.counters.flows.at(fi)
			next := candidate{
				entry: f.shedLists[offset+retries].tail, retry: true,
				beyond: (f.service-floor)/unitScale + f.work/(unitScale/f.scale),
			}
			if next.entry == none {
				next.entry, next.retry = f.shedLists[offset].tail, false
			}
			if next.entry == none || best.entry != none && next.beyond < best.beyond {
				continue
			}
			next.number = so.entries.at(next.entry).number
			if best.entry == none || next.before(best) {
				best = next
			}
		}
	}
	return best.entry
}

// checkTotals recounts what waits by standing.
func (so *shedOrder) checkTotals() error {
	var have queueTotals
	for i := range so.entries.slots {
		if s := &so.entries.slots[i]; s.live {
			have[s.value.item.standing()].Add(s.value.item.waiting())
		}
	}
	if have != so.totals {
		return fmt.Errorf("check queue: by standing %v wait, counted %v", have, so.totals)
	}
	return so.checkLists(have)
}

// checkLists checks that all entries that may give way are in the list where furthest looks for them.
func (so *shedOrder) checkLists(have queueTotals) error {
	var listed [inference.NumClasses]int
	var below [inference.NumClasses]int
	for i := range so.counters.flows.slots {
		f := &so.counters.flows.slots[i].value
		if !so.counters.flows.slots[i].live {
			continue
		}
		for p, l := range f.shedLists {
			before := int32(none)
			for e := l.head; e != none; e = so.entries.at(e).younger {
				n := so.entries.at(e)
				if n.older != before || n.flow != int32(i) || n.item.shedList() != p || before != none && so.entries.at(before).number > n.number {
					return fmt.Errorf("check queue: request %d is in shed list %d of %q, behind %d", n.item.Ref, p, f.key.tenant, before)
				}
				listed[n.item.standing()]++
				if p >= lowered {
					below[f.key.class]++
				}
				before = e
			}
			if l.tail != before {
				return fmt.Errorf("check queue: shed list %d of %q ends with %d, want %d", p, f.key.tenant, l.tail, before)
			}
		}
	}
	for c := range have {
		want := have[c].Requests
		if c == int(inference.Interactive) {
			want = 0
		}
		if listed[c] != want || below[c] != so.counters.classes[c].overQuota {
			return fmt.Errorf("check queue: %d requests of standing %d may give way, want %d; %d are lowered, counted %d",
				listed[c], c, want, below[c], so.counters.classes[c].overQuota)
		}
	}
	return nil
}
