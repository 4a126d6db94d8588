// Package scheduler plans the steps of the engine: which sequences advance in
// the next forward pass, by how many rows, in which KV blocks.
//
// It is a pure, deterministic state machine. One goroutine calls
//
//	Submit, Cancel → Plan → (copies, forward pass, sampling) → Commit
//
// in a loop; time enters as an argument, ids are slab index + generation, and
// no map is iterated, so the same calls give the same plans. A step in steady
// state allocates nothing. The engine, the simulator and the fuzzer run this
// same code.
//
// Three rules keep it free of deadlock and livelock: what can never fit is
// refused by Submit; what is admitted fits now, together with its predicted
// growth; and every step advances the oldest running sequence of the highest active
// class, or preempts it for a tenant within its share of the blocks and advances
// that tenant's.
//
// A request is what a client asked for: the unit of queueing, fairness and
// cancellation. Its N choices are sequences: the unit of running, growing and
// preemption. The prompt is prefilled once and then forked.
package scheduler

import (
	"errors"
	"fmt"
	"math"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/admission"
	"weir/scheduler/cost"
	"weir/scheduler/outputlen"
)

// Scheduler is the step planner. It belongs to one goroutine, except Check,
// and it is the only user of its pool's tables.
//
// Its parts stand in the order in which they know of each other, those that know nothing of others first.
type Scheduler struct {
	cfg     Config
	pool    *kvcache.Pool
	usable  int // blocks that live sequences may hold together
	waiting *admission.Queue
	cost    *cost.Model
	lengths *outputlen.Lengths
	stats   Stats

	requests   requestTable // the live ones
	sequences  sequences    // their running, paused and preempted ones
	shares     tenantShares // slots and blocks by tenant
	pacer      pacer        // what a step may take in time and rows
	step       step         // the plan in the making, or out until Commit
	charges    charges      // compute time by tenant
	forecast   forecast     // blocks that sequences will need
	allocator  allocator    // gives slots and blocks, and takes them back
	endings    endings      // how choices and requests end
	preemptor  preemptor    // whose blocks go to others
	prefiller  prefiller    // rows for running prompts
	pauses     pauses       // whose slots go to others
	admitter   admitter     // which requests start
	shortSteps shortSteps   // steps for newcomers
	drafter    drafter      // draft tokens
}

// New returns a scheduler over the pool, of which it must be the only user.
func New(cfg Config, pool *kvcache.Pool) (*Scheduler, error) {
	if pool == nil {
		return nil, errors.New("build scheduler: no block pool")
	}
	cfg, err := cfg.complete(pool)
	if err != nil {
		return nil, fmt.Errorf("build scheduler: %w", err)
	}
	queue, err := admission.New(admission.Config{
		MaxRequests: cfg.MaxWaiting, MaxTokens: cfg.MaxWaitingTokens, SharePercent: cfg.SharePercent, Lane: cfg.Lane,
	})
	if err != nil {
		return nil, fmt.Errorf("build scheduler: %w", err)
	}
	s := &Scheduler{
		cfg: cfg, pool: pool, usable: pool.Usable(),
		waiting: queue, cost: cost.New(cfg.Cost), lengths: outputlen.NewLengths(),
	}
	s.assemble()
	return s, nil
}

