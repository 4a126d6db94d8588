// Package admission holds the queue in which requests wait for the step
// planner. It decides two things and nothing else: whether a request may wait
// at all (the queue is bounded in choices and in prompt tokens, as a whole and
// per tenant), and whose turn is next.
//
// The order is: class (strict, except that each lower class is owed a small
// guaranteed share), then tenant by weighted virtual counters of compute time
// (after Sheng et al., "Fairness in Serving Large Language Models", 2024), then
// call by call inside a tenant: one request of each call stands in line, and
// when it leaves, the next one of the same call joins the end of the line. So
// a call of a thousand prompts takes turns with a call of one. Requests
// with a deadline go first, the soonest first, but every fifth turn is the
// oldest one's. The unit of the counters is the caller's: the scheduler's is a
// nanosecond of compute.
//
// The caller may set a request aside that waits for something which barring
// others would not bring sooner (a slot for long prompts). Scans pass over it
// for free until the caller asks for those as well; it keeps its place.
//
// The queue is a pure data structure: it has no clock, no goroutine and no
// lock, counts in integers, and never iterates over a map, so the same calls
// give the same order. It belongs to one goroutine. Offer, Take and Remove
// cost O(log tenants) (plus O(log requests) with an end of waiting); nothing depends
// on the number of waiting requests.
package admission

import (
	"fmt"
	"time"

	"weir/internal/inference"
)

// Config bounds the queue. Zero fields take the defaults named.
type Config struct {
	MaxRequests    int // choices of all waiting requests; default 1024
	MaxTokens      int // prompt tokens of all waiting requests; 0 is no limit
	LookAhead      int // requests that one scan may skip; default 8
	MaxIdleTenants int // tenants remembered while they have no request; default 4096

	// SharePercent is each class's guaranteed share of the prefill work that
	// higher classes are admitted with while it waits; 0 is none. The entry of
	// the highest class has no meaning.
	SharePercent [inference.NumClasses]int

	Lane    *Lane  // joins the queue to those of other lanes; nil is none
	MaxDebt uint64 // how far what other lanes charge puts a tenant behind; default 10 s in nanoseconds
}

// Item is one request as the queue sees it.
type Item struct {
	Ref     uint64 // the caller's name for the request; Next and Expire hand it back
	Tenant  string // unit of fairness
	Class   inference.Class
	Group   string // requests of one tenant that share it are one call; "" is a call of its own
	Weight  int    // the tenant's share relative to others, 1 to MaxWeight; 0 is 1
	Tokens  int    // prompt tokens
	Choices int    // how many requests it counts as in the bounds; 0 is 1
	Cost    uint64 // what serving the prompt is expected to cost
	Until   int64  // Expire hands the item back from this time on; 0 is never
	Due     int64  // of a tenant's items the one that is due first goes first; 0 is never

	OverQuota bool // it gives way like one of the lowest class
	Retries   int  // times that the client has tried before; it gives way before first tries

	// What only the Precheck reads: the expected compute time of prompt and answers in
	// the unit of Cost, the deadlines, 0 for none, and how long after it is admitted
	// its first and its last token are expected.
	Work                 uint64
	FirstTokenBy, DoneBy int64
	FirstToken, Done     time.Duration
}

// weight is the weight within its bounds.
func (it *Item) weight() uint64 { return uint64(min(max(it.Weight, 1), MaxWeight)) }

// waiting is what the item counts as.
func (it *Item) waiting() Waiting { return Waiting{1, it.Choices, it.Tokens, it.Work} }

// MaxWeight is the largest weight that changes anything; larger ones are cut.
const MaxWeight = 1 << 12

// Ticket names a waiting item: slot index and generation, so that the ticket
// of an item that has left is never taken for a later one.
type Ticket uint64

// Queue holds waiting requests. Build it with New.
type Queue struct {
	counters
	groupTable
	entries entryTable
	sheds   shedOrder
	ending  dates // entries that do not wait for ever
	tokens  int
	choices int
	offers  uint64 // ever accepted; numbers items in order of arrival
	scan    scan
}

// none is the end of a list and the position of what is on no heap.
const none = -1

// New returns an empty queue.
func New(cfg Config) (*Queue, error) {
	if cfg.MaxRequests < 0 || cfg.MaxTokens < 0 || cfg.LookAhead < 0 || cfg.MaxIdleTenants < 0 {
		return nil, fmt.Errorf("build admission queue: negative limit in %+v", cfg)
	}
	for c, p := range cfg.SharePercent {
		if p < 0 || p > 100 {
			return nil, fmt.Errorf("build admission queue: share of class %d is %d %%, want 0 to 100", c, p)
		}
	}
	cfg.MaxRequests = orDefault(cfg.MaxRequests, 1024)
	cfg.LookAhead = orDefault(cfg.LookAhead, 8)
	cfg.MaxIdleTenants = orDefault(cfg.MaxIdleTenants, 4096)
	if cfg.MaxDebt == 0 {
		cfg.MaxDebt = 10e9
	}
	q := &Queue{counters: counters{cfg: cfg, byKey: make(map[flowKey]int32)}}
	q.groupTable = groupTable{entries: &q.entries, byGroup: make(map[groupKey]int32)}
	q.sheds = shedOrder{entries: &q.entries, counters: &q.counters}
	for c := range q.classes {
		q.classes[c].idle = idleList{none, none, 0}
	}
	return q, nil
}

