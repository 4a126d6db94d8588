package pool

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/cpu"
)

// GrainMACs is the least work, in multiply-adds, that is worth a claim on the
// pool's counter.
const GrainMACs = 32 << 10

// Job is work that splits into independent items. Do is called once for each
// item in [0,items), by any worker; worker in [0,Workers) picks its scratch.
type Job interface {
	Do(worker, item int)
}

// Pool is a fixed set of persistent workers that several engines may share,
// each through a [Member] of its own. The caller of Member.Run is worker 0 of that
// round; the others wait between rounds, spinning first and parked on a channel
// after that. A round allocates nothing.
//
// A round waits only for workers that entered it: one that the system has not
// scheduled in time finds the round closed, and the others have done its share.
// More workers than cores are slower than as many, but not by much.
type Pool struct {
	workers int
	spin    time.Duration // how long to wait awake; 0 where workers share cores
	turns   turns         // which member may open rounds
	leading sync.Once     // the lead goroutine's start

	// The round; the member whose turn it is writes it while no round is open,
	// workers inside read it.
	job    Job
	grain  int64
	ranges []itemRange // what is claimed from; one, or one for each worker
	fault  atomic.Pointer[Fault]
	closed atomic.Bool

	_      [64]byte
	gate   atomic.Uint64 // odd while a round is open; run alone advances it
	_      [56]byte
	states []workerState // index by worker; 0 is the caller of run
}

// itemRange is items that workers claim from front to back, padded to cache lines of its own.
type itemRange struct {
	next atomic.Int64 // first unclaimed item
	end  int64
	_    [112]byte
}

// items makes a range of those from lo to end-1.
func (r *itemRange) items(lo, end int) {
	r.end = int64(end)
	r.next.Store(int64(lo))
}

// workerState is the state of one worker that others read, padded to cache lines
// of its own.
type workerState struct {
	inside atomic.Bool // between entering a round and leaving it
	asleep atomic.Bool
	wake   chan struct{}
	_      [112]byte
}

// Fault is a panic in a Job, carried from a worker to the caller of Member.Run.
type Fault struct {
	Value any
	Stack []byte
}

func (f *Fault) Error() string {
	return fmt.Sprintf("panic in kernel worker: %v\n%s", f.Value, f.Stack)
}

// faultOf is the fault of a panic that is being recovered from; that of a job within a job stays what it is.
func faultOf(v any) *Fault {
	if f, ok := v.(*Fault); ok {
		return f
	}
	return &Fault{Value: v, Stack: debug.Stack()}
}

// New starts workers-1 goroutines; workers < 1 counts as 1. Close ends them.
func New(workers int) *Pool {
	workers = max(workers, 1)
	if workers <= min(cpu.Threads(), runtime.GOMAXPROCS(0)) {
		return newPool(workers, spinTime)
	}
	return newPool(workers, 0)
}

func newPool(workers int, spin time.Duration) *Pool {
	p := &Pool{workers: workers, spin: spin}
	p.turns.led = make(chan struct{}, 1)
	p.ranges = make([]itemRange, 0, p.workers)
	p.states = make([]workerState, p.workers)
	for i := range p.states {
		p.states[i].wake = make(chan struct{}, 1)
	}
	for i := 1; i < p.workers; i++ {
		go p.loop(i)
	}
	return p
}

// Workers is the number of workers, the caller of Member.Run included.
func (p *Pool) Workers() int { return p.workers }

// run does all items of job and returns when they are done. Workers claim grain
// items at a time. A panic in the job surfaces here as a panic with a *Fault,
// after every worker has left the job. One goroutine at a time may call run or sweep.
func (p *Pool) run(job Job, items, grain int) {
	p.ranges = p.ranges[:1]
	p.ranges[0].items(0, items)
	p.round(job, items, grain)
}

// sweep is run where each worker claims from a range of its own first: that of worker w ends before item ends[w].
func (p *Pool) sweep(job Job, ends []int) {
	p.ranges = p.ranges[:len(ends)]
	lo := 0
	for i, end := range ends {
		p.ranges[i].items(lo, end)
		lo = end
	}
	p.round(job, lo, 1)
}