// assemble makes the parts, which know each other by their places in s.
func (s *Scheduler) assemble() {
	cfg, pool, waiting, model, stats := &s.cfg, s.pool, s.waiting, s.cost, &s.stats.Counters
	blockTokens := pool.BlockTokens()
	s.requests = requestTable{}
	s.sequences = sequences{cfg: cfg}
	s.shares = *newTenantShares(cfg, pool)
	s.pacer = pacer{cfg: cfg, cost: model}
	s.step = step{pacer: &s.pacer}
	s.charges = charges{cost: model, waiting: waiting, pacer: &s.pacer, step: &s.step}
	s.forecast = forecast{
		cfg: cfg, pool: pool, lengths: s.lengths, sequences: &s.sequences, blockTokens: blockTokens, slacks: make([]int, blockTokens),
	}
	s.forecast.windows = newWindowGrowth(pool.Groups()-pool.EndlessPages(), pool.MostOfWindows())
	s.allocator = allocator{
		pool: pool, lengths: s.lengths, sequences: &s.sequences, shares: &s.shares, requests: &s.requests, step: &s.step,
		forecast: &s.forecast, stats: stats, proposer: cfg.Proposer,
	}
	s.endings = endings{
		pool: pool, waiting: waiting, sequences: &s.sequences, shares: &s.shares, requests: &s.requests, step: &s.step,
		allocator: &s.allocator, stats: stats,
	}
	s.preemptor = preemptor{
		cfg: cfg, pool: pool, sequences: &s.sequences, shares: &s.shares, step: &s.step, forecast: &s.forecast,
		allocator: &s.allocator, endings: &s.endings,
	}
	s.prefiller = prefiller{cfg: cfg, cost: model, waiting: waiting, pacer: &s.pacer, step: &s.step, sequences: &s.sequences}
	s.pauses = pauses{
		cfg: cfg, pool: pool, waiting: waiting, requests: &s.requests, sequences: &s.sequences, shares: &s.shares,
		pacer: &s.pacer, step: &s.step, allocator: &s.allocator, preemptor: &s.preemptor,
	}
	s.admitter = admitter{
		cfg: cfg, pool: pool, waiting: waiting, requests: &s.requests, sequences: &s.sequences, shares: &s.shares,
		pacer: &s.pacer, step: &s.step, forecast: &s.forecast, allocator: &s.allocator, endings: &s.endings,
		preemptor: &s.preemptor, pauses: &s.pauses, prefiller: &s.prefiller, charges: &s.charges, stats: stats,
	}
	s.shortSteps = shortSteps{
		cfg: cfg, cost: model, waiting: waiting, requests: &s.requests, sequences: &s.sequences, shares: &s.shares,
		pacer: &s.pacer, step: &s.step, allocator: &s.allocator, preemptor: &s.preemptor, prefiller: &s.prefiller, admitter: &s.admitter,
	}
	s.drafter = drafter{
		cfg: cfg, cost: model, pool: pool, pacer: &s.pacer, step: &s.step, sequences: &s.sequences, forecast: &s.forecast,
	}
}

// finalRows is how many rows of KV a sequence ends with: the last output token
// is sampled but never computed.
func finalRows(promptTokens, outputTokens int) int { return promptTokens + max(outputTokens, 1) - 1 }

// blocksFor is how many blocks so many rows take.
func blocksFor(rows, blockTokens int) int { return (rows + blockTokens - 1) / blockTokens }

// Check refuses, in constant time, what has no meaning and what can never be
// served: with inference.ErrInvalid, ErrContextLength or ErrNeverFits, the latter
// two as *inference.LimitError. It reads only what New set: call it from anywhere.
func (s *Scheduler) Check(r *Request) error {
	if err := r.consistent(); err != nil {
		return err
	}
	return s.checkSize(s.pool.ShapeOf(r.Domain), len(r.Prompt), r.MaxTokens)
}

// checkSize refuses what is too long for the model or too large for the pool.
func (s *Scheduler) checkSize(shape *kvcache.Shape, promptTokens, maxTokens int) error {
	switch {
	case maxTokens > s.cfg.MaxModelLen || promptTokens+maxTokens > s.cfg.MaxModelLen:
		return &inference.LimitError{
			Err: inference.ErrContextLength, What: "prompt tokens + max_tokens",
			Need: promptTokens + min(maxTokens, math.MaxInt-promptTokens), Limit: s.cfg.MaxModelLen,
			Remedy: "shorten the prompt, lower max_tokens or raise --max-model-len",
		}
	}
	if s.cfg.CapOutput {
		maxTokens = min(maxTokens, 1)
	}
	if need := shape.Need(finalRows(promptTokens, maxTokens)); need > s.usable {
		return &inference.LimitError{
			Err: inference.ErrNeverFits, What: "KV blocks", Need: need, Limit: s.usable,
			Remedy: "shorten the prompt, lower max_tokens or give the KV cache more memory",
		}
	}
	return nil
}

// Bounds are those of the waiting queue. They never change: read them from anywhere.
func (s *Scheduler) Bounds() admission.Bounds { return s.waiting.Bounds() }

