package classic

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/engine/kernel/pool"
	"weir/internal/inference"
	"weir/scheduler/batch"
)

const (
	// turnTime is how long a turn at the pool takes, by the estimate: short beside a
	// language model's step, so that token follows token.
	turnTime = 2 * time.Millisecond
	// briefTurn is how long it takes where small batches have come beside a large one within crowdedFor: each of them waits for
	// the end of a turn. Shorter turns cost more of the time between them.
	briefTurn  = 250 * time.Microsecond
	crowdedFor = 100 * time.Millisecond
	// batchTime is how long the requests of a batch may take together, by the
	// estimate: each of them waits for all.
	batchTime = 4 * time.Millisecond
	// maxJobs is how many batches take turns with one another, so that a small request
	// does not wait for the end of a large one.
	maxJobs = 4
)

// batcher computes batches in turns at the compute pool, on its workers. The pool's lead
// goroutine calls step, at one turn each.
type batcher struct {
	l      *Lane
	member *pool.Member

	mu     sync.Mutex
	queue  *batch.Queue
	live   map[*task]struct{} // waiting or computed
	timer  *time.Timer        // for batches that wait for more rows
	closed bool

	large   atomic.Bool  // a batch that needs more than one turn has begun
	crowded atomic.Int64 // when a small one came beside it, in Unix nanoseconds

	// These belong to step alone.
	jobs   []*job // that were begun; the first has the next turn
	jumper *job   // that batch, until another one has had a turn after it; nil: none
	taken  []batch.TakenRequest
}

func (s *batcher) init(l *Lane) {
	s.l, s.live = l, make(map[*task]struct{})
	s.member = l.opts.Pool.Join(l.opts.PoolWeight)
	s.timer = time.AfterFunc(time.Hour, s.member.Ready)
	s.timer.Stop()
	s.member.DriveBriefly(s.step)
}

func (s *batcher) close() {
	s.timer.Stop()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
}

// do returns when the task has its answer, or with the reason why it has none.
func (s *batcher) do(ctx context.Context, t *task, w batch.Work) error {
	if t.v.Batches() {
		w.MaxRows = max(min(t.v.opts.MaxBatch, t.v.rowsWithin(batchTime*time.Duration(s.member.Workers()))), 1)
	}
	t.wake = make(chan signal, 2)
	now := time.Now().UnixNano()
	s.mu.Lock()
	ticket, err := s.queue.Offer(now, w)
	s.dropped(now)
	if err == nil {
		t.ticket = ticket
		s.live[t] = struct{}{}
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.member.Ready()
	return s.wait(ctx, t, w)
}

// wait returns when the task is done, its context ends, or one of its times has come.
func (s *batcher) wait(ctx context.Context, t *task, w batch.Work) error {
	until := w.WaitUntil
	if w.DoneBy != 0 {
		until = min(until, w.DoneBy)
	}
	timer := time.NewTimer(time.Until(time.Unix(0, until)))
	defer timer.Stop()
	for {
		select {
		case <-t.wake:
			return t.err
		case <-ctx.Done():
			s.leave(t)
			return ended(ctx)
		case <-timer.C:
			late := w.DoneBy != 0 && time.Now().UnixNano() >= w.DoneBy
			switch {
			case late:
				s.leave(t)
				return notServed(inference.ErrDeadline)
			case !s.begun(t):
				s.leave(t)
				return notServed(inference.ErrQueueTimeout)
			case w.DoneBy != 0:
				timer.Reset(time.Until(time.Unix(0, w.DoneBy))) // it did not wait too long, but may still end too late
			}
		}
	}
}

func (s *batcher) begun(t *task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.begun
}

// leave ends a caller's waiting. It returns when the lane reads none of the caller's
// memory any more, which takes no longer than a copy.
func (s *batcher) leave(t *task) {
	s.mu.Lock()
	t.gone = true
	if s.queue.Remove(time.Now().UnixNano(), t.ticket) {
		delete(s.live, t)
		s.mu.Unlock()
		return
	}
	copying := t.begun && !t.gathered
	s.mu.Unlock()
	if copying {
		<-t.wake
	}
}

// dropped tells those that have left the line without service. The caller holds mu.
func (s *batcher) dropped(now int64) {
	for user, why, ok := s.queue.Dropped(now); ok; user, why, ok = s.queue.Dropped(now) {
		t := user.(*task)
		delete(s.live, t)
		t.err = notServed(why)
		t.wake <- done
	}
}

// step is one turn: it begins a batch, if one waits, and computes a part of the batch
// whose turn it is. It reports whether there is more to do.
func (s *batcher) step() (more bool) {
	defer func() {
		if caught := recover(); caught != nil { // a bug of the lane's: models' panics are caught where they are called
			s.l.fault(&Fault{Value: caught, Stack: debug.Stack()})
			more = len(s.jobs) > 0
		}
		s.large.Store(slices.ContainsFunc(s.jobs, s.isLarge))
	}()
	if len(s.jobs) < maxJobs {
		if j := s.open(); j != nil {
			s.begin(j)
		}
	}
	s.large.Store(slices.ContainsFunc(s.jobs, s.isLarge))
	if len(s.jobs) > 0 {
		j := s.take()
		s.jobs = append(s.jobs, s.turn(j)...)
	}
	return len(s.jobs) > 0 || s.waits()
}

// begin puts a batch among those that take turns. A small one does not wait for the turns of a large one, which needs more than one,
// unless another one has just gone before it.
func (s *batcher) begin(j *job) {
	if j.rest() <= briefTurn*time.Duration(s.member.Workers()) && slices.ContainsFunc(s.jobs, s.isLarge) {
		s.crowd()
		if s.jumper == nil {
			s.jobs, s.jumper = slices.Insert(s.jobs, 0, j), j
			return
		}
	}
	s.jobs = append(s.jobs, j)
}

// isLarge reports whether a batch needs more than one turn.
func (s *batcher) isLarge(j *job) bool { return j.rest() > turnTime*time.Duration(s.member.Workers()) }

// engaged reports whether a small request would wait for a large batch of the lane, and no other member wants the pool: members that share it
// with other engines has a turn for its share of the time.
func (s *batcher) engaged() bool { return s.large.Load() && s.member.Only() }

// crowd makes turns short for a while.
func (s *batcher) crowd() { s.crowded.Store(time.Now().UnixNano()) }

// workers is how many compute a turn: a core on which a request is computed beside is left to it, since the system would have both
// wait for one another there.
func (s *batcher) workers() int { return max(1, s.member.Workers()-s.l.beside.computing()) }

// take is the batch whose turn it is.
func (s *batcher) take() *job {
	j := s.jobs[0]
	if j != s.jumper {
		s.jumper = nil
	}
	s.jobs = append(s.jobs[:0], s.jobs[1:]...)
	return j
}

// length is how long a turn may take.
func (s *batcher) length() time.Duration {
	if time.Now().UnixNano()-s.crowded.Load() < int64(crowdedFor) {
		return briefTurn
	}
	return turnTime
}

// waits reports whether a batch may begin now; where one may later, the timer asks for
// another step.
func (s *batcher) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue.Len() == 0 {
		return false
	}
	wake, now := s.queue.Wake(), time.Now().UnixNano()
	if wake > now {
		s.timer.Reset(time.Duration(wake - now))
	}
	return wake <= now
}

