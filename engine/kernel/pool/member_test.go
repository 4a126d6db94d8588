package pool

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

// contest is a set of members that always have another step to do, by a clock of
// the test's: how much of the pool's time each of them gets.
type contest struct {
	turns   *turns
	members []*Member
	steps   []int64 // how long a step of each member takes
	spent   []int64
	now     int64
}

func newContest(weights []int, steps []int64) *contest {
	p := &Pool{}
	c := &contest{turns: &p.turns, steps: steps, spent: make([]int64, len(steps))}
	for _, w := range weights {
		l := p.Join(w)
		l.step = func() bool { panic("a contest makes the steps itself") }
		c.members = append(c.members, l)
	}
	return c
}

// run makes steps until time is over. It returns the longest that each member has
// waited between two of its steps.
func (c *contest) run(time int64) (longest []int64) {
	longest = make([]int64, len(c.members))
	ended := make([]int64, len(c.members))
	for _, l := range c.members {
		c.turns.ready(l, c.now)
	}
	l := c.turns.next(c.now)
	for c.now < time {
		i := slices.Index(c.members, l)
		longest[i] = max(longest[i], c.now-ended[i])
		c.now += c.steps[i]
		c.spent[i] += c.steps[i]
		ended[i] = c.now
		l = c.turns.stepped(true, c.now)
	}
	return longest
}

func TestTurnsShareTimeByWeight(t *testing.T) {
	for _, c := range []struct {
		weights []int
		steps   []int64
	}{
		{[]int{1, 1}, []int64{5 * ms, 5 * ms}},
		{[]int{1, 1}, []int64{100 * ms, ms / 10}},
		{[]int{2, 1}, []int64{5 * ms, 5 * ms}},
		{[]int{1, 4}, []int64{3 * ms, 70 * ms}},
		{[]int{1, 2, 3}, []int64{20 * ms, 7 * ms, ms}},
	} {
		const long = 60 * 1000 * ms
		race := newContest(c.weights, c.steps)
		longest := race.run(long)
		sum, slowest := 0, int64(0)
		for i, w := range c.weights {
			sum += w
			slowest = max(slowest, c.steps[i])
		}
		for i, w := range c.weights {
			want, got := float64(w)/float64(sum), float64(race.spent[i])/float64(long)
			if got < want-0.01 || got > want+0.01 {
				t.Errorf("weights %v, steps %v: member %d has %.3f of the time, want %.3f", c.weights, c.steps, i, got, want)
			}
			// A member waits for what its last step took beyond its share, and for one
			// step of each of the others.
			bound := int64(sum-w)*c.steps[i]/int64(w) + int64(len(c.steps)-1)*slowest
			if longest[i] > bound {
				t.Errorf("weights %v, steps %v: member %d waited %d ms, want at most %d", c.weights, c.steps, i, longest[i]/ms, bound/ms)
			}
		}
	}
}

// Members of equal steps take turns: a member that waits is next.
func TestTurnsAlternateBetweenEqualMembers(t *testing.T) {
	for _, n := range []int{2, 5} {
		weights, steps := make([]int, n), make([]int64, n)
		for i := range steps {
			weights[i], steps[i] = 1, 10*ms
		}
		for i, waited := range newContest(weights, steps).run(1000 * ms) {
			if most := int64(n-1) * 10 * ms; waited > most {
				t.Errorf("%d members: member %d waited %d ms, want %d", n, i, waited/ms, most/ms)
			}
		}
	}
}

// Idleness saves nothing up: a member that comes after an hour gets its share from
// now on, not the hour.
func TestIdleMembersSaveNothingUp(t *testing.T) {
	c := newContest([]int{1, 1}, []int64{5 * ms, 5 * ms})
	busy, late := c.members[0], c.members[1]
	q := c.turns
	q.ready(busy, 0)
	q.next(0)
	now := int64(time.Hour)
	if q.stepped(true, now) != busy {
		t.Fatal("a member alone lost its turn")
	}
	q.ready(late, now)
	if now += 5 * ms; q.stepped(true, now) != late {
		t.Fatal("the late member did not get the next turn")
	}
	if now += 5 * ms; q.stepped(true, now) != busy {
		t.Error("the late member goes on after its share")
	}
}

