package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler"
	"weir/scheduler/admission"
	"weir/scheduler/cost"
)

// SmallMachine is fitted to docs/performance.md: a model of 1.2 billion
// parameters in Q4_K_M on two cores.
var SmallMachine = Machine{
	Step: 22 * time.Millisecond, Row: 1650 * time.Microsecond, Output: 300 * time.Microsecond,
	Position: 560 * time.Microsecond, Panel: 4, Bound: 1800 * time.Microsecond,
}

// SimRequest is one simulated request.
type SimRequest struct {
	At        time.Duration // of its arrival; with Clients it is sent when a client is free
	Label     string        // requests of one label are reported together
	Tenant    string
	Weight    int // of the tenant; 0 is 1
	Class     inference.Class
	Prompt    int    // tokens; they begin like those of no other request, except for Shared
	Shared    int    // leading tokens of the prompt that are the same in its family
	Family    int    // of prompts that begin alike
	Output    int    // tokens until it stops by itself, or by MaxTokens where that is as many
	MaxTokens int    // 0 is Output
	N         int    // choices; 0 is 1
	Group     string // the call that it is part of; "" is a call of its own
	OverQuota bool
	Retries   int // times that its client has tried before

	// Times since it was sent; 0 is never.
	CancelIn     time.Duration // its client goes away
	FirstTokenIn time.Duration // deadline of its first token
	DoneIn       time.Duration // and of its last one
	WaitFor      time.Duration // how long it may wait
}

// SimOptions are one simulation: requests, a machine and a scheduler's
// configuration. MaxModelLen and Cost of the scheduler may be left open.
type SimOptions struct {
	Scheduler scheduler.Config
	KVTokens  int // capacity of the KV cache; 0 is enough for all that may run at once
	Machine   Machine
	Noise     Noise
	Clients   int  // requests at a time, in their order (a closed loop); 0: all come at their times
	Precheck  bool // requests pass an admission.Precheck, as they do before an engine
	OneTenant bool // all requests are of one tenant, for contrast: nothing is fair between them
	Requests  []SimRequest
	Seed      uint64

	Turnaround time.Duration // of a client, from the end of an answer to its next request

	MaxSteps   int  // nothing is sent after so many steps, and the simulation ends once it is idle; 0 is no limit
	CheckEvery int  // steps between two checks of the scheduler's and the pool's invariants; 0 is never
	NoGaps     bool // the times between tokens are not kept
}

// simBlock is the size of a simulated KV block in tokens.
const simBlock = 16

// simLimit bounds a simulation's steps: one that needs more does not end.
const simLimit = 2_000_000

// SimOutcome is what happened to a request. Times are since the simulation's start.
type SimOutcome struct {
	Request *SimRequest
	Sent    time.Duration
	First   time.Duration // first token of its first choice; 0 is none
	Last    time.Duration // last token of all
	Tokens  int           // of all choices
	Gaps    []time.Duration
	Err     error
	Work    time.Duration // compute time of its rows

	Admitted time.Duration // 0 is never
	Expected time.Duration // what the precheck estimated of Admitted, since Sent; negative where it knew nothing yet

	item admission.Item
	id   scheduler.ID
	last []time.Duration // per choice, of its last token
	live bool

	fleet *fleetRequest // of which this is an attempt, in a fleet
}

// TTFT is the time to the first token.
func (o *SimOutcome) TTFT() time.Duration { return o.First - o.Sent }

// SimResult is a finished simulation.
type SimResult struct {
	Outcomes []SimOutcome // in the order of the requests
	Duration time.Duration
	Ramp     int // requests that a closed loop sent at its start: the cold ramp
	Counters scheduler.Counters
	Longest  time.Duration // step
	Digest   uint64        // of all plans: equal simulations have equal ones
}

