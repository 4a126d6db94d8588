package admission

import (
	"errors"
	"maps"
	"time"

	"weir/internal/inference"
)

// Precheck decides before a request reaches the queue, on the goroutine that submits it, whether it
// may wait, and says when it pays to try again. It counts what waits: requests
// on their way to the step loop and those in its queue. Its counts are never less
// than the queue's, so that what has passed the Precheck is not refused there.
//
// How long a request will wait is the work of its tenant before it over the
// tenant's work that leaves the queue per time, as measured in the last seconds while some of
// it waited. This rate already includes the time spent on others. Until
// enough was seen of the tenant, its part by weight of what leaves the queue counts.
// A tenant of which nothing waits waits for no turn.
//
// A Precheck is pure; its owner guards it. All it does costs O(1) for a request.
type Precheck struct {
	bounds     Bounds
	waiting    Waiting
	totals     queueTotals
	tenants    map[flowKey]*tenantQueue
	throughput throughput // of all
	weight     uint64     // of the tenants of which something waits
}

// tenantQueue is what waits of one tenant in one class.
type tenantQueue struct {
	Waiting
	weight     uint64
	throughput throughput
}

// maxTenantQueues bounds the tenants that are remembered while nothing of them waits.
const maxTenantQueues = 4096

// NewPrecheck returns the Precheck of a queue with these bounds.
func NewPrecheck(b Bounds) Precheck {
	return Precheck{bounds: b, tenants: make(map[flowKey]*tenantQueue)}
}

// Waiting counts all that waits.
func (d *Precheck) Waiting() Waiting { return d.waiting }

// Enter counts the requests of one call, or refuses all of them: with an
// *inference.LimitError around inference.ErrQueueFull, ErrTenantQueueFull or
// ErrDeadlineUnreachable. now is in nanoseconds.
func (d *Precheck) Enter(now int64, call []Item) error {
	d.throughput.advance(now, d.waiting.Requests > 0)
	for i := 0; i < len(call); {
		n := alike(call[i:])
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

// alike is how many requests of a call are of one tenant, class and standing.
func alike(call []Item) int {
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
func (d *Precheck) admit(now int64, call []Item) error {
	it := &call[len(call)-1]
	all, own, more := d.waiting, Waiting{}, Waiting{}
	if p := d.tenants[flowKey{it.Tenant, it.Class}]; p != nil {
		own = p.Waiting
	}
	all.Sub(d.totals.below(it.standing()))
	for i := range call {
		more.Add(call[i].waiting())
	}
	if err := d.bounds.Room(all, own, more); err != nil {
		if limit, ok := errors.AsType[*inference.LimitError](err); ok && !errors.Is(err, inference.ErrNeverFits) {
			limit.RetryAfter, _ = d.wait(now, it, own.Work)
		}
		return err
	}
	if err := d.checkDeadline(now, it, own.Work+more.Work-it.Work); err != nil {
		return err
	}
	for i := range call {
		d.add(now, &call[i])
	}
	return nil
}

// Leave takes out a request that waits no more: it was served, or it ended.
func (d *Precheck) Leave(now int64, it *Item, served bool) {
	if p := d.tenants[flowKey{it.Tenant, it.Class}]; served && p != nil {
		d.throughput.advance(now, d.waiting.Requests > 0)
		d.throughput.work += float64(it.Work)
		p.throughput.advance(now, p.Requests > 0)
		p.throughput.work += float64(it.Work)
	}
	d.remove(it)
}

func (d *Precheck) add(now int64, it *Item) {
	key := flowKey{it.Tenant, it.Class}
	p := d.tenants[key]
	if p == nil {
		if len(d.tenants) >= maxTenantQueues {
			maps.DeleteFunc(d.tenants, func(_ flowKey, p *tenantQueue) bool { return p.Requests == 0 })
		}
		p = &tenantQueue{}
		d.tenants[key] = p
	}
	p.throughput.advance(now, p.Requests > 0)
	if p.Requests > 0 {
		d.weight -= p.weight
	}
	p.weight = it.weight()
	d.weight += p.weight
	p.Add(it.waiting())
	d.waiting.Add(it.waiting())
	d.totals[it.standing()].Add(it.waiting())
}

func (d *Precheck) remove(it *Item) {
	p := d.tenants[flowKey{it.Tenant, it.Class}]
	if p == nil {
		return
	}
	if p.Sub(it.waiting()); p.Requests == 0 {
		d.weight -= p.weight
	}
	d.waiting.Sub(it.waiting())
	d.totals[it.standing()].Sub(it.waiting())
}

// Wait estimates how long a request would wait; false before enough was seen to
// tell.
func (d *Precheck) Wait(now int64, it *Item) (time.Duration, bool) {
	own := uint64(0)
	if p := d.tenants[flowKey{it.Tenant, it.Class}]; p != nil {
		own = p.Work
	}
	return d.wait(now, it, own)
}

// WaitBehind is Wait of a request that waits already, with so much work of its own tenant and class before it.
func (d *Precheck) WaitBehind(now int64, it *Item, own uint64) (time.Duration, bool) {
	return d.wait(now, it, own)
}

// wait is how long a request will wait whose tenant has so much work before it.
func (d *Precheck) wait(now int64, it *Item, own uint64) (time.Duration, bool) {
	d.throughput.advance(now, d.waiting.Requests > 0)
	rate := d.throughput.rate()
	if rate == 0 {
		return 0, own == 0
	}
	rate *= float64(it.weight()) / float64(max(d.weight, it.weight()))
	if p := d.tenants[flowKey{it.Tenant, it.Class}]; p != nil {
		p.throughput.advance(now, p.Requests > 0)
		rate = (p.throughput.work + rate*float64(drainPriorTime)) / (p.throughput.busy + float64(drainPriorTime))
	}
	return time.Duration(float64(own) / max(rate, 1e-9)), true
}

// refuseFraction is the part of an estimate that a request is refused by: it is refused
// only where the deadline would pass even if it waited that much shorter.
const refuseFraction = 0.85

// checkDeadline refuses a request whose deadline cannot be met.
func (d *Precheck) checkDeadline(now int64, it *Item, own uint64) error {
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
		if by.time == 0 || time.Duration(refuseFraction*float64(takes)) <= left {
			continue
		}
		return &inference.LimitError{
			Err: inference.ErrDeadlineUnreachable, What: by.what, Need: int((takes + time.Millisecond - 1).Milliseconds()), Limit: int(max(left, 0).Milliseconds()),
			Remedy: "allow more time, or try again later", RetryAfter: min(wait, takes-left),
		}
	}
	return nil
}
