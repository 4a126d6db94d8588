package admission

import (
	"errors"
	"maps"
	"time"

	"weir/internal/inference"
)

// Door decides for who sends a request, before it reaches the queue, whether it
// may wait, and says when it pays to try again. A Door counts what waits: requests
// on their way to the step loop and those in its queue. Its counts are never less
// than the queue's, so that what has passed the Door is not refused there.
//
// How long a request will wait is the work of its tenant before it over the
// tenant's work that leaves the queue per time, as measured of late while some of
// it waited: its part, whatever others of its class and of higher ones take. Until
// enough was seen of the tenant, its part by weight of what leaves the queue counts.
// A tenant of which nothing waits waits for no turn.
//
// A Door is pure; its owner guards it. All it does costs O(1) for a request.
type Door struct {
	bounds Bounds
	all    Waiting
	ranks  ranks
	flows  map[flowKey]*party
	drain  drain  // of all
	weight uint64 // of the parties of which something waits
}

// party is what waits of one tenant in one class.
type party struct {
	Waiting
	weight uint64
	drain  drain
}

// maxParties bounds the tenants that are remembered while nothing of them waits.
const maxParties = 4096

// NewDoor returns the door of a queue with these bounds.
func NewDoor(b Bounds) Door { return Door{bounds: b, flows: make(map[flowKey]*party)} }

// Waiting counts all that waits.
func (d *Door) Waiting() Waiting { return d.all }

// Enter counts the requests of one call, or refuses all of them: with an
// *inference.LimitError around inference.ErrQueueFull, ErrTenantQueueFull or
// ErrDeadlineUnreachable. now is in nanoseconds.
func (d *Door) Enter(now int64, call []Item) error {
	d.drain.pass(now, d.all.Requests > 0)
	for i := 0; i < len(call); {
		n := likes(call[i:])
		if err := d.admit(now, call[i:i+n]); err != nil {
			for k := range call[:i] {
				d.remove(&call[k])
			}
			return err
		}
		i += n
	}
	return nil
}

// likes is how many requests of a call are of one tenant, class and standing.
func likes(call []Item) int {
	a := &call[0]
	for i := range call {
		if b := &call[i]; a.Tenant != b.Tenant || a.Class != b.Class || a.standing() != b.standing() {
			return i
		}
	}
	return len(call)
}

// admit counts requests that are alike, or refuses them. Requests of lower classes
// count as gone: they give way.
func (d *Door) admit(now int64, call []Item) error {
	it := &call[len(call)-1]
	all, own, more := d.all, Waiting{}, Waiting{}
	if p := d.flows[flowKey{it.Tenant, it.Class}]; p != nil {
		own = p.Waiting
	}
	all.Sub(d.ranks.below(it.standing()))
	for i := range call {
		more.Add(call[i].waiting())
	}
	if err := d.bounds.Room(all, own, more); err != nil {
		if limit, ok := errors.AsType[*inference.LimitError](err); ok && !errors.Is(err, inference.ErrNeverFits) {
			limit.RetryAfter, _ = d.wait(now, it, own.Work)
		}
		return err
	}
	if err := d.reach(now, it, own.Work+more.Work-it.Work); err != nil {
		return err
	}
	for i := range call {
		d.add(now, &call[i])
	}
	return nil
}

// Leave takes out a request that waits no more: it was served, or it ended.
func (d *Door) Leave(now int64, it *Item, served bool) {
	if p := d.flows[flowKey{it.Tenant, it.Class}]; served && p != nil {
		d.drain.pass(now, d.all.Requests > 0)
		d.drain.work += float64(it.Work)
		p.drain.pass(now, p.Requests > 0)
		p.drain.work += float64(it.Work)
	}
	d.remove(it)
}

func (d *Door) add(now int64, it *Item) {
	key := flowKey{it.Tenant, it.Class}
	p := d.flows[key]
	if p == nil {
		if len(d.flows) >= maxParties {
			maps.DeleteFunc(d.flows, func(_ flowKey, p *party) bool { return p.Requests == 0 })
		}
		p = &party{}
		d.flows[key] = p
	}
	p.drain.pass(now, p.Requests > 0)
	if p.Requests > 0 {
		d.weight -= p.weight
	}
	p.weight = it.share()
	d.weight += p.weight
	p.Add(it.waiting())
	d.all.Add(it.waiting())
	d.ranks[it.standing()].Add(it.waiting())
}

func (d *Door) remove(it *Item) {
	p := d.flows[flowKey{it.Tenant, it.Class}]
	if p == nil {
		return
	}
	if p.Sub(it.waiting()); p.Requests == 0 {
		d.weight -= p.weight
	}
	d.all.Sub(it.waiting())
	d.ranks[it.standing()].Sub(it.waiting())
}

// Wait estimates how long a request would wait; false before enough was seen to
// tell.
func (d *Door) Wait(now int64, it *Item) (time.Duration, bool) {
	own := uint64(0)
	if p := d.flows[flowKey{it.Tenant, it.Class}]; p != nil {
		own = p.Work
	}
	return d.wait(now, it, own)
}

// wait is how long a request will wait whose tenant has so much work before it.
func (d *Door) wait(now int64, it *Item, own uint64) (time.Duration, bool) {
	d.drain.pass(now, d.all.Requests > 0)
	rate := d.drain.rate()
	if rate == 0 {
		return 0, own == 0
	}
	rate *= float64(it.share()) / float64(max(d.weight, it.share()))
	if p := d.flows[flowKey{it.Tenant, it.Class}]; p != nil {
		p.drain.pass(now, p.Requests > 0)
		rate = (p.drain.work + rate*float64(drainTrust)) / (p.drain.busy + float64(drainTrust))
	}
	return time.Duration(float64(own) / max(rate, 1e-9)), true
}

// sure is the part of an estimate that a request is refused by: it is refused
// only where the deadline would pass even if it waited that much shorter.
const sure = 0.85

// reach refuses a request whose deadline cannot be met.
func (d *Door) reach(now int64, it *Item, own uint64) error {
	if it.FirstTokenBy == 0 && it.DoneBy == 0 {
		return nil
	}
	wait, known := d.wait(now, it, own)
	if !known {
		return nil
	}
	for _, by := range [...]struct {
		what  string
		time  int64
		takes time.Duration
	}{
		{"estimated milliseconds to the first token", it.FirstTokenBy, it.FirstToken},
		{"estimated milliseconds to the last token", it.DoneBy, it.Done},
	} {
		left, takes := time.Duration(by.time-now), wait+by.takes
		if by.time == 0 || time.Duration(sure*float64(takes)) <= left {
			continue
		}
		return &inference.LimitError{
			Err: inference.ErrDeadlineUnreachable, What: by.what, Need: int((takes + time.Millisecond - 1).Milliseconds()), Limit: int(max(left, 0).Milliseconds()),
			Remedy: "allow more time, or try again later", RetryAfter: min(wait, takes-left),
		}
	}
	return nil
}
