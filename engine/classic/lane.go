package classic

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"weir/engine/kernel/pool"
	"weir/internal/cpu"
	"weir/internal/inference"
	"weir/scheduler/admission"
	"weir/scheduler/batch"
)

// InlineLimit is the estimated time below which a request is computed on its caller's
// goroutine.
const InlineLimit = 50 * time.Microsecond

// LaneOptions say what a lane may use. The zero value of a field means its default.
type LaneOptions struct {
	Pool       *pool.Pool         // compute threads shared with other engines, whose owner closes it; nil: the lane makes a pool of its own
	PoolWeight int                // share of Pool's time among engines that want it; 0 is 1
	Service    *admission.Service // counts what tenants use over all lanes that share it; nil: this lane alone
	Cores      int                // requests computed inline at once; 0 is one per core

	MaxWaiting   int           // requests in each of the two lines; 1024
	MaxWait      time.Duration // in line; 10 s
	SharePercent [inference.NumClasses]int

	// OnFault, if set, is called with a bug that was caught, with its stack. It must be
	// quick.
	OnFault func(*Fault)
}

// Lane computes predictions for all versions of a process. It is safe for concurrent
// use.
type Lane struct {
	opts   LaneOptions
	pool   *pool.Pool // nil: the caller's
	inline inline
	apart  inline // of models whose cost is not known
	beside inline // of small requests for the pool while large ones have it
	turns  batcher

	mu      sync.Mutex
	running int
	closing bool
	idle    chan struct{} // closed when closing, and nothing runs
}

// NewLane returns a lane that waits for requests.
func NewLane(o LaneOptions) (*Lane, error) {
	o.Cores = cmp.Or(o.Cores, cpu.Threads())
	o.MaxWait = cmp.Or(o.MaxWait, 10*time.Second)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 1024)
	l := &Lane{opts: o, idle: make(chan struct{})}
	cfg := batch.Config{Requests: o.MaxWaiting, SharePercent: o.SharePercent}
	var err error
	if l.inline.queue, err = l.newQueue(cfg); err != nil {
		return nil, err
	}
	if l.apart.queue, err = l.newQueue(cfg); err != nil {
		return nil, err
	}
	if l.beside.queue, err = l.newQueue(cfg); err != nil {
		return nil, err
	}
	if l.turns.queue, err = l.newQueue(cfg); err != nil {
		return nil, err
	}
	if l.opts.Pool == nil {
		l.pool = pool.New(o.Cores)
		l.opts.Pool = l.pool
	}
	l.inline.init(l, o.Cores)
	l.apart.init(l, max(1, o.Cores/4))
	l.beside.init(l, max(1, o.Cores/2))
	l.turns.init(l)
	return l, nil
}

func (l *Lane) newQueue(cfg batch.Config) (*batch.Queue, error) {
	if l.opts.Service != nil {
		cfg.Lane = l.opts.Service.Lane()
	}
	return batch.New(cfg)
}

// Predict computes a request with a version, or refuses it with one of inference's
// sentinels. It returns when ctx ends; then and later the lane reads no memory of
// the request.
func (l *Lane) Predict(ctx context.Context, v *Version, p *inference.Prediction) error {
	if err := l.begin(); err != nil {
		return err
	}
	defer l.end()
	t, err := v.accept(p)
	if err != nil {
		v.failed()
		return err
	}
	t.since = time.Now()
	estimate := v.Estimate(t.rows)
	w := t.work(p, l, estimate)
	switch {
	case v.apart != nil:
		t.stop = t.until(ctx, p.DoneBy)
		err = l.apart.do(ctx, t, w)
	case estimate < InlineLimit:
		err = l.inline.do(ctx, t, w)
	default:
		err = l.pooled(ctx, t, w, estimate)
	}
	if err != nil {
		return err
	}
	return t.answer(p)
}

// pooled computes a request at the pool. A small one that would wait there for the turns of a large one is computed on its caller's
// goroutine instead: the system gives that a core at once, and the large one all others. They are few at a time, so that large ones go on.
func (l *Lane) pooled(ctx context.Context, t *task, w batch.Work, estimate time.Duration) error {
	if estimate <= briefTurn && l.turns.engaged() {
		l.turns.crowd()
		if done, err := l.beside.try(t, w); done || err != nil {
			return err
		}
	}
	return l.turns.do(ctx, t, w)
}

// charge is a core's time in the pool's: the unit in which tenants are charged.
func (l *Lane) charge(core time.Duration) uint64 {
	return uint64(max(core, 0)) / uint64(l.opts.Cores) //nolint:gosec // both are positive
}

func (l *Lane) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return fmt.Errorf("%w: the lane of predictions is shutting down", inference.ErrUnavailable)
	}
	l.running++
	return nil
}

func (l *Lane) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running--; l.closing && l.running == 0 {
		close(l.idle)
	}
}

// Close refuses new requests and waits for the others, until ctx ends. Those that
// still run then are answered as long as the pool computes.
func (l *Lane) Close(ctx context.Context) error {
	l.mu.Lock()
	if !l.closing {
		l.closing = true
		if l.running == 0 {
			close(l.idle)
		}
	}
	l.mu.Unlock()
	select {
	case <-l.idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	l.turns.close()
	if l.pool != nil {
		l.pool.Close()
	}
	return nil
}

// fault reports a bug that a request's error stands for.
func (l *Lane) fault(err error) {
	if f, ok := err.(*Fault); ok && l.opts.OnFault != nil { //nolint:errorlint // Version.compute returns it bare
		l.opts.OnFault(f)
	}
}
