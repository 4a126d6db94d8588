package llm

import (
	"time"

	"weir/internal/inference"
	"weir/scheduler"
)

// mostWaitersNoted bounds the waiting requests whose causes are asked for after a step; others have their turn after the next ones.
const mostWaitersNoted = 16

// lives note what the requests of an engine do, and why, for those who ask later.
type lives struct{ e *Engine }

// submitted notes the begin of a job that waits.
func (n lives) submitted(j *job) {
	if x, ok := n.e.sched.ExplainOne(j.id); ok {
		j.note(j.queued, &x.State)
	}
}

// stepped notes what has changed with a step that was planned at one time and computed at another.
func (n lives) stepped(p *scheduler.Plan, waiting map[*job]struct{}, planned, computed time.Time) {
	for i := range p.Chunks {
		c := &p.Chunks[i]
		j := c.User.(*job)
		switch {
		case c.Decode:
			j.turn(planned, inference.PhaseDecode)
		case j.phase != inference.PhaseDecode: // a further choice computes the last row again
			j.turn(planned, inference.PhasePrefill)
		}
		if c.Samples > 0 {
			j.turn(computed, inference.PhaseDecode)
		}
	}
	for _, ids := range [2][]scheduler.ID{p.Preempted, p.Paused} {
		for _, id := range ids {
			if x, ok := n.e.sched.ExplainOne(id); ok && (x.Phase == inference.PhasePreempted || x.Phase == inference.PhasePaused) {
				x.User.(*job).note(planned, &x.State)
			}
		}
	}
	left := mostWaitersNoted
	for j := range waiting {
		if left--; left < 0 {
			return
		}
		if x, ok := n.e.sched.ExplainOne(j.id); ok {
			j.note(computed, &x.State)
		}
	}
}

// turn notes that rows of the job are computed.
func (j *job) turn(at time.Time, phase inference.Phase) {
	if j.phase != phase {
		j.note(at, &inference.State{Phase: phase})
	}
}

// note notes what the job does from a time on, where that is something else than before.
func (j *job) note(at time.Time, s *inference.State) {
	if j.noted && j.phase == s.Phase && j.cause == s.Cause && j.gave == s.Gave {
		return
	}
	j.noted, j.phase, j.cause, j.gave = true, s.Phase, s.Cause, s.Gave
	j.stream.Note(inference.Moment{At: at.UnixNano(), Phase: s.Phase, Cause: s.Cause, Gave: s.Gave, Ahead: int32(min(s.Ahead, 1<<30))}) //nolint:gosec // bounded
}
