// Package batch decides which predict requests are computed next, and which of them
// together. Requests wait in the order of package admission: by class, then by
// what their tenants have used, then by deadline. The first of that order begins a
// batch, and whatever else waits of the same kind (the same version of a model, the
// same shape of rows) joins it, as far as the batch's limit goes.
//
// A batch never waits to grow, unless its kind has a delay: a worker that is free to
// compute takes what waits. So requests are alone while the lane is idle, and
// batches grow by themselves while it is busy.
//
// The queue is pure: time is an argument, in nanoseconds, and the same calls give
// the same batches. Its owner guards it.
package batch

import (
	"fmt"
	"math"
	"time"

	"weir/internal/inference"
	"weir/scheduler/admission"
)

// Config bounds the queue. Zero fields take the defaults named.
type Config struct {
	Requests  int // waiting at most; default 1024
	Rows      int // of all waiting requests; 0 is no limit
	LookAhead int // requests of other kinds that a batch is looked for behind; default 256

	SharePercent [inference.NumClasses]int // as in admission.Config
	Lane         *admission.Lane           // nil: what tenants use here counts nowhere else
}

// Work is one request. Cost is the compute time that it will probably take by
// itself, in nanoseconds.
type Work struct {
	User      any // the caller's name for it
	Tenant    string
	Weight    int
	Class     inference.Class
	OverQuota bool
	DoneBy    int64 // an answer after this time is worth nothing; 0 is never
	WaitUntil int64 // it waits no longer; 0 is DoneBy

	Kind    string // only requests of one kind are computed together
	Rows    int
	MaxRows int           // of a batch of this kind; a request of more is computed alone
	Delay   time.Duration // how long a batch of this kind may wait for more rows
	Cost    uint64
}

// TakenRequest is a request that has left the queue to be computed.
type TakenRequest struct {
	Work
	flow    admission.FlowID
	charged uint64
}

// Ticket names a waiting request.
type Ticket struct {
	line admission.Ticket
	ref  uint64
}

// Queue holds waiting requests. Build it with New.
type Queue struct {
	line     *admission.Queue
	precheck admission.Precheck
	entries  []entry  // by admission.Item.Ref
	free     []uint64 // unused entries
	kinds    []kind   // of what waits
	byName   map[string]int
	dropped  []expiredWork
}

// entry is a waiting request.
type entry struct {
	work Work
	item admission.Item
}

// kind is what waits of one kind.
type kind struct {
	name     string
	requests int
	rows     int
	maxRows  int
	ready    int64 // a batch may begin from this time on, if it is not full before
}

// expiredWork is a request that left without service.
type expiredWork struct {
	user any
	why  error
}

// New returns an empty queue.
func New(cfg Config) (*Queue, error) {
	if cfg.LookAhead == 0 {
		cfg.LookAhead = 256
	}
	line, err := admission.New(admission.Config{
		MaxRequests: cfg.Requests, MaxTokens: cfg.Rows, LookAhead: cfg.LookAhead, SharePercent: cfg.SharePercent, Lane: cfg.Lane,
	})
	if err != nil {
		return nil, fmt.Errorf("build queue of predictions: %w", err)
	}
	return &Queue{line: line, precheck: admission.NewPrecheck(line.Bounds()), byName: make(map[string]int)}, nil
}

// Len is the number of waiting requests.
func (q *Queue) Len() int { return q.line.Len() }

// Rows is the number of rows of all waiting requests.
func (q *Queue) Rows() int { return q.line.Tokens() }

// Position estimates how many requests go before a waiting one.
func (q *Queue) Position(t Ticket) (ahead int, waits bool) { return q.line.Position(t.line) }

// Debt is how much compute time a tenant has had beyond the least served one that
// waits in its class.
func (q *Queue) Debt(tenant string, c inference.Class) time.Duration {
	return time.Duration(min(q.line.Debt(tenant, c), math.MaxInt64)) //nolint:gosec // just bounded
}

// Offer queues a request, or refuses it with an *inference.LimitError: the queue is
// full, or the deadline cannot be met. Call Dropped afterwards for those that gave
// way to it.
func (q *Queue) Offer(now int64, w Work) (Ticket, error) {
	it := w.item()
	call := [1]admission.Item{it}
	if err := q.precheck.Enter(now, call[:]); err != nil {
		return Ticket{}, err
	}
	for ref, gives := q.line.Shed(it); gives; ref, gives = q.line.Shed(it) {
		q.drop(now, ref, inference.ErrShed)
	}
	it.Ref = q.take()
	t, err := q.line.Offer(it)
	if err != nil {
		q.precheck.Leave(now, &it, false)
		q.free = append(q.free, it.Ref)
		return Ticket{}, err
	}
	q.entries[it.Ref] = entry{w, it}
	q.join(now, &w)
	return Ticket{t, it.Ref}, nil
}

