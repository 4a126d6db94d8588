package pool

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

// contest is a set of members that always want the next step, by a clock of the
// test's: how much of the pool's time each of them gets.
type contest struct {
	pool    *Pool
	members []*Member
	steps   []int64 // how long a step of each member takes
	spent   []int64
	now     int64
}

func newContest(weights []int, steps []int64) *contest {
	c := &contest{pool: New(1), steps: steps, spent: make([]int64, len(steps))}
	for _, w := range weights {
		c.members = append(c.members, c.pool.Join(w))
	}
	return c
}

// run makes steps until time is over. It returns the longest that each member has
// waited between two of its steps.
func (c *contest) run(time int64) (longest []int64) {
	t := &c.pool.turns
	longest = make([]int64, len(c.members))
	ended := make([]int64, len(c.members))
	for _, l := range c.members {
		t.take(l, c.now)
	}
	for c.now < time {
		i := 0
		for c.members[i] != t.holder {
			i++
		}
		longest[i] = max(longest[i], c.now-ended[i])
		c.now += c.steps[i]
		c.spent[i] += c.steps[i]
		ended[i] = c.now
		if l := t.holder; !t.keep(c.now) {
			t.take(l, c.now)
		}
		for _, l := range c.members { // nobody reads the messages here
			select {
			case <-l.turn:
			default:
			}
		}
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
			// step and one quantum of each of the others.
			bound := int64(sum-w)*c.steps[i]/int64(w) + int64(len(c.steps)-1)*(slowest+int64(sum)*quantum)
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
	q := &c.pool.turns
	q.take(busy, 0)
	now := int64(time.Hour)
	if !q.keep(now) {
		t.Fatal("a member alone lost its turn")
	}
	if q.take(late, now) {
		t.Fatal("two members have a turn")
	}
	if now += 5 * ms; q.keep(now) {
		t.Fatal("the late member did not get the next turn")
	}
	q.take(busy, now)
	if now += 5 * ms; q.keep(now) {
		t.Error("the late member goes on after its share")
	}
}

// tally counts its items and looks for rounds of other members.
type tally struct {
	running *atomic.Int32 // rounds in progress on the pool
	seen    []atomic.Int32
	bad     int // an item that panics, or -1
}

func (j *tally) Do(_, item int) {
	if n := j.running.Load(); n != 1 {
		panic(fmt.Sprint(n, " rounds at once"))
	}
	if item == j.bad {
		panic("bad item")
	}
	j.seen[item].Add(1)
}

// Members in goroutines of their own, entering, leaving and running outside turns,
// never share the pool, and each does its own items once. A panic in one member's
// job is that member's alone.
func TestMembersNeverShareAStep(t *testing.T) {
	p := New(3)
	defer p.Close()
	var running atomic.Int32
	var wait sync.WaitGroup
	for n := range 4 {
		wait.Go(func() {
			member := p.Join(1 + n%2)
			defer member.Leave()
			for step := range 300 {
				j := &tally{running: &running, seen: make([]atomic.Int32, 2+step%40), bad: -1}
				if n == 0 && step%3 == 0 {
					j.bad = step % len(j.seen)
				}
				member.Enter()
				running.Add(1)
				fault := runs(member, j)
				running.Add(-1)
				if want := j.bad >= 0; (fault != nil) != want {
					t.Errorf("member %d, step %d: panicked: %v", n, step, fault)
				}
				for i := range j.seen {
					if j.bad < 0 && j.seen[i].Load() != 1 {
						t.Errorf("member %d, step %d: item %d done %d times", n, step, i, j.seen[i].Load())
					}
				}
				switch step % 4 {
				case 0:
					member.Yield()
					runtime.Gosched()
				case 1:
					member.Leave()
				}
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

// Work outside of turns: a single item needs no turn, more wait for one.
func TestRunOutsideATurn(t *testing.T) {
	p := New(2)
	defer p.Close()
	holder, other := p.Join(1), p.Join(1)
	holder.Enter()
	var running atomic.Int32
	running.Add(1)
	other.Run(&tally{running: &running, seen: make([]atomic.Int32, 1), bad: -1}, 1, 1) // would hang if it waited
	done := make(chan struct{})
	many := &tally{running: &running, seen: make([]atomic.Int32, 9), bad: -1}
	go func() {
		other.Run(many, 9, 1)
		close(done)
	}()
	select {
	case <-done:
		t.Fatal("several items ran in another member's turn")
	case <-time.After(20 * time.Millisecond):
	}
	holder.Leave()
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