// Submit queues a request, or refuses it: what Check says, or as
// *inference.LimitError inference.ErrQueueFull or ErrTenantQueueFull.
func (s *Scheduler) Submit(now int64, r Request) (ID, error) {
	if r.N == 0 {
		r.N = 1
	}
	if end := now + int64(s.cfg.MaxWait); s.cfg.MaxWait > 0 && (r.WaitUntil == 0 || r.WaitUntil > end) {
		r.WaitUntil = end
	}
	err := s.Check(&r)
	if err == nil {
		err = r.expiry(now)
	}
	if err != nil {
		s.stats.Refused++
		return 0, err
	}
	q := s.requests.take()
	q.ticket, err = s.offer(admission.Item{
		Ref: uint64(q.id), Tenant: r.Tenant, Class: r.Class, Group: r.Group, Weight: r.Weight, OverQuota: r.OverQuota, Retries: r.Retries,
		Choices: r.N, Tokens: len(r.Prompt), Cost: s.charges.promptCost(len(r.Prompt), 0), Until: r.waitsUntil(), Due: r.firstDeadline(),
	})
	if err != nil {
		s.requests.put(q)
		s.stats.Refused++
		return 0, err
	}
	s.pacer.tenants.observe(now, r.Tenant)
	s.pool.Protect(r.Domain, now+int64(protectionTime))
	q.init(r, s.pool.ShapeOf(r.Domain), s.usable)
	q.answers, q.share = s.lengths.Of(r.Tenant), s.shares.add(now, &q.Request)
	s.stats.Submitted++
	return q.id, nil
}

// offer queues an item. Where there is no room for it, requests of lower classes
// give way, which the next Plan reports.
func (s *Scheduler) offer(it admission.Item) (admission.Ticket, error) {
	for {
		ref, ok := s.waiting.Shed(it)
		if !ok {
			return s.waiting.Offer(it)
		}
		if r := s.requests.find(ID(ref)); r != nil {
			s.endings.shed = append(s.endings.shed, End{
				Request: r.id, Choice: -1, User: r.User, Finish: inference.FinishCancelled, Err: inference.ErrShed, Done: true,
			})
			s.endings.endRequest(r, shed)
		}
	}
}

// Progress reports how far a request has come; false when it has ended.
func (s *Scheduler) Progress(id ID) (inference.Progress, bool) {
	r := s.requests.find(id)
	if r == nil {
		return inference.Progress{}, false
	}
	ahead, _ := s.waiting.Position(r.ticket)
	return inference.Progress{Position: ahead, PrefillTokens: r.prefilled, CachedTokens: r.cached}, true
}

// Cancel ends one choice, or all with -1, in whatever state the request is.
// Between Commit and Plan its blocks are free on return; while a plan is out,
// blocks with planned rows stay allocated until Commit, which ignores their
// results. No End is reported. false means that there was nothing to end.
func (s *Scheduler) Cancel(_ int64, id ID, choice int) bool {
	r := s.requests.find(id)
	if r == nil || choice < -1 || choice >= r.N {
		return false
	}
	if choice == -1 {
		s.endings.endRequest(r, cancelled)
		return true
	}
	if r.choices[choice].ended {
		return false
	}
	if r.started && choice < r.next {
		s.endings.releaseSlot(r, choice)
	}
	if done := s.endings.endChoice(r, choice, cancelled); !done && r.started {
		s.requests.trackPartial(r)
	}
	return true
}

// Continue lets a choice go on that was late. Where several were to be forked, call it for each: one that was cancelled
// meanwhile has left the sequence to another.
func (s *Scheduler) Continue(id ID, choice int) {
	if r := s.requests.find(id); r != nil && choice >= 0 && choice < len(r.choices) && r.choices[choice].seq != nil {
		r.choices[choice].seq.late = false
	}
}

// CostEstimates is what the scheduler expects now.
func (s *Scheduler) CostEstimates() CostEstimates {
	return CostEstimates{
		prices: s.cost.Prices(cost.Load{Rows: estimateRows, Outputs: 1}), attention: s.cfg.Attention, outputTimes: s.charges.outputTimes,
		answers: s.lengths.Means(), known: s.cost.Ready(),
	}
}
