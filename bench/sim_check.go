package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/internal/inference"
	"weir/scheduler"
	"weir/scheduler/cost"
)

// errGone is the outcome of a request whose client went away.
var errGone = errors.New("the client went away")

// disconnect is a client that goes away.
type disconnect struct {
	at  time.Duration
	out *SimOutcome
}

// leaveAt keeps the list of clients that will go away in order, soonest last.
func (s *sim) leaveAt(l disconnect) {
	i, _ := slices.BinarySearchFunc(s.leave, l, func(a, b disconnect) int { return int(b.at - a.at) })
	s.leave = slices.Insert(s.leave, i, l)
}

// cancel ends the requests of clients that have gone by a time.
func (s *sim) cancel(by time.Duration) {
	for n := len(s.leave); n > 0 && s.leave[n-1].at <= by; n = len(s.leave) {
		out := s.leave[n-1].out
		s.leave = s.leave[:n-1]
		if !out.live {
			continue
		}
		if !s.sched.Cancel(int64(s.now), out.id, -1) {
			s.told = append(s.told, out) // it was shed, which the next plan says
			continue
		}
		out.live, out.Err = false, errGone
		s.live--
	}
}

// shedWasTold checks that what could not be cancelled had been shed.
func (s *sim) shedWasTold() {
	for _, out := range s.told {
		if out.live || !errors.Is(out.Err, inference.ErrShed) {
			s.broken = fmt.Errorf("S12: request %v lives and cannot be cancelled: %w", out.id, out.Err)
		}
	}
	s.told = s.told[:0]
}

// attribute divides a step's time among the requests that it computes rows of, and
// takes the plan into the digest.
func (s *sim) attribute(took time.Duration) {
	p, total := s.prior, 0.0
	work := func(c *scheduler.Chunk) float64 {
		return p.Row*float64(c.Count) + p.Output*float64(c.LogitRows) +
			p.Position*float64(cost.Attended(c.Start, c.Count)) + p.Step/float64(len(s.plan.Chunks))
	}
	h := s.done.Digest
	for i := range s.plan.Chunks {
		c := &s.plan.Chunks[i]
		blocks := c.Blocks(0)
		total += work(c)
		for _, v := range [...]uint64{uint64(c.Request), uint64(c.Choice), uint64(c.Start), uint64(c.Count), uint64(blocks[len(blocks)-1])} {
			h = (h ^ v) * 0x100000001b3
			h ^= h >> 29
		}
	}
	s.done.Digest = h
	for i := range s.plan.Chunks {
		c := &s.plan.Chunks[i]
		c.User.(*SimOutcome).Work += time.Duration(float64(took) * work(c) / total)
	}
}

// checkPlan holds for every plan: its rows are within the budget, their blocks
// exist, and no ended request has rows.
func (s *sim) checkPlan() error {
	rows := 0
	for i := range s.plan.Chunks {
		c := &s.plan.Chunks[i]
		rows += c.Count
		if !c.User.(*SimOutcome).live {
			return fmt.Errorf("S2: request %v has rows after its end", c.Request)
		}
		if len(c.Blocks(0))*simBlock < c.Start+c.Count {
			return fmt.Errorf("S4: request %v has %d blocks for %d rows", c.Request, len(c.Blocks(0)), c.Start+c.Count)
		}
	}
	if limit := max(s.o.Scheduler.MaxBatchTokens, 1); s.o.Scheduler.MaxBatchTokens > 0 && (rows != s.plan.Rows || rows > limit) {
		return fmt.Errorf("S3: %d rows are planned, %d said, limit %d", rows, s.plan.Rows, limit)
	}
	return nil
}

// check reports a broken invariant: of every step, and of every so manieth the
// recount of scheduler, queue and pool.
func (s *sim) check() error {
	if s.broken != nil || s.o.CheckEvery == 0 {
		return s.broken
	}
	if s.steps%s.o.CheckEvery == 0 {
		return s.sched.CheckInvariants()
	}
	return nil
}

// idle reports what is left of requests once all have ended: nothing may be, and
// each of them was counted once. Without the cache every block is free.
func (s *sim) idle() error {
	if s.o.CheckEvery == 0 {
		return nil
	}
	if err := s.sched.CheckInvariants(); err != nil {
		return err
	}
	st := s.sched.Stats()
	if st.Live != 0 || st.Running+st.Paused+st.Resuming+st.Waiting != 0 || st.Submitted != st.Ended() {
		return fmt.Errorf("S1: %+v", st)
	}
	for i := range s.done.Outcomes {
		if s.done.Outcomes[i].live {
			return fmt.Errorf("S2: request %d never ended", i)
		}
	}
	s.pool.Reset()
	if p := s.pool.Stats(); p.Free != p.Blocks {
		return fmt.Errorf("K13: %d of %d blocks are free after the cache was dropped", p.Free, p.Blocks)
	}
	return s.pool.Check()
}
