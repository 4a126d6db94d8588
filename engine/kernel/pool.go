package kernel

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// Job is work that splits into independent items. Do is called once for each
// item in [0,items), by any worker; worker in [0,Workers) picks its scratch.
type Job interface {
	Do(worker, item int)
}

// Pool is a fixed set of persistent workers. The caller of Run is worker 0;
// the others wait between rounds, spinning first and parked on a channel
// after that. Run is called from one goroutine at a time and allocates
// nothing.
type Pool struct {
	workers int

	// The round in progress; written by Run before epoch is advanced.
	job          Job
	items, grain int64
	next         atomic.Int64 // first unclaimed item
	busy         atomic.Int64 // workers other than 0 still in the round
	epoch        atomic.Uint64
	closed       atomic.Bool
	fault        atomic.Pointer[Fault]

	parked []parking // index by worker; 0 is the caller of Run
}

// parking is one worker's bed, padded to a cache line of its own.
type parking struct {
	asleep atomic.Bool
	wake   chan struct{}
	_      [48]byte
}

// Fault is a panic in a Job, carried from a worker to the caller of Run.
type Fault struct {
	Value any
	Stack []byte
}

func (f *Fault) Error() string {
	return fmt.Sprintf("panic in kernel worker: %v\n%s", f.Value, f.Stack)
}

// NewPool starts workers-1 goroutines; workers < 1 counts as 1. Close ends
// them.
func NewPool(workers int) *Pool {
	p := &Pool{workers: max(workers, 1)}
	p.parked = make([]parking, p.workers)
	for i := range p.parked {
		p.parked[i].wake = make(chan struct{}, 1)
	}
	for i := 1; i < p.workers; i++ {
		go p.loop(i)
	}
	return p
}

// Workers is the number of workers, the caller of Run included.
func (p *Pool) Workers() int { return p.workers }

// Run does all items of job and returns when they are done. Workers claim
// grain items at a time; at most grain items run on the caller alone, since
// waking others would cost more than it gives. A panic in the job surfaces
// here as a panic with a *Fault, after every worker has left the job.
func (p *Pool) Run(job Job, items, grain int) {
	grain = max(grain, 1)
	if items <= grain || p.workers == 1 {
		for i := range items {
			job.Do(0, i)
		}
		return
	}
	p.job, p.items, p.grain = job, int64(items), int64(grain)
	p.next.Store(0)
	p.busy.Store(int64(p.workers - 1))
	p.epoch.Add(1)
	for i := 1; i < p.workers; i++ {
		p.rouse(i)
	}
	p.claim(0)
	p.wait(0, func() bool { return p.busy.Load() == 0 })
	p.job = nil
	if f := p.fault.Swap(nil); f != nil {
		panic(f)
	}
}

// Close ends the workers. No Run may be in progress or follow.
func (p *Pool) Close() {
	if p.closed.Swap(true) {
		return
	}
	p.epoch.Add(1)
	for i := 1; i < p.workers; i++ {
		p.rouse(i)
	}
}

func (p *Pool) loop(worker int) {
	seen := uint64(0)
	moved := func() bool { return p.epoch.Load() != seen }
	for {
		p.wait(worker, moved)
		seen = p.epoch.Load()
		if p.closed.Load() {
			return
		}
		p.claim(worker)
		if p.busy.Add(-1) == 0 {
			p.rouse(0)
		}
	}
}

// claim takes runs of items until none is left. A panic empties the round, so
// that it ends soon.
func (p *Pool) claim(worker int) {
	defer func() {
		if v := recover(); v != nil {
			p.fault.CompareAndSwap(nil, &Fault{Value: v, Stack: debug.Stack()})
			p.next.Store(p.items)
		}
	}()
	for {
		end := p.next.Add(p.grain)
		lo := end - p.grain
		if lo >= p.items {
			return
		}
		for i := lo; i < min(end, p.items); i++ {
			p.job.Do(worker, int(i))
		}
	}
}

// wait returns once ready reports true: it spins, then parks until roused.
func (p *Pool) wait(worker int, ready func() bool) {
	bed := &p.parked[worker]
	for {
		for range spinLoads {
			if ready() {
				return
			}
		}
		runtime.Gosched()
		bed.asleep.Store(true)
		if ready() && bed.asleep.CompareAndSwap(true, false) {
			return
		}
		<-bed.wake
	}
}

// rouse wakes a worker if it is parked. The flag is cleared by exactly one
// side, so a wake-up is neither lost nor left behind.
func (p *Pool) rouse(worker int) {
	bed := &p.parked[worker]
	if bed.asleep.CompareAndSwap(true, false) {
		bed.wake <- struct{}{}
	}
}
