package llm

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/internal/reference"
	"weir/scheduler"
	"weir/scheduler/admission"
)

// A call's requests wait together or not at all, and every choice counts.
func TestCallsQueueAllOrNone(t *testing.T) {
	e := start(t, families[0], Options{Scheduler: scheduler.Config{MaxSeqs: 3, MaxWaiting: 6}})
	call := func(prompts, n int) []*inference.Request {
		list := make([]*inference.Request, prompts)
		for i := range list {
			list[i] = greedy([]int32{1, 2, 3}, 40)
			list[i].N = n
		}
		return list
	}
	first := call(1, 3)[0]
	first.MaxTokens, first.IgnoreEOS = 200, true
	running, err := e.Submit(first)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the first request has all seats", func() bool { return e.Load().Waiting == 0 })
	if _, err := e.SubmitAll(call(7, 1)); !errors.Is(err, inference.ErrNeverFits) {
		t.Errorf("7 prompts in a queue of 6: %v", err)
	}
	if n := e.Load().Waiting; n != 0 {
		t.Errorf("%d requests of a refused call wait", n)
	}
	streams, err := e.SubmitAll(call(4, 1))
	if err != nil || len(streams) != 4 {
		t.Fatalf("4 prompts in a queue of 6: %d streams, %v", len(streams), err)
	}
	var limit *inference.LimitError
	if _, err := e.SubmitAll(call(3, 1)); !errors.As(err, &limit) || limit.Need != 7 || limit.Limit != 6 {
		t.Errorf("3 prompts where 2 have room: %v", err)
	}
	if _, err := e.Submit(call(1, 3)[0]); !errors.As(err, &limit) || limit.Need != 7 {
		t.Errorf("3 choices where 2 have room: %v", err)
	}
	bad := call(2, 1)
	bad[1].Prompt = nil
	if _, err := e.SubmitAll(bad); !errors.Is(err, inference.ErrInvalid) {
		t.Errorf("a call with an empty prompt: %v", err)
	}
	if n := e.Load().Waiting; n != 4 {
		t.Errorf("%d requests wait, want the 4 of the call that was taken", n)
	}
	for _, s := range append(streams, running) {
		s.Cancel(-1)
	}
}

