package bench

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"weir/kvcache"
	"weir/router/balance"
	"weir/router/prefix"
	"weir/scheduler"
)

// SimulateFleet runs a load on a fleet in virtual time. The same options give the same result.
func SimulateFleet(o FleetOptions) (*FleetResult, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	f, err := newFleet(o)
	if err != nil {
		return nil, fmt.Errorf("simulate a fleet: %w", err)
	}
	for f.left > 0 && len(f.events) > 0 {
		e := f.events.next()
		f.now = e.at
		if err := f.handle(&e); err != nil {
			return nil, fmt.Errorf("simulate a fleet: at %v: %w", f.now, err)
		}
	}
	if err := f.finish(); err != nil {
		return nil, fmt.Errorf("simulate a fleet: at the end: %w", err)
	}
	return &f.done, nil
}

// fleet is a simulation in progress.
type fleet struct {
	o        FleetOptions
	zero     time.Time
	now      time.Duration
	left     int // requests that have not ended
	balancer *balance.Balancer
	replicas []fleetReplica
	numbers  []int // of replicas, by their ids in the balancer
	events   fleetEvents
	count    uint64 // of events, breaks ties
	all      []conversation
	domains  []kvcache.Domain // by tenant
	answers  float64          // mean length so far
	clients  []chatClient     // of a closed loop
	done     FleetResult

	scaling   *scaling      // nil: the fleet stays as it is
	accounted time.Duration // until when Present is counted
}

// fleetReplica is one simulated server.
type fleetReplica struct {
	sim   *sim
	id    balance.ReplicaID
	life  int // counts its processes: events of a dead one are void
	dead  bool
	busy  bool // a step is under way, until sim.now
	live  map[*fleetRequest]bool
	lived scheduler.Counters // of processes that died
	took  time.Duration      // compute time
	state fleetState
	since time.Duration // when it was started
}

// fleetRequest is a turn on its way.
type fleetRequest struct {
	conversation, turn int
	at                 time.Duration
	keys               []prefix.Key
	session            uint64
	prompt             *scheduler.Request
	request            SimRequest
	out                *SimOutcome // of the present attempt
	lease              balance.Lease
	replica            int
	attempts           int
	avoid              balance.Set

	split   bool           // it was asked whether a prefill replica computes the prompt
	holders []prefix.Match // the prefill replica that has
}

func newFleet(o FleetOptions) (*fleet, error) {
	c := o.Balance
	c.Policy, c.Seed = o.Policy, o.Seed
	c.Index.Replicas = o.Replicas
	f := &fleet{o: o, zero: time.Unix(0, 0), replicas: make([]fleetReplica, o.Replicas)}
	f.done = FleetResult{Policy: o.Policy, Replicas: o.Replicas, ByReplica: make([]int, o.Replicas)}
	f.begin()
	cache := simulatedCache(1 + o.KVTokens/simBlock)
	for t := range max(o.Load.Tenants, o.Load.systems()) {
		f.domains = append(f.domains, cache.Domain(strconv.Itoa(t)))
	}
	var err error
	if f.balancer, err = balance.New(f.zero, c); err != nil {
		return nil, err
	}
	f.numbers = make([]int, o.Replicas)
	if o.Scaling.Max > 0 {
		if err := f.startScaling(); err != nil {
			return nil, err
		}
	}
	for i := range f.replicas {
		r := &f.replicas[i]
		r.live = make(map[*fleetRequest]bool)
		if r.state == serves {
			if err := f.boot(r); err != nil {
				return nil, err
			}
			if err := f.join(i); err != nil {
				return nil, err
			}
		}
		if o.Report > 0 { // replicas do not report in step with each other
			f.post(fleetEvent{at: o.Report * time.Duration(i) / time.Duration(o.Replicas), kind: reportIsTaken, replica: i})
		}
	}
	for i, fault := range o.Faults {
		f.post(fleetEvent{at: fault.At, kind: replicaDies, replica: fault.Replica, number: i})
	}
	return f, nil
}

// begin lets the load's conversations come.
func (f *fleet) begin() {
	if chats := f.o.Load.Chats; chats != nil {
		f.clients = chats.clients()
		for i := range f.clients {
			f.converse(i)
		}
		return
	}
	f.all = f.o.Load.conversations(f.o.Seed)
	for i := range f.all {
		f.left += len(f.all[i].turns)
		f.post(fleetEvent{at: f.all[i].begins, kind: turnComes, number: i})
	}
	f.done.Requests = f.left
}

