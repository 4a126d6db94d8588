package scheduler

import (
	"errors"
	"fmt"
	"slices"
)

// CheckInvariants recounts everything that a single state can show and names
// the first broken invariant: the scheduler's own, its queue's, its pool's. It
// costs a walk over all of them: for tests after every call, for the engine
// when idle.
//
//	S1  every submitted request is waiting, started or counted as ended
//	S2  a live request has choices left, each ended or (once forked) a sequence
//	S3  planned rows and taken slots are within their limits
//	S4  every running sequence's table covers its planned rows; no others have blocks but paused ones
//	S6  the queue's own counts (admission.Queue.Check)
func (s *Scheduler) CheckInvariants() error {
	for _, check := range []func() error{s.checkRequests, s.checkSequences, s.checkShares, s.checkStep, s.waiting.Check, s.pool.Check} {
		if err := check(); err != nil {
			return fmt.Errorf("check scheduler: %w", err)
		}
	}
	return nil
}

func (s *Scheduler) checkRequests() error {
	waiting, live := 0, 0
	for i, r := range s.requests.slots {
		if r.live == 0 {
			continue
		}
		live++
		if !r.started {
			waiting++
		}
		if r.id.Index() != i {
			return fmt.Errorf("S1: request %v is in slot %d", r.id, i)
		}
		if err := s.checkChoices(r); err != nil {
			return err
		}
	}
	c := &s.stats.Counters
	switch {
	case waiting != s.waiting.Len():
		return fmt.Errorf("S1: %d requests wait, the queue has %d", waiting, s.waiting.Len())
	case live != len(s.requests.slots)-len(s.requests.free):
		return fmt.Errorf("S1: %d live requests in %d slots of which %d are free", live, len(s.requests.slots), len(s.requests.free))
	case c.Submitted != uint64(live)+c.Ended():
		return fmt.Errorf("S1: submitted %d, live %d, ended %d", c.Submitted, live, c.Ended())
	}
	return nil
}

func (s *Scheduler) checkChoices(r *request) error {
	live, slots, want := 0, 0, 0
	for k := range r.choices {
		c := &r.choices[k]
		if !c.ended {
			live++
			if k < r.next {
				want++
			}
		}
		if c.seq == nil {
			continue
		}
		slots += c.seq.slots
		if c.ended || k >= r.next || c.seq.req != r || c.seq.choice != k {
			return fmt.Errorf("S2: choice %d of request %v has the sequence of another, has ended or waits", k, r.id)
		}
	}
	if live != r.live || slots != want {
		return fmt.Errorf("S2: request %v has %d live choices (counted %d) with %d slots, want %d", r.id, live, r.live, slots, want)
	}
	if r.started && (want < live) != slices.Contains(s.requests.partial, r) {
		return fmt.Errorf("S2: %d of %d choices of request %v have slots, listed as waiting: %v", want, live, r.id, slices.Contains(s.requests.partial, r))
	}
	return nil
}

func (s *Scheduler) checkSequences() error {
	slots := 0
	for _, q := range s.sequences.running {
		slots += q.slots
		if err := s.checkSequence(q); err != nil {
			return err
		}
		if q.table.Grown() < q.computed+q.rows || q.table.Tokens() != q.computed {
			return fmt.Errorf("S4: sequence %v/%d was grown to %d rows and has %d final rows, computed %d, planned %d",
				q.req.id, q.choice, q.table.Grown(), q.table.Tokens(), q.computed, q.rows)
		}
	}
	for _, q := range s.sequences.preempted {
		if err := s.checkSequence(q); err != nil {
			return err
		}
		if q.table.Capacity() > 0 || q.rows > 0 || q.computed > 0 {
			return fmt.Errorf("S4: preempted sequence %v/%d holds blocks or rows", q.req.id, q.choice)
		}
	}
	for _, q := range s.sequences.paused {
		if err := s.checkSequence(q); err != nil {
			return err
		}
		if q.rows > 0 || q.slots > 1 || q.table.Tokens() != q.computed {
			return fmt.Errorf("S4: paused sequence %v/%d has rows or slots", q.req.id, q.choice)
		}
	}
	if slots != s.shares.taken || slots > s.cfg.MaxSeqs {
		return fmt.Errorf("S3: %d slots taken, counted %d, limit %d", slots, s.shares.taken, s.cfg.MaxSeqs)
	}
	strictly := func(a, b *sequence) bool { return compare(a, b) < 0 }
	for _, list := range [][]*sequence{s.sequences.running, s.sequences.paused, s.sequences.preempted} {
		for i := 1; i < len(list); i++ {
			if !strictly(list[i-1], list[i]) {
				return fmt.Errorf("S11: sequences %v and %v are out of order", list[i-1].req.id, list[i].req.id)
			}
		}
	}
	return nil
}