// Simulate runs the requests through a real scheduler in virtual time. The same
// options give the same result.
func Simulate(o SimOptions) (*SimResult, error) {
	s, err := newSim(o)
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	for range simLimit {
		if s.o.MaxSteps > 0 && s.steps >= s.o.MaxSteps {
			s.order = s.order[:s.next]
		}
		s.arrive()
		s.cancel(s.now)
		if s.step() {
			if err := s.check(); err != nil {
				return nil, fmt.Errorf("simulate: seed %d, step %d: %w", o.Seed, s.steps, err)
			}
			continue
		}
		if s.live > 0 {
			return nil, fmt.Errorf("simulate: nothing to run at %v while %d requests live: %+v", s.now, s.live, s.sched.Stats())
		}
		if s.next == len(s.order) {
			if err := s.idle(); err != nil {
				return nil, fmt.Errorf("simulate: seed %d, at the end: %w", o.Seed, err)
			}
			return s.result(), nil
		}
		s.now, _ = s.upcoming()
	}
	return nil, fmt.Errorf("simulate: not done after %d steps, %v", simLimit, s.now)
}

// sim is a simulation in progress.
type sim struct {
	o        SimOptions
	sched    *scheduler.Scheduler
	precheck admission.Precheck
	pool     *kvcache.Pool
	noise    *rand.Rand
	now      time.Duration

	order  []int // of requests, by arrival
	next   int   // in order
	live   int
	free   []time.Duration // when the clients of a closed loop send their next requests, soonest first
	steps  int
	prior  cost.Prior    // of the machine: divides a step's time among its requests
	shared float64       // how many times as long steps take, because others compute on the same processors; 0 is 1
	told   []*SimOutcome // whose end the next plan must tell of
	broken error         // the first broken invariant that a step showed
	leave  []disconnect  // of clients, soonest last
	began  []*SimOutcome // whose first token the last step gave
	ended  []*SimOutcome // that the last step ended
	done   SimResult

	plan    scheduler.Plan
	results []scheduler.Result
	tokens  []inference.TokenID
	stops   []bool
}

func newSim(o SimOptions) (*sim, error) {
	if len(o.Requests) == 0 {
		return nil, errors.New("no requests")
	}
	longest, blocks := 0, 1
	for i := range o.Requests {
		r := &o.Requests[i]
		r.MaxTokens, r.N = max(r.MaxTokens, r.Output), max(r.N, 1)
		if r.Prompt < 1 || r.Output < 1 {
			return nil, fmt.Errorf("request %d has a prompt of %d and an output of %d tokens, want at least 1", i, r.Prompt, r.Output)
		}
		longest = max(longest, r.Prompt+r.MaxTokens)
		blocks += r.N * ((r.Prompt+r.MaxTokens)/simBlock + 2)
	}
	if o.KVTokens > 0 {
		blocks = 1 + o.KVTokens/simBlock
	}
	if o.Scheduler.MaxModelLen == 0 {
		o.Scheduler.MaxModelLen = longest
	}
	s, err := newServer(o, blocks)
	if err != nil {
		return nil, err
	}
	s.done.Outcomes = make([]SimOutcome, len(o.Requests))
	for i := range o.Requests {
		s.order = append(s.order, i)
		s.done.Outcomes[i] = SimOutcome{Request: &o.Requests[i], last: make([]time.Duration, o.Requests[i].N)}
	}
	slices.SortStableFunc(s.order, func(a, b int) int { return int(o.Requests[a].At - o.Requests[b].At) })
	if o.Clients > 0 {
		s.done.Ramp = min(o.Clients, len(o.Requests))
		s.free = make([]time.Duration, o.Clients)
	}
	return s, nil
}

// newServer is a server without requests.
func newServer(o SimOptions, blocks int) (*sim, error) {
	if o.Scheduler.Cost == (cost.Prior{}) {
		o.Scheduler.Cost = o.Machine.Prior()
	}
	pool, err := kvcache.New(simulatedCache(blocks))
	if err != nil {
		return nil, err
	}
	s := &sim{o: o, pool: pool, prior: o.Machine.Prior(), noise: rand.New(rand.NewPCG(o.Seed, uint64(streamArrival)<<48|2))}
	if s.sched, err = scheduler.New(o.Scheduler, pool); err != nil {
		return nil, err
	}
	s.precheck = admission.NewPrecheck(s.sched.Bounds())
	return s, nil
}