// boot gives a replica a new process with an empty cache.
func (f *fleet) boot(r *fleetReplica) error {
	options := SimOptions{Scheduler: servedConfig(), Machine: f.o.Machine, Seed: f.o.Seed, NoGaps: f.o.Load.Documents.Rate == 0}
	options.Scheduler.MaxModelLen = f.o.Load.longest()
	options.Scheduler.MaxWaiting = 1 << 20 // the load decides, not a full queue
	var err error
	r.sim, err = newServer(options, 1+f.o.KVTokens/simBlock)
	return err
}

func (f *fleet) time() time.Time { return f.zero.Add(f.now) }

func (f *fleet) post(e fleetEvent) {
	f.count++
	e.order = f.count
	f.events.add(e)
}

func (f *fleet) handle(e *fleetEvent) error {
	r := &f.replicas[e.replica]
	switch e.kind {
	case turnComes:
		return f.send(f.request(e.number, e.turn))
	case retryComes:
		return f.send(e.request)
	case stepEnds:
		if e.life == r.life {
			return f.step(e.replica)
		}
	case reportIsTaken:
		f.report(e.replica)
	case reportComes:
		if e.life == r.life && !r.dead {
			f.balancer.Report(f.time(), r.id, e.report)
		}
	case replicaDies:
		return f.die(e)
	case deathIsNoticed:
		f.balancer.Suspend(r.id)
		f.balancer.Forget(r.id)
	case replicaReturns:
		r.dead = false
		f.post(fleetEvent{at: f.now + fleetProbe, kind: returnIsNoticed, replica: e.replica})
		return f.boot(r)
	case returnIsNoticed:
		f.balancer.Resume(f.time(), r.id)
	case scalingLooks:
		f.scale()
	case replicaStarts:
		if e.life == r.life {
			return f.started(e.replica)
		}
	}
	return nil
}

// request makes a turn's request.
func (f *fleet) request(number, turn int) *fleetRequest {
	c := &f.all[number]
	ids := f.o.Load.prompt(c, number, turn)
	domain := f.domains[c.tenant]
	q := &fleetRequest{
		conversation: number, turn: turn, at: f.now, keys: domain.Chain(nil, ids, simBlock), session: uint64(number) + 1,
		request: SimRequest{Prompt: len(ids), Output: c.turns[turn].answer, MaxTokens: fleetMaxTokens, N: 1},
	}
	q.prompt = &scheduler.Request{Prompt: ids, Tenant: strconv.Itoa(c.tenant), Domain: domain, Chain: q.keys}
	if chats := f.o.Load.Chats; chats != nil { // one tenant, no names of conversations, answers as long as they are allowed to be
		q.prompt.Tenant, q.session, q.request.MaxTokens = "", 0, q.request.Output
		q.keys = domain.Chain(nil, ids, chats.Piece)
	}
	return q
}

// send picks a replica and hands the request over.
func (f *fleet) send(q *fleetRequest) error {
	if q.attempts == fleetRetries {
		f.done.Failed++
		f.end(q, false)
		return nil
	}
	asked := &balance.Request{
		Keys: q.keys, Tokens: len(q.prompt.Prompt), Output: int(f.answers), Session: q.session, Avoid: q.avoid, Holders: q.holders,
	}
	if given, err := f.split(q, asked); given || err != nil {
		return err
	}
	q.attempts++
	lease, err := f.balancer.Pick(f.time(), asked)
	if errors.Is(err, balance.ErrNone) { // all that are left were tried, or there is none: wait for one
		q.avoid = nil
		f.post(fleetEvent{at: f.now + fleetProbe, kind: retryComes, request: q})
		return nil
	}
	if err != nil {
		return err
	}
	q.lease, q.replica = lease, f.numbers[lease.Replica]
	if lease.Reason.Why == balance.ByGate {
		f.done.Gated++
	}
	f.done.Guessed += uint64(lease.Reason.Hit * f.o.Load.piece())
	r := &f.replicas[q.replica]
	if r.dead {
		f.retry(q, fleetConnect)
		return nil
	}
	f.fetch(q)
	q.out = &SimOutcome{Request: &q.request, last: make([]time.Duration, 1), fleet: q}
	return f.give(q, *q.prompt)
}