func (s *Scheduler) checkSequence(q *sequence) error {
	r := q.req
	switch {
	case r == nil || r.live == 0 || !r.started || r.choices[q.choice].seq != q:
		return errors.New("S2: a sequence is not a live choice of its request")
	case q.pending() < 1 || q.produced != len(q.ids)-len(r.Prompt):
		return fmt.Errorf("S4: sequence %v/%d: %d ids, %d computed, %d produced", r.id, q.choice, len(q.ids), q.computed, q.produced)
	case r.limit > 0 && q.produced >= r.limit:
		return fmt.Errorf("S2: sequence %v/%d runs on after %d of %d tokens", r.id, q.choice, q.produced, r.limit)
	case q.slots < 1 || q.forks() && q.produced > 0:
		return fmt.Errorf("S3: sequence %v/%d has %d slots for %d choices", r.id, q.choice, q.slots, r.live)
	}
	return nil
}

// checkShares recounts what tenants have.
func (s *Scheduler) checkShares() error {
	type counts struct{ live, slots int }
	recount := map[*tenantShare]counts{}
	for _, r := range s.requests.slots {
		if r.live > 0 {
			n := recount[r.share]
			n.live++
			recount[r.share] = n
		}
	}
	for _, q := range s.sequences.running {
		n := recount[q.req.share]
		n.slots += q.slots
		recount[q.req.share] = n
	}
	active := 0
	for c, list := range s.shares.active {
		weight, slots := 0, 0
		for i, p := range list {
			if p.index != i || s.shares.byKey[p.key] != p || int(p.key.class) != c || recount[p] != (counts{p.live, p.slots}) {
				return fmt.Errorf("S6: tenant %q of class %d has %d live requests and %d slots, counted %+v", p.key.tenant, c, p.live, p.slots, recount[p])
			}
			weight += p.weight
			slots += p.slots
		}
		if weight != s.shares.weight[c] || slots != s.shares.slots[c] {
			return fmt.Errorf("S6: class %d has weight %d and %d slots, counted %d and %d", c, s.shares.weight[c], s.shares.slots[c], weight, slots)
		}
		active += len(list)
	}
	if active != len(recount) || active != len(s.shares.byKey) {
		return fmt.Errorf("S6: %d tenants are active, %d by name, %d have requests", active, len(s.shares.byKey), len(recount))
	}
	return nil
}

func (s *Scheduler) checkStep() error {
	rows, ended := 0, 0
	for i, q := range s.step.seqs {
		rows += q.rows
		if q.ended {
			ended++
		} else if !slices.Contains(s.sequences.running, q) || q.chunk != i || q.rows < 1 {
			return fmt.Errorf("S3: chunk %d is of a sequence that does not run it", i)
		}
	}
	if rows > s.cfg.MaxBatchTokens {
		return fmt.Errorf("S3: %d rows planned, limit %d", rows, s.cfg.MaxBatchTokens)
	}
	if n := len(s.forecast.growth); !s.forecast.stale && n > s.cfg.MaxSeqs+len(s.sequences.paused) {
		return fmt.Errorf("S3: growth is expected of %d choices, limit %d", n, s.cfg.MaxSeqs+len(s.sequences.paused))
	}
	if n := s.pool.Stats().Tables; n != len(s.sequences.running)+len(s.sequences.paused)+ended {
		return fmt.Errorf("S4: %d tables live for %d running, %d paused and %d ending sequences", n, len(s.sequences.running), len(s.sequences.paused), ended)
	}
	return nil
}