// round has the workers do what is in ranges.
func (p *Pool) round(job Job, items, grain int) {
	p.job, p.grain = job, int64(grain)
	p.gate.Add(1)
	for i := range min(p.workers-1, (items-1)/grain) {
		p.rouse(i + 1)
	}
	p.claim(0)
	p.gate.Add(1)
	p.wait(0, 0)
	p.job = nil
	if f := p.fault.Swap(nil); f != nil {
		panic(f)
	}
}

// Close ends the workers and the lead goroutine. No Run of any member may be in
// progress or follow, and no step but one that calls Close.
func (p *Pool) Close() {
	if p.closed.Swap(true) {
		return
	}
	p.turns.tell()
	for i := 1; i < p.workers; i++ {
		p.rouse(i)
	}
}

// loop keeps its thread where workers have cores of their own: the Go scheduler moves what runs for long, which costs a twentieth
// of the tokens (docs/performance.md). Where they share cores they park after
// every round, and waking a locked thread takes longer.
func (p *Pool) loop(worker int) {
	if p.spin > 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	last := uint64(0)
	for {
		p.wait(worker, last)
		if p.closed.Load() {
			return
		}
		last = p.enter(worker)
		p.rouse(0)
	}
}

// enter takes part in the round that is open, if it still is once the worker
// has said that it is inside: run closes the gate before it looks who is. It
// returns the gate that it saw.
func (p *Pool) enter(worker int) uint64 {
	round := p.gate.Load()
	me := &p.states[worker]
	me.inside.Store(true)
	if round%2 == 1 && p.gate.Load() == round {
		p.claim(worker)
	}
	me.inside.Store(false)
	return round
}

// claim takes runs of items until none is left, those of the worker's own range first. A panic empties the round, so
// that it ends soon.
func (p *Pool) claim(worker int) {
	defer func() {
		if v := recover(); v != nil {
			p.fault.CompareAndSwap(nil, faultOf(v))
			for i := range p.ranges {
				p.ranges[i].next.Store(p.ranges[i].end)
			}
		}
	}()
	for i := range p.ranges {
		p.drain(&p.ranges[(worker+i)%len(p.ranges)], worker)
	}
}

// drain takes runs of items of a range until none is left.
func (p *Pool) drain(r *itemRange, worker int) {
	for {
		end := r.next.Add(p.grain)
		lo := end - p.grain
		if lo >= r.end {
			return
		}
		for i := lo; i < min(end, r.end); i++ {
			p.job.Do(worker, int(i))
		}
	}
}

// ready says whether a worker may go on: worker 0 when no other worker is inside,
// the others when a round other than their last is open or the pool is closed.
func (p *Pool) ready(worker int, last uint64) bool {
	if worker > 0 {
		g := p.gate.Load()
		return g%2 == 1 && g != last || p.closed.Load()
	}
	for i := 1; i < p.workers; i++ {
		if p.states[i].inside.Load() {
			return false
		}
	}
	return true
}

// wait returns once the worker is ready: it spins, then parks until roused.
func (p *Pool) wait(worker int, last uint64) {
	me := &p.states[worker]
	for !p.spun(worker, last) {
		me.asleep.Store(true)
		if p.ready(worker, last) && me.asleep.CompareAndSwap(true, false) {
			return
		}
		<-me.wake
	}
}

// spun waits awake for a while and says whether the worker is ready.
func (p *Pool) spun(worker int, last uint64) bool {
	if p.ready(worker, last) {
		return true
	}
	if p.spin == 0 {
		return false
	}
	for begin := time.Now(); time.Since(begin) < p.spin; {
		for range spinPolls {
			pause()
			if p.ready(worker, last) {
				return true
			}
		}
	}
	return false
}

// Pause lets a moment go by in a job that waits for what another worker of its round computes; polls is how many have gone by:
// the first ones awake, later ones leaving the processor to others.
func Pause(polls int) {
	const awake, yielding = 1 << 10, 1 << 12
	switch {
	case polls < awake:
		pause()
	case polls < yielding:
		runtime.Gosched()
	default:
		time.Sleep(50 * time.Microsecond)
	}
}

// rouse wakes a worker if it is parked. The flag is cleared by exactly one
// side, so a wake-up is neither lost nor left behind.
func (p *Pool) rouse(worker int) {
	me := &p.states[worker]
	if me.asleep.Load() && me.asleep.CompareAndSwap(true, false) {
		me.wake <- struct{}{}
	}
}