func simulatedCache(blocks int) kvcache.Config {
	return kvcache.Config{Blocks: blocks, BlockTokens: simBlock, ModelDigest: "simulated", KVType: "none"}
}

// arrive submits the requests whose time has come or whose client is free.
func (s *sim) arrive() {
	for s.next < len(s.order) {
		at, ok := s.upcoming()
		if !ok || at > s.now {
			return
		}
		i := s.order[s.next]
		s.next++
		if s.o.Clients > 0 {
			s.free = s.free[1:]
		}
		if s.submit(i, at); s.done.Outcomes[i].Err != nil {
			s.release()
		}
	}
}

// upcoming is when the next request is sent; false: not before an answer ends, or never.
func (s *sim) upcoming() (at time.Duration, ok bool) {
	if s.next == len(s.order) || s.o.Clients > 0 && len(s.free) == 0 {
		return 0, false
	}
	at = s.o.Requests[s.order[s.next]].At
	if s.o.Clients > 0 {
		at = max(at, s.free[0])
	}
	return at, true
}

// release makes a client free for its next request.
func (s *sim) release() {
	if s.o.Clients > 0 {
		s.free = append(s.free, s.now+s.o.Turnaround)
	}
}

func (s *sim) submit(i int, at time.Duration) {
	r, out := &s.o.Requests[i], &s.done.Outcomes[i]
	prompt := make([]inference.TokenID, r.Prompt)
	for p := range prompt {
		prompt[p] = inference.TokenID(p)
	}
	prompt[min(r.Shared, r.Prompt-1)] = inference.TokenID(-1 - i)
	if r.Shared > 0 && r.Prompt > 1 {
		prompt[0] = inference.TokenID(1<<20 + r.Family)
	}
	tenant, weight := r.Tenant, r.Weight
	if s.o.OneTenant {
		tenant, weight = "", 0
	}
	domain := s.pool.Domain(tenant)
	s.give(out, at, scheduler.Request{
		Prompt: prompt, Tenant: tenant, Weight: weight, Domain: domain, Chain: domain.Chain(nil, prompt, simBlock),
	})
}

// give submits a request that was sent at a time: prompt, tenant and domain of q, everything else of the outcome's request.
func (s *sim) give(out *SimOutcome, at time.Duration, q scheduler.Request) {
	r := out.Request
	out.Sent = at
	after := func(d time.Duration) int64 {
		if d == 0 {
			return 0
		}
		return int64(at + d)
	}
	q.FirstTokenBy, q.DoneBy, q.WaitUntil = after(r.FirstTokenIn), after(r.DoneIn), after(r.WaitFor)
	q.MaxTokens, q.N, q.Group, q.Class, q.OverQuota, q.Retries = r.MaxTokens, r.N, r.Group, r.Class, r.OverQuota, r.Retries
	q.User = out
	if out.Err = s.enter(out, &q); out.Err != nil {
		return
	}
	id, err := s.sched.Submit(int64(s.now), q)
	if err != nil {
		out.Err = err
		if s.o.Precheck && (errors.Is(err, inference.ErrQueueFull) || errors.Is(err, inference.ErrTenantQueueFull)) {
			s.broken = fmt.Errorf("what passed the precheck is refused by the queue: %w", err)
		}
		s.leavePrecheck(out, false)
		return
	}
	out.id, out.live = id, true
	s.live++
	if r.CancelIn > 0 {
		s.leaveAt(disconnect{at + r.CancelIn, out})
	}
}

// enter lets a request through the precheck, or says why not.
func (s *sim) enter(out *SimOutcome, q *scheduler.Request) error {
	if !s.o.Precheck {
		return nil
	}
	t := s.sched.CostEstimates()
	item := t.Item(q)
	out.Expected = -1
	if wait, known := s.precheck.Wait(int64(s.now), &item); known {
		out.Expected = wait
	}
	if err := s.precheck.Enter(int64(s.now), []admission.Item{item}); err != nil {
		return err
	}
	out.item = item
	return nil
}

