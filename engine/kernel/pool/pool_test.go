package pool

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

type countJob struct {
	seen []atomic.Int32
	bad  int
}

func (j *countJob) Do(_, item int) {
	if item == j.bad {
		panic(fmt.Sprint("item ", item))
	}
	j.seen[item].Add(1)
}

func TestPoolDoesEachItemOnce(t *testing.T) {
	for _, workers := range []int{0, 1, 2, 7} { // more than the machine has, too
		p := New(workers)
		for round := range 200 {
			j := &countJob{seen: make([]atomic.Int32, round*3+1), bad: -1}
			p.Join(1).Run(j, len(j.seen), 1+round%5)
			for i := range j.seen {
				if n := j.seen[i].Load(); n != 1 {
					t.Fatalf("%d workers, round %d: item %d done %d times", workers, round, i, n)
				}
			}
		}
		p.Close()
	}
}

// Workers sweep ranges of their own, of any lengths, and what others leave.
func TestSweepsDoEachItemOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 7} {
		p := New(workers)
		defer p.Close()
		for round := range 200 {
			ends, items := make([]int, workers), 0
			for w := range ends {
				items += (round*(w+3) + w) % 11 * (w % 3)
				ends[w] = items
			}
			j := &countJob{seen: make([]atomic.Int32, items), bad: -1}
			p.Join(1).Sweep(j, ends)
			for i := range j.seen {
				if n := j.seen[i].Load(); n != 1 {
					t.Fatalf("%d workers, ranges that end at %v: item %d done %d times", workers, ends, i, n)
				}
			}
		}
	}
}

// orderJob notes which items which worker has done, and waits until all workers have one.
type orderJob struct {
	meeting
	done [2][]int
}

func (j *orderJob) Do(worker, item int) {
	if len(j.done[worker]) == 0 {
		j.meeting.Do(worker, item)
	}
	j.done[worker] = append(j.done[worker], item)
}

func TestSweepsBeginWithTheWorkersOwnRanges(t *testing.T) {
	p := New(2)
	defer p.Close()
	for range 50 {
		j := &orderJob{meeting: meeting{all: 2}}
		p.Join(1).Sweep(j, []int{30, 70})
		for w, first := range []int{0, 30} {
			if j.done[w][0] != first {
				t.Fatalf("worker %d began with item %d, not %d", w, j.done[w][0], first)
			}
			own := j.done[w][:0:0]
			for _, item := range j.done[w] {
				if (item >= 30) == (w == 1) {
					own = append(own, item)
				}
			}
			if !slices.IsSorted(own) {
				t.Fatalf("worker %d did items %v", w, j.done[w])
			}
		}
	}
}

func TestSweepsCarryPanics(t *testing.T) {
	p := New(3)
	defer p.Close()
	for round := range 20 {
		func() {
			defer func() {
				if _, ok := recover().(*Fault); !ok {
					t.Fatalf("round %d: no fault reached the caller", round)
				}
			}()
			p.Join(1).Sweep(&countJob{seen: make([]atomic.Int32, 100), bad: round * 5}, []int{20, 60, 100})
		}()
	}
}

func TestPoolCarriesPanicsToTheCaller(t *testing.T) {
	p := New(3)
	defer p.Close()
	for round := range 20 {
		func() {
			defer func() {
				if v := recover(); v == nil {
					t.Fatalf("round %d: no panic reached the caller", round)
				}
			}()
			p.Join(1).Run(&countJob{seen: make([]atomic.Int32, 100), bad: round * 5}, 100, 2)
		}()
		j := &countJob{seen: make([]atomic.Int32, 100), bad: -1}
		p.Join(1).Run(j, 100, 1)
		for i := range j.seen {
			if j.seen[i].Load() != 1 {
				t.Fatalf("after a panic: item %d done %d times", i, j.seen[i].Load())
			}
		}
	}
}

// A worker that parks between any two rounds must hear of the next one. Rounds
// end only when all items are done, so a wake-up lost by the caller hangs the
// test, and one lost by a worker shows in who did the items.
func TestPoolLosesNoWakeUp(t *testing.T) {
	for _, workers := range []int{2, 3, 4 * runtime.NumCPU()} {
		p := newPool(workers, 0) // parks at every wait
		for round := range 500 {
			j := &countJob{seen: make([]atomic.Int32, 1+round%50), bad: -1}
			p.Join(1).Run(j, len(j.seen), 1)
			for i := range j.seen {
				if n := j.seen[i].Load(); n != 1 {
					t.Fatalf("%d workers, round %d: item %d done %d times", workers, round, i, n)
				}
			}
		}
		p.Close()
	}
}

// meeting is a job whose items wait for each other: it ends only if as many
// workers as items take part.
type meeting struct {
	here atomic.Int32
	all  int32
}