// A member that is ready again while its step runs gets another step, and one that
// was asked for several times gets one.
func TestReadyIsNeitherLostNorRepeated(t *testing.T) {
	c := newContest([]int{1}, []int64{ms})
	l, q := c.members[0], c.turns
	q.ready(l, 0)
	q.ready(l, 0)
	if q.next(0) != l {
		t.Fatal("no step after Ready")
	}
	q.ready(l, 1)
	q.ready(l, 1)
	if q.stepped(false, 2) != l {
		t.Fatal("Ready during a step was lost")
	}
	if q.stepped(false, 3) != nil {
		t.Error("one Ready gave two steps")
	}
}

// tally counts its items and looks for items of other jobs.
type tally struct {
	floor *floor
	seen  []atomic.Int32
	bad   int // an item that panics, or -1
}

// floor is where the workers of one pool are.
type floor struct {
	mu     sync.Mutex
	job    *tally
	inside int
}

func (f *floor) enter(j *tally) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inside > 0 && f.job != j {
		panic("items of two jobs at once")
	}
	f.job = j
	f.inside++
}

func (f *floor) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inside--
}

func (j *tally) Do(_, item int) {
	j.floor.enter(j)
	defer j.floor.leave()
	if item == j.bad {
		panic("bad item")
	}
	j.seen[item].Add(1)
	runtime.Gosched()
}

// Members with steps and members in goroutines of their own never share the pool,
// and each does its own items once. A panic in one member's job is that member's
// alone.
func TestMembersNeverShareTheWorkers(t *testing.T) {
	p := New(3)
	defer p.Close()
	var workers floor
	var wait sync.WaitGroup
	for n := range 5 {
		member, step := p.Join(1+n%2), 0
		turn := func() (more bool) {
			j := &tally{floor: &workers, seen: make([]atomic.Int32, 2+step%40), bad: -1}
			if n == 0 && step%3 == 0 {
				j.bad = step % len(j.seen)
			}
			fault := runs(member, j)
			if want := j.bad >= 0; (fault != nil) != want {
				t.Errorf("member %d, step %d: panicked: %v", n, step, fault)
			}
			for i := range j.seen {
				if j.bad < 0 && j.seen[i].Load() != 1 {
					t.Errorf("member %d, step %d: item %d done %d times", n, step, i, j.seen[i].Load())
				}
			}
			step++
			return step%4 != 0
		}
		const steps = 300
		if n >= 3 {
			wait.Go(func() {
				for range steps {
					turn()
				}
			})
			continue
		}
		rested := make(chan struct{}, 1)
		member.Drive(func() (more bool) {
			if more = turn(); !more {
				rested <- struct{}{}
			}
			return more
		})
		wait.Go(func() {
			for range steps / 4 {
				member.Ready()
				<-rested
			}
		})
	}
	wait.Wait()
}

func runs(member *Member, j Job) (fault error) {
	defer func() {
		if v := recover(); v != nil {
			var f *Fault
			if err, ok := v.(error); !ok || !errors.As(err, &f) {
				panic(v)
			}
			fault = f
		}
	}()
	member.Run(j, len(j.(*tally).seen), 1)
	return nil
}

// Work outside of a step: a single item needs no turn, more wait for one.
func TestRunOutsideAStep(t *testing.T) {
	p := New(2)
	defer p.Close()
	stepping, other := p.Join(1), p.Join(1)
	began, end := make(chan struct{}), make(chan struct{})
	stepping.Drive(func() bool {
		close(began)
		<-end
		return false
	})
	stepping.Ready()
	<-began
	var workers floor
	other.Run(&tally{floor: &workers, seen: make([]atomic.Int32, 1), bad: -1}, 1, 1) // would hang if it waited
	done := make(chan struct{})
	many := &tally{floor: &workers, seen: make([]atomic.Int32, 9), bad: -1}
	go func() {
		other.Run(many, 9, 1)
		close(done)
	}()
	select {
	case <-done:
		t.Fatal("several items ran during another member's step")
	case <-time.After(20 * time.Millisecond):
	}
	close(end)
	<-done
	for i := range many.seen {
		if many.seen[i].Load() != 1 {
			t.Errorf("item %d done %d times", i, many.seen[i].Load())
		}
	}
	if p.turns.holder != nil {
		t.Error("a turn of its own was not given back")
	}
}

// The last step of a member may close the pool, which ends the lead goroutine.
func TestAStepMayCloseThePool(t *testing.T) {
	before := runtime.NumGoroutine()
	p := New(2)
	l := p.Join(1)
	l.Drive(func() bool {
		p.Close()
		return true
	})
	l.Ready()
	for begin := time.Now(); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatal("the pool's goroutines go on after Close")
		}
	}
}