// Begin takes a request that nothing waits before: for a caller that computes at
// once. Like Offer it refuses what cannot be done before its deadline. The queue
// must be empty.
func (q *Queue) Begin(now int64, w Work) (TakenRequest, error) {
	if q.Len() > 0 {
		return TakenRequest{}, fmt.Errorf("%w: a request begins before %d others", inference.ErrInternal, q.Len())
	}
	it := w.item()
	if it.DoneBy != 0 {
		call := [1]admission.Item{it}
		if err := q.precheck.Enter(now, call[:]); err != nil {
			return TakenRequest{}, err
		}
		q.precheck.Leave(now, &it, false) // it did not wait, so that it tells nothing of how fast the queue moves
	}
	if _, err := q.line.Offer(it); err != nil {
		return TakenRequest{}, err
	}
	q.line.Scan(w.Class, false)
	q.line.Next()
	t := TakenRequest{w, q.line.Take(w.Cost), w.Cost}
	q.line.EndScan()
	return t, nil
}

// item is the request as admission counts it: rows are its tokens.
func (w *Work) item() admission.Item {
	until := w.WaitUntil
	if until == 0 || w.DoneBy != 0 && w.DoneBy < until {
		until = w.DoneBy
	}
	return admission.Item{
		Tenant: w.Tenant, Class: w.Class, Weight: w.Weight, Tokens: w.Rows, Cost: w.Cost, Until: until, Due: w.DoneBy,
		OverQuota: w.OverQuota, Work: w.Cost, DoneBy: w.DoneBy, Done: time.Duration(min(w.Cost, maxCost)),
	}
}

// maxCost bounds one request's cost, as admission does: 18 minutes.
const maxCost = 1 << 40

// Remove takes a request out without service; false means that it has left already.
func (q *Queue) Remove(now int64, t Ticket) bool {
	if !q.line.Remove(t.line) {
		return false
	}
	q.leave(now, t.ref, false)
	return true
}

// Dropped hands back a request that left without service, by Work.User, and why: its
// deadline passed, it waited too long, or it gave way to another. Call it until ok is
// false, before Next and after Offer.
func (q *Queue) Dropped(now int64) (user any, why error, ok bool) {
	for {
		ref, gone := q.line.Expire(now)
		if !gone {
			break
		}
		why := inference.ErrQueueTimeout
		if by := q.entries[ref].work.DoneBy; by != 0 && by <= now {
			why = inference.ErrDeadline
		}
		q.drop(now, ref, why)
	}
	n := len(q.dropped) - 1
	if n < 0 {
		return nil, nil, false
	}
	d := q.dropped[n]
	q.dropped[n] = expiredWork{}
	q.dropped = q.dropped[:n]
	return d.user, d.why, true
}

// drop notes that an entry has left the line without service.
func (q *Queue) drop(now int64, ref uint64, why error) {
	q.dropped = append(q.dropped, expiredWork{q.entries[ref].work.User, why})
	q.leave(now, ref, false)
}

// take finds room for an entry.
func (q *Queue) take() uint64 {
	if n := len(q.free) - 1; n >= 0 {
		ref := q.free[n]
		q.free = q.free[:n]
		return ref
	}
	q.entries = append(q.entries, entry{})
	return uint64(len(q.entries) - 1)
}

// leave forgets an entry that is not in line any more.
func (q *Queue) leave(now int64, ref uint64, served bool) {
	e := &q.entries[ref]
	q.precheck.Leave(now, &e.item, served)
	q.part(&e.work)
	*e = entry{}
	q.free = append(q.free, ref)
}

// join counts a request among those of its kind.
func (q *Queue) join(now int64, w *Work) {
	i, known := q.byName[w.Kind]
	if !known {
		i = len(q.kinds)
		q.kinds = append(q.kinds, kind{name: w.Kind, ready: math.MaxInt64})
		q.byName[w.Kind] = i
	}
	k := &q.kinds[i]
	k.requests++
	k.rows += w.Rows
	k.maxRows = w.MaxRows
	k.ready = min(k.ready, w.ready(now))
}

// ready is when a batch with this request may begin at the latest: after the delay, or
// so early that the deadline can still be met.
func (w *Work) ready(now int64) int64 {
	if w.Delay <= 0 {
		return 0 // at once, also by a clock that was set back meanwhile
	}
	at := now + int64(w.Delay)
	if w.DoneBy != 0 {
		at = min(at, w.DoneBy-2*int64(min(w.Cost, maxCost)))
	}
	return max(at, now)
}

// part is the opposite of join.
func (q *Queue) part(w *Work) {
	i := q.byName[w.Kind]
	k := &q.kinds[i]
	k.requests--
	k.rows -= w.Rows
	if k.requests > 0 {
		return
	}
	last := len(q.kinds) - 1
	q.kinds[i] = q.kinds[last]
	q.byName[q.kinds[i].name] = i
	q.kinds[last] = kind{}
	q.kinds = q.kinds[:last]
	delete(q.byName, w.Kind)
}