func (m *meeting) Do(_, _ int) {
	m.here.Add(1)
	for m.here.Load() < m.all {
		runtime.Gosched()
	}
}

func TestPoolRousesAsManyWorkersAsThereAreClaims(t *testing.T) {
	const workers = 5
	p := New(workers)
	defer p.Close()
	for round := range 200 {
		if round%2 == 0 { // some of them are parked by now, or still awake
			runtime.Gosched()
		}
		items := 2 + round%(workers-1)
		p.Join(1).Run(&meeting{all: int32(items)}, items, 1)
	}
}

func TestPoolSpinsOnlyWithACoreForEachWorker(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	many := New(cores + 1)
	defer many.Close()
	if many.spin != 0 {
		t.Errorf("%d workers on %d cores spin for %v", cores+1, cores, many.spin)
	}
	one := New(1)
	defer one.Close()
	if one.spin == 0 {
		t.Error("one worker does not spin")
	}
}

// A worker that comes late must find the gate closed: Run no longer waits for
// it and may change the job under its hands.
func TestLateWorkersDoNotEnter(t *testing.T) {
	p := &Pool{workers: 2, states: make([]workerState, 2), ranges: make([]itemRange, 1)}
	j := &countJob{seen: make([]atomic.Int32, 1), bad: -1}
	p.job, p.grain = j, 1
	p.ranges[0].items(0, 1)
	if p.ready(1, 0) {
		t.Error("ready before the first round")
	}
	p.enter(1)
	if j.seen[0].Load() != 0 {
		t.Error("worked at a closed gate")
	}
	p.gate.Add(1)
	if !p.ready(1, 0) {
		t.Error("not ready for an open round")
	}
	p.states[1].inside.Store(true)
	if p.ready(0, 0) {
		t.Error("the caller does not wait for a worker inside")
	}
	last := p.enter(1)
	if j.seen[0].Load() != 1 || !p.ready(0, 0) {
		t.Error("an open round was not worked at, or not left")
	}
	if p.ready(1, last) {
		t.Error("ready for the same round again")
	}
	p.gate.Add(1)
	if p.ready(1, last) {
		t.Error("ready for a round that is closed")
	}
}

func TestPoolPanicsAreFaultsWithTheirStack(t *testing.T) {
	for _, workers := range []int{1, 2} {
		p := New(workers)
		defer p.Close()
		for _, items := range []int{1, 100} { // on the caller alone, and shared
			func() {
				defer func() {
					var f *Fault
					err, _ := recover().(error)
					if !errors.As(err, &f) || f.Value != "item 0" || !strings.Contains(err.Error(), "countJob") {
						t.Errorf("%d workers, %d items: %v", workers, items, err)
					}
				}()
				p.Join(1).Run(&countJob{seen: make([]atomic.Int32, items)}, items, 1)
			}()
		}
	}
}

// nestJob runs another job on the worker alone.
type nestJob struct{ inner *countJob }

func (j *nestJob) Do(int, int) { Alone().Run(j.inner, len(j.inner.seen), 1) }

// A job may run others on its worker, whose panics surface as if they were its own.
func TestJobsNest(t *testing.T) {
	p := New(2)
	defer p.Close()
	j := &nestJob{inner: &countJob{seen: make([]atomic.Int32, 5), bad: -1}}
	p.Join(1).Run(j, 10, 1)
	for i := range j.inner.seen {
		if n := j.inner.seen[i].Load(); n != 10 {
			t.Errorf("item %d was done %d times, want 10", i, n)
		}
	}
	defer func() {
		var f *Fault
		err, _ := recover().(error)
		if !errors.As(err, &f) || f.Value != "item 3" {
			t.Errorf("%v, want the fault of item 3", err)
		}
	}()
	j.inner.bad = 3
	p.Join(1).Run(j, 10, 1)
}

func TestPoolCloseEndsItsWorkers(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		p := New(4)
		p.Join(1).Run(&countJob{seen: make([]atomic.Int32, 9), bad: -1}, 9, 1)
		p.Close()
		p.Close()
	}
	for runtime.NumGoroutine() > before { // or until the test's own deadline
		runtime.Gosched()
	}
}

func TestPoolAllocatesNothing(t *testing.T) {
	for _, workers := range []int{1, 2, 2 * runtime.NumCPU()} {
		p := New(workers)
		defer p.Close()
		j := &countJob{seen: make([]atomic.Int32, 16), bad: -1}
		member := p.Join(1)
		if n := testing.AllocsPerRun(100, func() { member.Run(j, 16, 1) }); n > 0 {
			t.Errorf("%d workers: %v allocations per round", workers, n)
		}
	}
}
