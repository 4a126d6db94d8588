package llm

import (
	"slices"
	"testing"

	"weir/internal/inference"
	"weir/scheduler"
)

// phases are those of a life, one behind the other.
func phases(l inference.Lived) (list []inference.Phase) {
	for _, m := range l.Moments {
		if n := len(list); n == 0 || list[n-1] != m.Phase {
			list = append(list, m.Phase)
		}
	}
	return list
}

// A request tells what it waited for, and since when it did what; so does one that still waits.
func TestRequestsTellTheirLife(t *testing.T) {
	reached, goOn := make(chan struct{}), make(chan struct{})
	steps := 0
	e := start(t, families[0], Options{Scheduler: scheduler.Config{MaxSeqs: 1}, OnStep: func(StepStats) {
		if steps++; steps == 3 {
			close(reached)
			<-goOn
		}
	}})
	first := greedy([]int32{1, 2, 3}, 100)
	first.IgnoreEOS = true
	running, err := e.Submit(first)
	if err != nil {
		t.Fatal(err)
	}
	<-reached
	second := greedy([]int32{4, 5, 6}, 3)
	second.ID = "second"
	waiting, err := e.Submit(second)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan inference.Lived)
	go func() {
		defer close(asked)
		states, err := e.Requests(t.Context())
		if at := slices.IndexFunc(states, func(s RequestState) bool { return s.ID == "second" }); err == nil && at >= 0 {
			asked <- states[at].Life.Lived()
		}
	}()
	await(t, "submit and question are in the inbox", func() bool {
		e.inbox.mu.Lock()
		defer e.inbox.mu.Unlock()
		return len(e.inbox.list) == 2
	})
	close(goOn)
	early := <-asked
	// What it did since the question was answered may be there, too.
	if len(early.Moments) == 0 || early.Moments[0].Phase != inference.PhaseWaiting || early.Moments[0].Cause != inference.CauseSlots {
		t.Errorf("while it waited it had %+v", early.Moments)
	}
	read(t, running)
	read(t, waiting)
	lived := waiting.Lived()
	if got, want := phases(lived), []inference.Phase{inference.PhaseWaiting, inference.PhasePrefill, inference.PhaseDecode}; !slices.Equal(got, want) {
		t.Errorf("it did %v, want %v", got, want)
	}
	if !slices.IsSortedFunc(lived.Moments, func(a, b inference.Moment) int { return int(a.At - b.At) }) {
		t.Errorf("its moments are not in order: %+v", lived.Moments)
	}
}

// A request that gives its blocks to an older one says so, and that it went on.
func TestPreemptedRequestsSayWhy(t *testing.T) {
	e := start(t, families[0], Options{BlockTokens: 16, KVBlocks: 17, MaxModelLen: 160, Scheduler: scheduler.Config{OutputEstimate: 1}})
	var all []*inference.Request
	for i := range 3 {
		r := greedy([]int32{1, 2, 3, int32(4 + i)}, 120) //nolint:gosec // 0 to 2
		r.IgnoreEOS = true
		all = append(all, r)
	}
	streams, err := e.SubmitAll(all)
	if err != nil {
		t.Fatal(err)
	}
	var why []inference.Gave
	for _, s := range streams {
		read(t, s)
		lived := s.Lived()
		for i, m := range lived.Moments {
			if m.Phase != inference.PhasePreempted {
				continue
			}
			why = append(why, m.Gave)
			if m.Cause != inference.CauseBlocks || i+1 == len(lived.Moments) {
				t.Errorf("moment %d of %+v", i, lived.Moments)
			}
		}
	}
	if e.Stats().Scheduler.Preemptions == 0 || len(why) == 0 || slices.Contains(why, inference.GaveNothing) {
		t.Errorf("%d preemptions, for %v", e.Stats().Scheduler.Preemptions, why)
	}
}