// Submit itself says that a tenant's share of the queue is taken, before a stream
// begins, also while nothing has reached the scheduler; nothing of the refused
// call waits, and others find room.
func TestSubmitRefusesWhatIsBeyondATenantsShare(t *testing.T) {
	e, err := newEngine(families[0].file(t), Options{KVBlocks: 400, Scheduler: scheduler.Config{MaxSeqs: 2, MaxWaiting: 64}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := func(tenant string, prompts int) []*inference.Request {
		list := make([]*inference.Request, prompts)
		for i := range list {
			list[i] = greedy([]int32{1, 2, 3}, 2)
			list[i].Tenant = tenant
		}
		return list
	}
	if _, err := e.SubmitAll(call("a", 32)); err != nil {
		t.Fatalf("half of the queue: %v", err)
	}
	for _, n := range []int{1, 2, 4} {
		if _, err := e.SubmitAll(call("a", n)); !errors.Is(err, inference.ErrTenantQueueFull) {
			t.Errorf("a call of %d beyond the tenant's share: %v", n, err)
		}
	}
	if _, err := e.SubmitAll(call("b", 16)); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	if n := e.Load().Waiting; n != 48 {
		t.Errorf("%d wait, want 48", n)
	}
	for range 200 {
		e.loop.readInbox()
		if !e.loop.step() {
			break
		}
	}
	if w := e.precheck.Waiting(); w != (admission.Waiting{}) || len(e.loop.live) != 0 {
		t.Errorf("after all have ended %+v wait, and %d live", w, len(e.loop.live))
	}
	if n := e.Stats().Scheduler.Refused; n != 0 {
		t.Errorf("the scheduler refused %d requests that Submit had taken", n)
	}
	e.release()
}

// In a full queue a batch request gives way to an interactive one: it ends with an
// error of its own, and the other is served.
func TestBatchGivesWayInAFullQueue(t *testing.T) {
	s := newStepper(t, families[0], Options{Scheduler: scheduler.Config{MaxSeqs: 1, MaxWaiting: 3}})
	s.submit(t, greedy(prompt(1, 9), 30))
	s.turn()
	for i := range 3 {
		r := greedy(prompt(uint64(2+i), 9), 2)
		r.Tenant, r.Class = fmt.Sprint(i), inference.Batch
		s.submit(t, r)
	}
	if _, err := s.Submit(greedy(prompt(8, 9), 2)); err != nil {
		t.Fatalf("a request of a higher class: %v", err)
	}
	last := greedy(prompt(9, 9), 2)
	last.Class = inference.Batch
	if _, err := s.Submit(last); !errors.Is(err, inference.ErrQueueFull) {
		t.Errorf("one more of the lowest class: %v", err)
	}
	for s.turn() {
	}
	for i, want := range []error{nil, nil, nil, inference.ErrShed} {
		done, err := false, error(nil)
		for !done {
			var n int
			if n, done, err = s.streams[i].Poll(s.events[:]); n == 0 && !done {
				t.Fatalf("request %d has not ended", i)
			}
		}
		if !errors.Is(err, want) {
			t.Errorf("request %d ended with %v, want %v", i, err, want)
		}
	}
	if w := s.precheck.Waiting(); w != (admission.Waiting{}) {
		t.Errorf("after all have ended %+v wait", w)
	}
	if got := s.Stats().Scheduler.Shed; got != 1 {
		t.Errorf("%d were shed, want 1", got)
	}
}

// Submit refuses a first token that is due long before the queue's turn comes, and
// says when to try again.
func TestSubmitRefusesADeadlineThatCannotBeMet(t *testing.T) {
	reference.Slow(t)
	e := start(t, families[0], Options{Scheduler: scheduler.Config{MaxSeqs: 1}})
	var streams []*inference.Stream
	fill := func() { // however fast the machine is, there is a queue
		for e.Load().Waiting < 400 {
			r := greedy(prompt(uint64(len(streams)), 9), 200)
			r.IgnoreEOS = true
			stream, err := e.Submit(r)
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, stream)
		}
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		fill()
		r := greedy(prompt(1000, 9), 2)
		r.FirstTokenBy = time.Now().Add(5 * time.Millisecond)
		_, err := e.Submit(r)
		var limit *inference.LimitError
		if errors.As(err, &limit) && errors.Is(err, inference.ErrDeadlineUnreachable) && limit.RetryAfter > 0 {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("a first token in 5 ms behind %d requests: %v", e.Load().Waiting, err)
		}
	}
	for _, s := range streams {
		s.Cancel(-1)
	}
}

// What was submitted before the first step counts as work, too: a deadline behind it is
// refused as soon as it is known how fast requests are served.
func TestRequestsBeforeTheFirstStepAreWork(t *testing.T) {
	t.Parallel()
	s := newStepper(t, families[0], Options{Scheduler: scheduler.Config{MaxSeqs: 1}})
	var streams []*inference.Stream
	for i := range 40 {
		r := greedy(prompt(uint64(i), 9), 20)
		r.IgnoreEOS = true
		stream, err := s.Submit(r)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	for s.turn() && s.Load().Waiting > 30 {
	}
	time.Sleep(600 * time.Millisecond) // the precheck believes a rate after half a second
	r := greedy(prompt(1000, 9), 2)
	r.FirstTokenBy = time.Now().Add(50 * time.Microsecond)
	if _, err := s.Submit(r); !errors.Is(err, inference.ErrDeadlineUnreachable) {
		t.Errorf("a first token in 50 µs behind %d requests: %v", s.Load().Waiting, err)
	}
	for _, stream := range streams {
		stream.Cancel(-1)
	}
}