// give hands a request over to its replica.
func (f *fleet) give(q *fleetRequest, prompt scheduler.Request) error {
	r := &f.replicas[q.replica]
	if !r.busy {
		r.sim.now = f.now
	}
	r.sim.give(q.out, q.at, prompt)
	if q.out.Err != nil {
		return q.out.Err
	}
	r.live[q] = true
	if !r.busy {
		return f.step(q.replica)
	}
	return nil
}

// retry sends a request again, to another replica.
func (f *fleet) retry(q *fleetRequest, after time.Duration) {
	q.lease.Done(f.time(), balance.Outcome{Failed: true})
	q.avoid = append(q.avoid, q.lease.Replica)
	f.done.Retries++
	f.post(fleetEvent{at: f.now + after, kind: retryComes, request: q})
}

// step tells of the step that has ended and begins the next one.
func (f *fleet) step(number int) error {
	r := &f.replicas[number]
	if r.busy {
		f.tell(r)
	}
	r.busy = false
	defer f.leave(number)
	before := r.sim.now
	r.sim.shared = f.shared()
	for r.sim.live > 0 {
		computed := r.sim.step()
		if err := r.sim.check(); err != nil {
			return fmt.Errorf("replica %d: %w", number, err)
		}
		if computed {
			r.busy = true
			r.took += r.sim.now - before
			f.post(fleetEvent{at: r.sim.now, kind: stepEnds, replica: number, life: r.life})
			return nil
		}
		f.tell(r)
	}
	return nil
}

// shared is how many times as long a step takes that begins now, because replicas outnumber the processors that they share. It holds
// for the whole step, although others begin and end meanwhile: for each that begins another one ends.
func (f *fleet) shared() float64 {
	if f.o.Cores == 0 {
		return 1
	}
	busy := 1
	for i := range f.replicas {
		if f.replicas[i].busy {
			busy++
		}
	}
	return max(1, float64(busy)/f.o.Cores)
}

// tell passes on what a step gave: first tokens and ends.
func (f *fleet) tell(r *fleetReplica) {
	for _, out := range r.sim.began {
		out.fleet.lease.Began(f.time())
	}
	for _, out := range r.sim.ended {
		q := out.fleet
		delete(r.live, q)
		if out.Err != nil {
			f.done.Failed++
			q.lease.Done(f.time(), balance.Outcome{Failed: true})
			f.end(q, false)
			continue
		}
		if out.Tokens == 0 {
			f.prefilled(q)
			continue
		}
		q.lease.Done(f.time(), balance.Outcome{Output: out.Tokens})
		if f.late() {
			f.done.Requests--
			f.end(q, true)
			continue
		}
		f.done.Done++
		f.done.ByReplica[q.replica]++
		f.done.Output += uint64(out.Tokens)
		f.timed(q, out)
		f.done.E2E = append(f.done.E2E, (out.Last - out.Sent).Seconds())
		f.answers += (float64(out.Tokens) - f.answers) / float64(min(f.done.Done, 1000))
		f.end(q, true)
	}
	r.sim.began, r.sim.ended = r.sim.began[:0], r.sim.ended[:0]
}

// timed notes the times of an answer.
func (f *fleet) timed(q *fleetRequest, out *SimOutcome) {
	if f.all[q.conversation].document {
		f.done.Documents = append(f.done.Documents, out.TTFT().Seconds())
		return
	}
	f.done.TTFT = append(f.done.TTFT, out.TTFT().Seconds())
	for _, gap := range out.Gaps {
		f.done.Gaps = append(f.done.Gaps, gap.Seconds())
	}
}

// end counts a request as ended; with the conversation it goes on, or not.
func (f *fleet) end(q *fleetRequest, more bool) {
	f.left--
	f.done.Duration = f.now
	f.done.Digest = scatter(f.done.Digest ^ uint64(q.conversation)<<32 ^ uint64(q.turn)<<16 ^ uint64(q.replica) ^ uint64(f.now)<<20)
	turns := f.all[q.conversation].turns
	if len(f.clients) > 0 {
		f.goOn(q, more)
		return
	}
	switch next := q.turn + 1; {
	case next == len(turns):
	case more:
		f.post(fleetEvent{at: f.now + turns[next].think, kind: turnComes, number: q.conversation, turn: next})
	default: // a client without an answer does not go on
		f.left -= len(turns) - next
		f.done.Failed += len(turns) - next
	}
}