// leavePrecheck notes that a request waits no more, once.
func (s *sim) leavePrecheck(out *SimOutcome, served bool) {
	if out.Admitted == 0 && served {
		out.Admitted = s.now
	}
	if out.item.Choices == 0 {
		return
	}
	s.precheck.Leave(int64(s.now), &out.item, served)
	out.item = admission.Item{}
}

// step plans a step, lets it take its time and commits it.
func (s *sim) step() bool {
	s.began, s.ended = s.began[:0], s.ended[:0]
	ok := s.sched.Plan(int64(s.now), &s.plan)
	for _, e := range s.plan.Failed {
		s.end(&e)
	}
	s.shedWasTold()
	if !ok {
		if s.live > 0 && len(s.plan.Failed) == 0 {
			s.broken = fmt.Errorf("S5: an empty plan while %d requests live: %+v", s.live, s.sched.Stats())
		}
		return len(s.plan.Failed) > 0
	}
	s.steps++
	if s.o.CheckEvery > 0 && s.broken == nil {
		s.broken = s.checkPlan()
	}
	took := s.took()
	s.attribute(took)
	s.cancel(s.now + took) // while the plan is out
	s.done.Longest = max(s.done.Longest, took)
	s.now += took
	s.results, s.tokens, s.stops = s.results[:0], s.tokens[:0], s.stops[:0]
	for i := range s.plan.Chunks {
		s.sample(&s.plan.Chunks[i])
	}
	for i := range s.plan.Chunks {
		s.leavePrecheck(s.plan.Chunks[i].User.(*SimOutcome), true)
	}
	for _, e := range s.sched.Commit(int64(s.now), s.results) {
		s.end(&e)
	}
	return true
}

// took is the time that a plan takes on the machine, with noise and spikes.
func (s *sim) took() time.Duration {
	n := &s.o.Noise
	f := 1 + n.Deviation*s.noise.NormFloat64()
	if n.SpikeShare > 0 && s.noise.Float64() < n.SpikeShare {
		f *= n.SpikeFactor
	}
	return time.Duration(max(f, 0.2) * max(s.shared, 1) * float64(s.o.Machine.Time(&s.plan)))
}

// sample gives a chunk its output tokens and records their times. A choice ends with
// a stop after Output tokens.
func (s *sim) sample(c *scheduler.Chunk) {
	out := c.User.(*SimOutcome)
	lo := len(s.tokens)
	for i := range c.Samples {
		choice := i
		if c.Samples == 1 {
			choice = c.Choice
		}
		produced := c.Start + c.Count - out.Request.Prompt + 1
		s.tokens = append(s.tokens, simToken(produced-1))
		s.stops = append(s.stops, produced >= out.Request.Output && out.Request.Output < out.Request.MaxTokens)
		if !out.live {
			continue
		}
		if out.note(choice, s.now, !s.o.NoGaps); out.Tokens == 1 {
			s.began = append(s.began, out)
		}
	}
	s.results = append(s.results, scheduler.Result{Tokens: s.tokens[lo:len(s.tokens):len(s.tokens)],
		Stop: s.stops[lo:len(s.stops):len(s.stops)]})
}

// simToken is the i-th token of any simulated answer.
func simToken(i int) inference.TokenID { return inference.TokenID(2 + i) }

// note records the time of a choice's token.
func (o *SimOutcome) note(choice int, now time.Duration, gaps bool) {
	if o.Tokens == 0 {
		o.First = now
	}
	if before := o.last[choice]; before > 0 && gaps {
		o.Gaps = append(o.Gaps, now-before)
	}
	o.last[choice], o.Last = now, now
	o.Tokens++
}

func (s *sim) end(e *scheduler.End) {
	out := e.User.(*SimOutcome)
	if e.Err != nil {
		out.Err = e.Err
	}
	if e.Done {
		s.leavePrecheck(out, false)
		out.live = false
		s.live--
		s.release()
		s.ended = append(s.ended, out)
	}
}

func (s *sim) result() *SimResult {
	r := &s.done
	r.Duration, r.Counters = s.now, s.sched.Stats().Counters
	return r
}