// open begins the batch that is first in line; nil where none may begin.
func (s *batcher) open() *job {
	tasks := s.next(time.Now())
	if len(tasks) == 0 {
		return nil
	}
	j := &job{v: tasks[0].v, tasks: tasks, rows: rowsOf(tasks), in: tasks[0].in}
	if len(tasks) > 1 || !tasks[0].own {
		j.in = joinInputs(tasks)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		t.gathered, t.in = true, nil
		if t.gone {
			t.wake <- copied
		}
	}
	return j
}

// next takes the tasks of the next batch out of the line.
func (s *batcher) next(now time.Time) []*task {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped(now.UnixNano())
	s.taken = s.queue.Next(now.UnixNano(), s.taken[:0])
	tasks := make([]*task, len(s.taken))
	for i := range s.taken {
		t := s.taken[i].User.(*task)
		t.taken, t.begun, t.waited, tasks[i] = s.taken[i], true, now.Sub(t.since), t
	}
	clear(s.taken)
	return tasks
}

// turn computes a part of a batch and returns what is left of it: the batch, nothing, or
// each of its requests by itself where the batch failed.
func (s *batcher) turn(j *job) (left []*job) {
	if s.abandoned(j) {
		s.release(j)
		return nil
	}
	j.plan(s.workers(), s.length())
	s.member.Run(j, len(j.errs), 1)
	j.collect()
	switch {
	case j.err != nil && len(j.tasks) > 1:
		return j.split()
	case j.err == nil && j.at < j.rows:
		return []*job{j}
	}
	j.answer()
	s.l.fault(j.err)
	s.release(j)
	return nil
}

// abandoned reports whether no caller waits for the batch any more.
func (s *batcher) abandoned(j *job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(j.tasks, func(t *task) bool { return !t.gone })
}

// release ends the tasks of a batch.
func (s *batcher) release(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range j.tasks {
		s.queue.Settle(&t.taken, s.l.charge(j.took*time.Duration(t.rows)/time.Duration(j.rows)))
		delete(s.live, t)
		t.wake <- done
	}
}
