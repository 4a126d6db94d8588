package classic

import (
	"errors"
	"fmt"
	"time"

	"weir/internal/inference"
	"weir/internal/tensor"
)

// The tasks of a batch are of one kind; their rows are computed together.

// compute computes the tasks of a batch on this goroutine: together, and one by one where that fails, so
// that the request which is the reason fails alone.
func compute(tasks []*task, begin time.Time) {
	v, rows := tasks[0].v, rowsOf(tasks)
	for _, t := range tasks {
		t.waited = begin.Sub(t.since)
	}
	if len(tasks) == 1 {
		computeAlone(tasks[0], begin)
		return
	}
	out, err := v.compute(joinInputs(tasks))
	took := time.Since(begin)
	if err == nil {
		err = checkRows(out, rows)
	}
	if err != nil {
		for _, t := range tasks {
			computeAlone(t, time.Now())
		}
		return
	}
	v.observeInline(rows, took)
	deliver(tasks, out, took)
}

func computeAlone(t *task, begin time.Time) {
	t.out, t.err = t.v.computeUntil(t.in, t.stop)
	t.computed, t.batch = time.Since(begin), t.rows
	if t.err == nil {
		t.v.observeInline(t.rows, t.computed)
	}
	t.v.count(t)
}

func rowsOf(tasks []*task) (rows int) {
	for _, t := range tasks {
		rows += t.rows
	}
	return rows
}

func joinInputs(tasks []*task) []tensor.Tensor {
	sets := make([][]tensor.Tensor, len(tasks))
	for i, t := range tasks {
		sets[i] = t.in
	}
	return join(sets)
}

// deliver gives each task its rows of the answer, and its share of the time.
func deliver(tasks []*task, out []tensor.Tensor, took time.Duration) {
	rows, from := rowsOf(tasks), 0
	for _, t := range tasks {
		t.batch, t.computed = rows, took*time.Duration(t.rows)/time.Duration(rows)
		if t.out = out; len(tasks) > 1 {
			t.out = parts(out, from, from+t.rows)
		}
		from += t.rows
	}
	tasks[0].v.count(tasks...)
}

// count adds tasks that were computed together to the statistics.
func (v *Version) count(tasks ...*task) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, now := &v.stats, time.Now()
	s.Batches++
	s.Last = now
	for _, t := range tasks {
		if t.err != nil {
			s.Failed++
			continue
		}
		s.Requests++
		s.Rows += uint64(t.rows)
		s.Waited += t.waited
		s.Computed += t.computed
	}
}

// failed counts a request that the model's description refuses.
func (v *Version) failed() {
	v.mu.Lock()
	v.stats.Failed++
	v.mu.Unlock()
}

// notServed is the error of a request that left its line without service.
func notServed(why error) error {
	if errors.Is(why, inference.ErrShed) {
		return fmt.Errorf("%w: try again later", why)
	}
	return fmt.Errorf("%w: while the prediction waited", why)
}