func orDefault(v, def int) int {
	if v == 0 {
		return def
	}
	return v
}

// Offer queues an item, or refuses it with an *inference.LimitError around
// inference.ErrQueueFull or ErrTenantQueueFull. A prompt larger than MaxTokens,
// or more choices than MaxRequests, may wait alone.
func (q *Queue) Offer(it Item) (Ticket, error) {
	if it.Class >= inference.NumClasses {
		return 0, fmt.Errorf("%w: class %d, want below %d", inference.ErrInvalid, it.Class, inference.NumClasses)
	}
	it.Choices, it.Cost = max(it.Choices, 1), min(it.Cost, maxCost)
	if err := q.room(&it, Waiting{}); err != nil {
		return 0, err
	}
	e := q.entries.take()
	q.offers++
	*q.entries.at(e) = entry{item: it, number: q.offers, pos: [numDates]int32{none, none}, group: none}
	q.append(q.flowOf(it), e)
	q.tokens += it.Tokens
	q.choices += it.Choices
	q.classes[it.Class].waiting++
	q.sheds.totals[it.standing()].Add(it.waiting())
	q.sheds.list(e)
	if it.Until != 0 {
		q.entries.pushDate(&q.ending, e)
	}
	return Ticket(q.entries.id(e)), nil
}

// Remove takes an item out of the queue without service; false means that the
// ticket's item has already left.
func (q *Queue) Remove(t Ticket) bool {
	e, ok := q.entries.index(uint64(t))
	if !ok {
		return false
	}
	q.drop(e)
	return true
}

// unlink removes an entry from its flow, the counts and the deadline heap. The
// flow keeps the item's reference.
func (q *Queue) unlink(e int32) {
	n := q.entries.at(e)
	q.sheds.unlist(e)
	q.detach(e)
	q.tokens -= n.item.Tokens
	q.choices -= n.item.Choices
	q.sheds.totals[n.item.standing()].Sub(n.item.waiting())
	l := &q.classes[n.item.Class]
	l.waiting--
	if l.waiting == 0 {
		l.credit = 0
	}
	q.entries.removeDate(&q.ending, e)
	q.entries.put(e)
}

// Len is the number of waiting items.
func (q *Queue) Len() int {
	n := 0
	for c := range q.classes {
		n += q.classes[c].waiting
	}
	return n
}

// Waiting is the number of waiting items of one class.
func (q *Queue) Waiting(c inference.Class) int { return q.classes[c].waiting }

// Choices is the sum of choices of all waiting items.
func (q *Queue) Choices() int { return q.choices }

// Tokens is the sum of prompt tokens of all waiting items.
func (q *Queue) Tokens() int { return q.tokens }

// Position estimates how many items go before this one: all of higher classes,
// those of its tenant that came earlier (for a follower of its group: a turn of
// every call in line for each of the group's before it), and as many of each
// other tenant in its class, which take turns with it. It costs O(1), so it is
// an estimate: cancelled items that were not yet passed may be counted.
func (q *Queue) Position(t Ticket) (int, bool) {
	e, ok := q.entries.index(uint64(t))
	if !ok {
		return 0, false
	}
	n := q.entries.at(e)
	f := q.flows.at(n.flow)
	l := &q.classes[n.item.Class]
	own := int(n.place - q.firstPlace(f))
	if n.where == follows {
		own = int(n.place-q.groups.at(n.group).left) * f.listed
	}
	own = min(own, f.waiting-1)
	others := l.waiting - f.waiting
	ahead := own + min(others, own*(len(l.backlog)-1))
	for c := range n.item.Class {
		ahead += q.classes[c].waiting
	}
	return ahead, true
}

// Shed takes out a request that gives way to an item for which the queue has no
// room, and hands back its Ref: call it until it reports false, then Offer the
// item. Nothing is taken out where that would not make room. It costs O(tenants that
// wait in the class).
func (q *Queue) Shed(it Item) (ref uint64, ok bool) {
	it.Choices = max(it.Choices, 1)
	if it.Class >= inference.NumClasses || q.room(&it, Waiting{}) == nil || q.room(&it, q.sheds.totals.below(it.standing())) != nil {
		return 0, false
	}
	for s := inference.Class(inference.NumClasses - 1); s > it.standing(); s-- {
		if q.sheds.totals[s].Requests > 0 {
			return q.drop(q.sheds.furthest(s)), true
		}
	}
	return 0, false
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

// room applies the bounds to an item, as if some of what waits were gone.
func (q *Queue) room(it *Item, gone Waiting) error {
	own := Waiting{}
	if i, known := q.byKey[flowKey{it.Tenant, it.Class}]; known {
		f := q.flows.at(i)
		own = Waiting{Requests: f.waiting, Choices: f.choices, Tokens: f.tokens}
	}
	all := Waiting{Requests: q.Len(), Choices: q.choices, Tokens: q.tokens}
	all.Sub(gone)
	return q.Bounds().Room(all, own, it.waiting())
}

// Bounds are the queue's. They never change, so that they may be read from anywhere.
func (q *Queue) Bounds() Bounds { return Bounds{q.cfg.MaxRequests, q.cfg.MaxTokens} }
