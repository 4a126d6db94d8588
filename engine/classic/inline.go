package classic

import (
	"context"
	"sync"
	"time"

	"weir/scheduler/batch"
)

// inlineBatch is how long the requests may take, by the estimate, that one waiting caller
// computes together: little beside what a connection costs.
const inlineBatch = 100 * time.Microsecond

// inline computes requests on their callers' goroutines, as many at once as there are
// cores. Who finds all cores taken waits in line. A task that is done hands its core to the
// first in line, who computes what waits of its kind beside it: so batches form
// where requests come faster than they are computed, and nowhere else.
//
// The lane has a second one for models whose time is not known: they take few of the cores,
// and neither those of small requests nor the pool's.
type inline struct {
	l *Lane

	mu      sync.Mutex
	cores   int // requests that are computed at once, at most
	free    int // of cores
	queue   *batch.Queue
	waiting map[*task]struct{}   // for operators
	taken   []batch.TakenRequest // scratch
	latest  int64                // time that the queue was told
}

func (in *inline) init(l *Lane, cores int) {
	in.l, in.cores, in.free, in.waiting = l, cores, cores, make(map[*task]struct{})
}

// do returns when the task has its answer, or with the reason why it has none.
func (in *inline) do(ctx context.Context, t *task, w batch.Work) error {
	w.Delay = 0 // a delay would be longer than the work
	if taken, err := in.try(t, w); taken || err != nil {
		return err
	}
	in.mu.Lock()
	if t.v.Batches() {
		w.MaxRows = max(min(t.v.opts.MaxBatch, t.v.rowsWithin(inlineBatch)), 1)
	}
	now := in.now()
	ticket, err := in.queue.Offer(now, w)
	in.dropped(now)
	if err != nil {
		in.mu.Unlock()
		return err
	}
	t.ticket, t.wake = ticket, make(chan signal, 2)
	in.waiting[t] = struct{}{}
	if in.free > 0 { // others wait only where no core is free; the request that finds it otherwise puts it right
		in.free--
		in.pass(now)
	}
	in.mu.Unlock()
	return in.wait(ctx, t)
}

// computing is how many cores are taken.
func (in *inline) computing() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.cores - in.free
}

// try computes the task at once, if a core is free and no request waits for it; otherwise it reports false.
func (in *inline) try(t *task, w batch.Work) (done bool, err error) {
	in.mu.Lock()
	if in.free == 0 || in.queue.Len() > 0 {
		in.mu.Unlock()
		return false, nil
	}
	t.taken, err = in.queue.Begin(t.since.UnixNano(), w)
	if err != nil {
		in.mu.Unlock()
		return false, err
	}
	in.free--
	in.mu.Unlock()
	in.lead([]*task{t}, t.since)
	return true, nil
}

func (in *inline) wait(ctx context.Context, t *task) error {
	var s signal
	select {
	case s = <-t.wake:
	case <-ctx.Done():
		in.mu.Lock()
		removed := in.queue.Remove(in.now(), t.ticket)
		delete(in.waiting, t)
		in.mu.Unlock()
		if removed {
			return ended(ctx)
		}
		s = <-t.wake // its turn has come, which takes no longer than inlineBatch
	}
	if s == lead {
		in.lead(t.led, time.Now())
	}
	return t.err
}

// now is the time, never before one that the queue was told: at an earlier one, what
// waits would not be ready yet, and the core that is passed on would find no request. The
// caller holds mu.
func (in *inline) now() int64 {
	in.latest = max(in.latest, time.Now().UnixNano())
	return in.latest
}

// lead computes a batch that has a core, and passes the core on.
func (in *inline) lead(tasks []*task, now time.Time) {
	compute(tasks, now)
	for _, t := range tasks {
		in.l.fault(t.err)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	at := in.now()
	for _, t := range tasks {
		in.queue.Settle(&t.taken, in.l.charge(t.computed))
	}
	for _, t := range tasks[1:] {
		t.wake <- done
	}
	in.pass(at)
}

// pass gives a core to the first in line. The caller holds mu.
func (in *inline) pass(now int64) {
	in.dropped(now)
	in.taken = in.queue.Next(now, in.taken[:0])
	if len(in.taken) == 0 {
		in.free++
		return
	}
	tasks := make([]*task, len(in.taken))
	for i := range in.taken {
		t := in.taken[i].User.(*task)
		t.taken, t.begun, tasks[i] = in.taken[i], true, t
		delete(in.waiting, t)
	}
	clear(in.taken)
	tasks[0].led = tasks
	tasks[0].wake <- lead
}

// dropped tells those that have left the line without service. The caller holds mu.
func (in *inline) dropped(now int64) {
	for user, why, ok := in.queue.Dropped(now); ok; user, why, ok = in.queue.Dropped(now) {
		t := user.(*task)
		delete(in.waiting, t)
		t.err = notServed(why)
		t.wake <- done
	}
}
