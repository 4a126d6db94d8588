package llm

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler"
)

// Whose turn it is and how long it may wait come from the request.
func TestARequestsRankReachesTheScheduler(t *testing.T) {
	s := newStepper(t, families[0], Options{})
	r := greedy(prompt(1, 50), 3)
	r.Tenant, r.Weight, r.Class, r.CacheDomain, r.OverQuota, r.Retries = "acme", 7, inference.Batch, "shared", true, 3
	r.FirstTokenBy, r.DoneBy, r.WaitUntil = time.Unix(0, 1<<62), time.Unix(0, 1<<62+1), time.Unix(0, 1<<62+2)
	s.submit(t, r)
	j := s.inbox.list[0].job
	got := j.request(false)
	if got.Tenant != "acme" || got.Weight != 7 || got.Class != inference.Batch || !got.OverQuota || got.Retries != 3 ||
		got.FirstTokenBy != 1<<62 || got.DoneBy != 1<<62+1 || got.WaitUntil != 1<<62+2 {
		t.Errorf("%+v", got)
	}
	want := s.cache.Domain("shared").Chain(nil, r.Prompt, s.info.BlockTokens)
	if len(want) != 3 || !slices.Equal(got.Chain, want) {
		t.Errorf("chain %v, want %v", got.Chain, want)
	}
	logprobs := greedy(prompt(1, 50), 3)
	logprobs.PromptLogprobs = 0
	s.submit(t, logprobs)
	if chain := s.inbox.list[1].job.request(false).Chain; chain != nil {
		t.Errorf("hashed in vain: %v", chain)
	}
	for s.turn() {
	}
}

func TestADeadlineEndsWhatStillWaits(t *testing.T) {
	for want, set := range map[error]func(*inference.Request, time.Time){
		inference.ErrDeadline:     func(r *inference.Request, at time.Time) { r.FirstTokenBy = at },
		inference.ErrQueueTimeout: func(r *inference.Request, at time.Time) { r.WaitUntil = at },
	} {
		synctest.Test(t, func(t *testing.T) { endsWhileWaiting(t, set, want) })
	}
}

func endsWhileWaiting(t *testing.T, set func(*inference.Request, time.Time), want error) {
	t.Helper()
	s := newStepper(t, families[0], Options{Threads: 1, Scheduler: scheduler.Config{MaxSeqs: 1}}) // workers spin while time stands still
	s.submit(t, greedy(prompt(1, 9), 100))
	s.turn()
	late := greedy(prompt(2, 9), 4)
	set(late, time.Now().Add(10*time.Millisecond))
	s.submit(t, late)
	s.turn()
	time.Sleep(20 * time.Millisecond)
	s.turn()
	if _, done, err := s.streams[1].Poll(s.events[:]); !done || !errors.Is(err, want) {
		t.Errorf("done %v, %v; want %v", done, err, want)
	}
	for s.turn() {
	}
}

// A request that runs past its deadline ends with an error and as cancelled, never
// as an answer that is complete or as long as was asked for; its blocks are free.
func TestADeadlineEndsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStepper(t, families[0], Options{Threads: 1}) // workers spin while time stands still
		r := greedy(prompt(1, 9), 100)
		s.submit(t, r)
		for range 3 {
			s.turn()
		}
		late := greedy(prompt(2, 9), 100)
		late.DoneBy = time.Now().Add(10 * time.Millisecond)
		s.submit(t, late)
		s.turn()
		time.Sleep(20 * time.Millisecond)
		s.loop.iterate()
		n, done, err := s.streams[1].Poll(s.events[:])
		if !done || n == 0 || !errors.Is(err, inference.ErrDeadline) {
			t.Fatalf("%d events, done %v, %v; want %v", n, done, err, inference.ErrDeadline)
		}
		if last := s.events[n-1]; last.Kind != inference.EventFinish || last.Finish != inference.FinishCancelled {
			t.Errorf("the last event is %+v", last)
		}
		for s.turn() {
		}
		if used := s.pool.Stats().Referenced; used > 0 {
			t.Errorf("%d blocks are held", used)
		}
	})
}

// Engines that share a key name the same blocks, others do not.
func TestBlockHashesAreRootedInModelAndKey(t *testing.T) {
	root := func(m tiny, key string) kvcache.Domain {
		return start(t, m, Options{Secret: []byte(key)}).cache.Domain("tenant")
	}
	same := root(families[0], "shared key")
	if root(families[0], "shared key") != same {
		t.Error("two engines of one model and key disagree")
	}
	if root(families[0], "another key") == same || root(families[1], "shared key") == same {
		t.Error("another key or model makes no difference")
	}
}

// The requests of one call take turns as one, those of another as another.
func TestTheRequestsOfACallAreAGroup(t *testing.T) {
	s := newStepper(t, families[0], Options{})
	for _, n := range []int{2, 1, 3} {
		var call []*inference.Request
		for i := range n {
			call = append(call, greedy(prompt(uint64(i), 9), 2))
		}
		if _, err := s.SubmitAll(call); err != nil {
			t.Fatal(err)
		}
	}
	var groups []string
	for _, c := range s.inbox.list {
		groups = append(groups, c.job.request(false).Group)
	}
	a, alone, b := groups[0], groups[2], groups[3]
	if want := []string{a, a, "", b, b, b}; !slices.Equal(groups, want) || a == "" || b == "" || a == b || alone != "" {
		t.Errorf("groups %q", groups)
	}
	for s.turn() {
	}
}