// report takes a report of a replica and sends it.
func (f *fleet) report(number int) {
	r := &f.replicas[number]
	f.post(fleetEvent{at: f.now + f.o.Report, kind: reportIsTaken, replica: number})
	if r.dead {
		return
	}
	st := r.sim.sched.Stats()
	f.post(fleetEvent{at: f.now + f.o.Late, kind: reportComes, replica: number, life: r.life, report: balance.Report{
		Running: st.Running, Waiting: st.Waiting, WaitingTokens: st.WaitingTokens,
		KV: float64(st.KVBlocksUsed) / float64(st.KVBlocks), FetchRate: f.fetchRate(), Since: f.balancer.Mark(r.id),
	}})
}

// die ends a replica's process. Requests without a token go elsewhere; the others are cut.
func (f *fleet) die(e *fleetEvent) error {
	r := &f.replicas[e.replica]
	if r.dead {
		return nil
	}
	r.dead, r.busy = true, false
	r.life++
	r.lived = addCounters(r.lived, r.sim.sched.Stats().Counters)
	lost := make([]*fleetRequest, 0, len(r.live))
	for q := range r.live {
		lost = append(lost, q)
	}
	slices.SortFunc(lost, func(a, b *fleetRequest) int {
		return cmp.Or(cmp.Compare(a.conversation, b.conversation), cmp.Compare(a.turn, b.turn))
	})
	clear(r.live)
	for _, q := range lost {
		if q.out.Tokens == 0 || q.out.First > f.now {
			f.retry(q, fleetConnect)
			continue
		}
		q.out.Err = errCut
		q.lease.Done(f.time(), balance.Outcome{Failed: true})
		f.done.Cut++
		f.end(q, true)
	}
	f.post(fleetEvent{at: f.now + fleetProbe, kind: deathIsNoticed, replica: e.replica})
	if down := f.o.Faults[e.number].Down; down > 0 {
		f.post(fleetEvent{at: f.now + max(down, 2*fleetProbe), kind: replicaReturns, replica: e.replica})
	}
	return nil
}

func addCounters(a, b scheduler.Counters) scheduler.Counters {
	a.PromptTokens += b.PromptTokens
	a.CachedTokens += b.CachedTokens
	return a
}

// finish sums up, and checks that nothing is left behind.
func (f *fleet) finish() error {
	d := &f.done
	sum, most := time.Duration(0), time.Duration(0)
	for i := range f.replicas {
		r := &f.replicas[i]
		c := r.lived
		if !r.dead {
			c = addCounters(c, r.sim.sched.Stats().Counters)
		}
		d.Prompt, d.Cached = d.Prompt+c.PromptTokens, d.Cached+c.CachedTokens
		sum, most = sum+r.took, max(most, r.took)
	}
	d.Busiest = float64(most) * float64(len(f.replicas)) / float64(max(sum, 1))
	f.account()
	if f.scaling != nil {
		d.Scales = f.scaling.changes
	}
	slices.Sort(d.TTFT)
	slices.Sort(d.E2E)
	slices.Sort(d.Gaps)
	slices.Sort(d.Documents)
	return f.check()
}

// check holds at the end: each request ended once, and all load was given back.
func (f *fleet) check() error {
	d := &f.done
	if d.Done+d.Cut+d.Failed != d.Requests || f.left != 0 {
		return fmt.Errorf("%d requests: %d done, %d cut, %d failed, %d left", d.Requests, d.Done, d.Cut, d.Failed, f.left)
	}
	later := f.time().Add(time.Hour)
	for _, s := range f.balancer.Status(later) {
		if s.InFlight != 0 || s.Tokens != 0 {
			return fmt.Errorf("replica %d has load left: %+v", s.ID, s)
		}
	}
	if !f.o.Check {
		return nil
	}
	if err := f.balancer.Index().Check(); err != nil {
		return err
	}
	for i := range f.replicas {
		if r := &f.replicas[i]; !r.dead {
			if err := r.sim.sched.CheckInvariants(); err != nil {
				return fmt.Errorf("replica %d: %w", i, err)
			}
			if err := r.sim.pool.Check(); err != nil {
				return fmt.Errorf("replica %d: %w", i, err)
			}
		}
	}
	return nil
}
