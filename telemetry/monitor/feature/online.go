package feature

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Store is an online store of features. Its errors say that it did not answer; what it
// does not have is missing in the records.
type Store interface {
	// Reader prepares reads of a manifest's entities.
	Reader(t Target) (Reader, error)
}

// Target is what a Reader reads.
type Target struct {
	Project  string
	Layout   Layout
	Views    []string
	Entities []EntityFields // in the manifest's order
}

// EntityFields are the fields that are read of an entity.
type EntityFields struct {
	Name   string
	Keys   []Key
	Fields []Field
}

// Field is a feature in the store.
type Field struct {
	View int // index in the target's views
	Name string
	Type Type
}

// ID names one entity: a user by number.
type ID struct {
	Entity int      // index in the target's entities
	Parts  []string // by the entity's keys; integers in decimal
}

// Record is what the store has of one entity.
type Record struct {
	Values []Value     // by the entity's fields
	Times  []time.Time // of the events behind them, by the target's views; zero: the store does not say
}

// Reader reads many entities in one round trip. Implementations are safe for concurrent
// use.
type Reader interface {
	// Read fills one record per id, whose slices have their lengths already.
	Read(ctx context.Context, ids []ID, records []Record) error
}

// Online is a store behind a breaker: while it does not answer, reads fail at once and
// one after another tries again. All manifests of a store share one.
type Online struct {
	store   Store
	breaker breaker

	reads, failures, timeouts, refused atomic.Int64
	took                               func(time.Duration, error)
}

// breaker is gobreaker's of two steps. It is an interface so that packages which import this
// one do not compile its generic methods.
type breaker interface {
	Allow() (done func(error), err error)
	State() gobreaker.State
}

// OnlineOptions are those of NewOnline. Zero values take what stands beside each.
type OnlineOptions struct {
	Failures uint32                     // 5: as many in a row open the breaker; half of 20 or more in 10 s do too
	Retry    time.Duration              // 1 s: from then on one read at a time tries the store
	Changed  func(state string)         // hears of the breaker; it must not block
	Took     func(time.Duration, error) // hears of each read
}

// OnlineStats counts reads since the start.
type OnlineStats struct {
	State    string // of the breaker: closed, half-open, open
	Reads    int64
	Failures int64 // reads that the store did not answer, timeouts among them
	Timeouts int64
	Refused  int64 // reads that the breaker did not let through
}

// NewOnline puts a breaker before a store.
func NewOnline(store Store, o OnlineOptions) *Online {
	if o.Failures == 0 {
		o.Failures = 5
	}
	if o.Retry <= 0 {
		o.Retry = time.Second
	}
	online := &Online{store: store, took: o.Took}
	settings := gobreaker.Settings{
		Interval: 10 * time.Second, BucketPeriod: time.Second, Timeout: o.Retry,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= o.Failures || c.Requests >= 20 && c.TotalFailures*2 >= c.Requests
		},
		// What was the caller's own doing says nothing about the store.
		IsExcluded: func(err error) bool { return errors.Is(err, errNotJudged) },
	}
	if o.Changed != nil {
		settings.OnStateChange = func(_ string, _, to gobreaker.State) { o.Changed(to.String()) }
	}
	online.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](settings)
	return online
}

// Stats may be called at any time.
func (o *Online) Stats() OnlineStats {
	return OnlineStats{
		State: o.breaker.State().String(), Reads: o.reads.Load(), Failures: o.failures.Load(), Timeouts: o.timeouts.Load(),
		Refused: o.refused.Load(),
	}
}

var (
	errNotJudged = errors.New("not the store's fault")
	// errRefused: the breaker is open.
	errRefused = errors.New("the online store did not answer recently")
	// errNoTime: the request has no time left for a read.
	errNoTime = errors.New("the request has no time left to read the online store")
)

// share of a request's remaining time that a read may take, in percent.
const share = 30

// budget is how long a read may take: the manifest's timeout, less where the request
// ends soon. cut says that it is less.
func budget(ctx context.Context, timeout time.Duration, doneBy, now time.Time) (limit time.Duration, cut bool) {
	if at, set := ctx.Deadline(); set && (doneBy.IsZero() || at.Before(doneBy)) {
		doneBy = at
	}
	if doneBy.IsZero() {
		return timeout, false
	}
	if left := doneBy.Sub(now) * share / 100; left < timeout {
		return left, true
	}
	return timeout, false
}

// read asks the store within the budget of a request. A timeout counts against the store
// only where it had the manifest's whole time: callers with short deadlines do not open
// the breaker for others.
func (o *Online) read(ctx context.Context, r Reader, q query) error {
	now := time.Now()
	limit, cut := budget(ctx, q.timeout, q.doneBy, now)
	if limit <= 0 {
		return errNoTime
	}
	done, err := o.breaker.Allow()
	if err != nil {
		o.refused.Add(1)
		return errRefused
	}
	settled := false
	defer func() { // a reader that panics must not leave the breaker half open
		if !settled {
			done(errors.New("the read panicked"))
		}
	}()
	bound, cancel := context.WithTimeout(ctx, limit)
	err = r.Read(bound, q.ids, q.records)
	took := time.Since(now)
	// A connection's own deadline may strike just before the context's.
	timeout, _ := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	expired := bound.Err() != nil || took >= limit || timeout != nil && timeout.Timeout()
	cancel()
	settled = true
	switch {
	case err == nil:
		done(nil)
	case ctx.Err() != nil || expired && cut:
		done(errNotJudged)
	default:
		done(err)
	}
	o.reads.Add(1)
	if err != nil {
		o.failures.Add(1)
		if expired {
			o.timeouts.Add(1)
			err = fmt.Errorf("%w after %v", context.DeadlineExceeded, limit)
		}
	}
	if o.took != nil {
		o.took(took, err)
	}
	return err
}

// query is one read for a request.
type query struct {
	timeout time.Duration
	doneBy  time.Time
	ids     []ID
	records []Record
}
