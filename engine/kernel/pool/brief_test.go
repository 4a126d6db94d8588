package pool

import (
	"sync/atomic"
	"testing"
)

// brief makes a member of brief steps that the test makes itself.
func (c *contest) brief(weight int) *Member {
	l := (&Pool{}).Join(weight)
	l.brief, l.step = true, func() bool { panic("a contest makes the steps itself") }
	return l
}

// A member of brief steps that is always busy gets its share inside of long steps, and
// waits for no more than the time that its last step took, and for one round.
func TestBriefStepsShareTheTimeOfALongOne(t *testing.T) {
	for _, weights := range [][2]int{{1, 1}, {1, 3}, {3, 1}} {
		c := newContest([]int{weights[0]}, []int64{0})
		long, brief, q := c.members[0], c.brief(weights[1]), c.turns
		q.ready(long, 0)
		if q.next(0) != long {
			t.Fatal("no step of the long member")
		}
		q.ready(brief, 0)
		const round, step, end = ms / 10, 2 * ms, 10_000 * ms
		now, spent, ended, waited := int64(0), int64(0), int64(0), int64(0)
		for now < end { // all of it one step of the long member
			now += round
			due := q.due(long, now)
			l := q.interrupt(now)
			if due != (l != nil) {
				t.Fatalf("after %d µs a brief step is due: %v, and begins: %v", now/1000, due, l != nil)
			}
			for ; l != nil; l = q.interrupted(long, true, now) {
				waited = max(waited, now-ended)
				now, spent = now+step, spent+step
				ended = now
			}
		}
		want := float64(weights[1]) / float64(weights[0]+weights[1])
		if got := float64(spent) / float64(now); got < want-0.01 || got > want+0.01 {
			t.Errorf("weights %v: brief steps had %.3f of the time, want %.3f", weights, got, want)
		}
		if most := step*int64(weights[0])/int64(weights[1]) + 2*round; waited > most {
			t.Errorf("weights %v: a brief step waited %d µs, want at most %d", weights, waited/1000, most/1000)
		}
		if got := long.used*int64(weights[0]) + spent; got > now {
			t.Errorf("weights %v: members were charged %d ms of %d", weights, got/ms, now/ms)
		}
	}
}

// Only brief steps interrupt, and only long ones are interrupted.
func TestWhoInterruptsWhom(t *testing.T) {
	c := newContest([]int{1, 1}, []int64{0, 0})
	q, brief := c.turns, c.brief(1)
	q.ready(c.members[0], 0)
	q.next(0)
	q.ready(c.members[1], 0)
	if q.brief.Load() != 0 || q.interrupt(100*ms) != nil {
		t.Fatal("a long step interrupts a long step")
	}
	q.ready(brief, 100*ms)
	if q.interrupt(100*ms) != brief {
		t.Fatal("a brief step waits for the end of a long one")
	}
	if q.interrupted(c.members[0], false, 102*ms) != nil || q.holder != c.members[0] {
		t.Fatal("the long step does not go on")
	}
	if q.stepped(false, 103*ms) != c.members[1] {
		t.Error("the next long step does not follow")
	}
}

// A brief step of another member runs while a long step still computes; neither loses
// an item.
func TestABriefStepInsideALongOne(t *testing.T) {
	p := New(2)
	defer p.Close()
	var workers floor
	tallies := func(n int) *tally { return &tally{floor: &workers, seen: make([]atomic.Int32, n), bad: -1} }
	once := func(j *tally) {
		for i := range j.seen {
			if n := j.seen[i].Load(); n != 1 {
				t.Errorf("item %d of %d done %d times", i, len(j.seen), n)
			}
		}
	}
	long, brief := p.Join(1), p.Join(1)
	interrupted, done := false, make(chan int, 1)
	brief.DriveBriefly(func() bool {
		j := tallies(7)
		brief.Run(j, len(j.seen), 1)
		once(j)
		interrupted = true
		return false
	})
	long.Drive(func() bool {
		if long.Wanted() {
			t.Error("the long step is wanted before the brief member is ready")
		}
		brief.Ready()
		if !long.Wanted() || brief.Wanted() {
			t.Errorf("wanted of the long step is %v, of the brief one %v", long.Wanted(), brief.Wanted())
		}
		rounds := 0
		for ; !interrupted; rounds++ {
			j := tallies(5)
			long.Run(j, len(j.seen), 1)
			once(j)
		}
		done <- rounds
		return false
	})
	long.Ready()
	if rounds := <-done; rounds != 1 {
		t.Errorf("the brief step began after %d rounds, want it before the first", rounds)
	}
}
