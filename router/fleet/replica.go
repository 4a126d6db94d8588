package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"weir/router"
	"weir/router/balance"
)

// Target is where a replica is and how it is asked.
type Target struct {
	Base    *url.URL // "http://10.0.0.7:8000/v1"
	Address string   // IP that is connected to in place of Base's host; "" is Base's
	Source
}

// id names the replica in headers and metrics. It is the same as long as the replica is
// asked in the same way.
func (t *Target) id() string {
	if t.Address == "" {
		return t.Base.Host
	}
	return net.JoinHostPort(t.Address, portOf(t.Base))
}

// replica is one server of a fleet.
type replica struct {
	id     string
	number balance.ReplicaID
	target Target
	model  string // its name of the model
	shares string // where others fetch KV blocks of it; "": nowhere
	wire   *endpoint

	breaker atomic.Pointer[breaker]
	rests   atomic.Int64 // until then, in nanoseconds since 1970, it asked for no requests
	running atomic.Int64 // attempts, streams to their end
	heard   atomic.Int64 // pieces of answers that it sent
	options atomic.Bool  // it has taken stream_options that its requests' clients did not send
	plain   atomic.Bool  // it refuses them
	fixed   atomic.Bool  // its model refuses parameters of sampling, as some of the providers' do
	counts  replicaCounts

	mu      sync.Mutex
	state   State
	why     string                // of a state that is not Ready
	since   time.Time             // of the state
	waiting map[*attempt]struct{} // those whose answer has not begun
	gone    bool                  // taken out of the fleet
	said    router.Report         // of its load
	saidAt  time.Time             // zero: never
	root    hashRoots             // of its block hashes; zero: it has not told
	fed     *EventsStatus         // how its KV events are followed; nil: they are not
}

// replicaCounts are of the time since the replica was added.
type replicaCounts struct {
	requests atomic.Int64
	faults   [numFaults]atomic.Int64
	untold   atomic.Int64 // tokens
}

func (c *replicaCounts) untell(tokens int) { c.untold.Add(int64(tokens)) }

func (c *replicaCounts) add(f Fault) { c.faults[f].Add(1) }

// State is what the probes found out of a replica.
type State string

// The states. A replica that was not probed yet is taken for ready.
const (
	Ready    State = "ready"
	Draining State = "draining" // alive, and takes no new requests
	Down     State = "down"
)

// takes reports whether new requests may go to the replica.
func (r *replica) takes() bool {
	r.mu.Lock()
	open := r.state == Ready && !r.gone
	r.mu.Unlock()
	return open && r.breaker.Load().State() != gobreaker.StateOpen
}

// The longest and the shortest time that a replica rests after a 429 or a 503.
const (
	longestRest  = time.Minute
	shortestRest = time.Second
)

// cool keeps further requests from a replica for the time that its answer asks for, a second where it names none. What
// another weir refuses is a matter of its tenants, and its load is known.
func (r *replica) cool(h http.Header, now time.Time) {
	if r.target.Kind != Weir {
		r.rests.Store(now.Add(min(max(router.WaitOf(h, now), shortestRest), longestRest)).UnixNano())
	}
}

// cools reports whether a replica has asked for no requests now.
func (r *replica) cools(now time.Time) bool { return now.UnixNano() < r.rests.Load() }

// same reports whether a target is this replica, asked in the same way.
func (r *replica) same(t *Target) bool {
	kind := cmp.Or(t.Kind, Weir)
	return r.target.Address == t.Address && *r.target.Base == *t.Base && r.target.Kind == kind && r.target.Role.pool() == t.Role.pool() && r.target.Model == t.Model &&
		r.target.APIKey == t.APIKey && r.target.AdminURL == t.AdminURL && r.target.Zone == t.Zone && r.target.Region == t.Region &&
		r.target.Events == t.Events
}

// leave ends what the fleet keeps of a replica that was removed. Its requests go on.
func (r *replica) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
	r.wire.close()
}

// in reports whether the replica is in a state.
func (r *replica) in(s State) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == s
}

// set notes what a probe found. Where the replica is down, attempts end whose answers
// have not begun, so that other replicas get them.
func (r *replica) set(s State, why string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != s {
		r.state, r.since = s, now
	}
	r.why = why
	if s == Down {
		r.release()
	}
}

// release ends the attempts that wait for their answers. The caller holds mu.
func (r *replica) release() {
	for a := range r.waiting {
		a.cancel(errReplicaDown)
	}
	clear(r.waiting)
}

func (r *replica) await(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[a] = struct{}{}
}

func (r *replica) awaited(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, a)
}

var (
	errReplicaDown = errors.New("the replica is down")
	errStalled     = errors.New("the replica sent nothing for too long")
	// errNotJudged: the end of the attempt says nothing about the replica.
	errNotJudged = errors.New("not the replica's fault")
	// errRefused: as above, but the answer came sooner than one to the request would have.
	errRefused = fmt.Errorf("refused: %w", errNotJudged)
)

// attempt is a request at one replica.
type attempt struct {
	replica *replica
	lease   balance.Lease
	reason  string
	began   time.Time
	cancel  context.CancelCauseFunc
	judge   func(error) // of the breaker
	tell    func(*router.Attempt)
	seen    []router.Candidate
	stays   string        // of the flight: told with the reason
	status  int           // of the answer; 0: none has come
	overrun time.Duration // of a prompt that was given up: balance.Outcome
	harmed  bool          // its stream broke after content: no other replica could hide that
	cause   func() error
	timer   *time.Timer // ends an attempt that stalls
	left    sync.Once
	judged  sync.Once // by the breaker
	told    sync.Once
}

// begun notes that the answer has begun. A breaker that is not closed has waited for that; a closed one counts the end, so
// that a replica whose streams all begin well and break fails in a row.
func (a *attempt) begun() {
	a.replica.awaited(a)
	a.lease.Began(time.Now())
	if a.replica.breaker.Load().State() != gobreaker.StateClosed {
		a.judged.Do(func() { a.judge(nil) })
	}
}

// report tells what happened to the attempt.
func (a *attempt) report(err error) {
	if a.tell == nil {
		return
	}
	told := &router.Attempt{Replica: a.replica.id, Reason: a.reason + a.stays, Began: a.began, Took: time.Since(a.began), Status: a.status, Considered: a.seen}
	if err != nil {
		told.Failed = err.Error()
	}
	a.tell(told)
}

// end gives back what the attempt holds, and judges its replica. err is what the replica did wrong; nil is nothing.
func (a *attempt) end(err error) {
	a.leave(err)
	a.verdict(err)
}

// leave gives back what the attempt holds.
func (a *attempt) leave(err error) {
	a.left.Do(func() {
		a.timer.Stop()
		a.replica.awaited(a)
		a.replica.running.Add(-1)
		a.lease.Done(time.Now(), balance.Outcome{Failed: err != nil, Fault: err != nil && (!errors.Is(err, errNotJudged) || errors.Is(err, errRefused)), Overrun: a.overrun})
		a.cancel(nil)
	})
}

// verdict tells the breaker and the caller's record how the attempt ended.
func (a *attempt) verdict(err error) {
	a.told.Do(func() {
		b, late := a.replica.breaker.Load(), true
		a.judged.Do(func() {
			late = false
			a.judge(err)
		})
		if (late || a.harmed) && err != nil && !errors.Is(err, errNotJudged) { // it had begun well; and what harms a caller counts twice
			if judge, refused := b.Allow(); refused == nil {
				judge(err)
			}
		}
		a.report(err)
	})
}
