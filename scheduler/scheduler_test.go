package scheduler

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
	"weir/scheduler/admission"
)

func TestConfigRefusesContradictions(t *testing.T) {
	pool, err := kvcache.New(kvcache.Config{Blocks: 8})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"no context", Config{}, "MaxModelLen"},
		{"negative", Config{MaxModelLen: 8, PreemptLimit: -1}, "PreemptLimit"},
		{"budget below slots", Config{MaxModelLen: 8, MaxSeqs: 8, MaxBatchTokens: 4}, "MaxBatchTokens"},
		{"pace", Config{MaxModelLen: 8, ITLTarget: -1}, "ITLTarget"},
		{"lookup", Config{MaxModelLen: 8, LookupMax: 2, LookupMin: 3}, "LookupMin"},
		{"share", Config{MaxModelLen: 8, SharePercent: [inference.NumClasses]int{0, 101, 0}}, "share"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := New(tc.cfg, pool); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v does not name %s", err, tc.want)
			}
		})
	}
	if _, err := New(Config{MaxModelLen: 8}, nil); err == nil {
		t.Error("a scheduler without a pool")
	}
}

func TestConfigDefaults(t *testing.T) {
	got, err := Config{MaxModelLen: 100, MaxSeqs: 600}.complete(emptyPool(t, 1000))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		MaxSeqs: 600, MaxBatchTokens: 600, MaxModelLen: 100, PrefillChunk: 600, MaxPrefills: 2, MaxWaiting: 1024,
		OvertakeLimit: 64, PreemptLimit: 3, MinRunTokens: 8, WatermarkBlocks: 10,
		SharePercent: [inference.NumClasses]int{0, 10, 5}, LookupMax: 4, LookupMin: 2, StepLimit: time.Second, RowPanel: 4,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestCheckRefusesWhatCanNeverBeServed(t *testing.T) {
	w := newWorld(t, Config{MaxSeqs: 4, MaxModelLen: 40}, kvcache.Config{Blocks: 9, BlockTokens: 4})
	for _, tc := range []struct {
		name           string
		prompt, max, n int
		logits         LogitKind
		want           error
	}{
		{"fits", 10, 10, 1, LogitsLast, nil},
		{"fits to the last row", 32, 1, 1, LogitsLast, nil},
		{"last token needs no row", 20, 13, 1, LogitsLast, nil},
		{"one row too many", 20, 14, 1, LogitsLast, inference.ErrNeverFits},
		{"prompt larger than the pool", 33, 1, 1, LogitsLast, inference.ErrNeverFits},
		{"choices share turns", 20, 13, 4, LogitsLast, nil},
		{"more choices than slots", 1, 1, 5, LogitsLast, nil},
		{"too many choices", 1, 1, MaxChoices + 1, LogitsLast, inference.ErrInvalid},
		{"above the context", 30, 11, 1, LogitsLast, inference.ErrContextLength},
		{"overflow", 30, math.MaxInt, 1, LogitsLast, inference.ErrContextLength},
		{"empty prompt", 0, 1, 1, LogitsLast, inference.ErrInvalid},
		{"negative output", 1, -1, 1, LogitsLast, inference.ErrInvalid},
		{"negative choices", 1, 1, -1, LogitsLast, inference.ErrInvalid},
		{"nothing asked", 8, 0, 1, LogitsLast, inference.ErrInvalid},
		{"no output", 8, 0, 1, LogitsAll, nil},
		{"blocks alone", 8, 0, 1, LogitsNone, nil},
		{"blocks and an output", 8, 1, 1, LogitsNone, inference.ErrInvalid},
		{"blocks for two choices", 8, 0, 2, LogitsNone, inference.ErrInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := w.sched.Check(&Request{Prompt: make([]int32, tc.prompt), MaxTokens: tc.max, N: tc.n, Logits: tc.logits}); !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestSubmitRefusesWhatHasNoMeaning(t *testing.T) {
	for _, tc := range []struct {
		name string
		req  Request
		want error
	}{
		{"nothing asked for", Request{Prompt: []int32{1}}, inference.ErrInvalid},
		{"logit kind", Request{Prompt: []int32{1}, MaxTokens: 1, Logits: 9}, inference.ErrInvalid},
		{"class", Request{Prompt: []int32{1}, MaxTokens: 1, Class: 7}, inference.ErrInvalid},
		{"first token late", Request{Prompt: []int32{1}, MaxTokens: 1, FirstTokenBy: 5, WaitUntil: 4}, inference.ErrDeadline},
		{"answer late", Request{Prompt: []int32{1}, MaxTokens: 1, FirstTokenBy: 11, DoneBy: 10}, inference.ErrDeadline},
		{"waited", Request{Prompt: []int32{1}, MaxTokens: 1, FirstTokenBy: 11, WaitUntil: 5}, inference.ErrQueueTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, Config{MaxModelLen: 40}, kvcache.Config{Blocks: 9, BlockTokens: 4})
			w.now = 10
			if _, err := w.submit("a", tc.req); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if st := w.sched.Stats(); st.Refused != 1 || st.Submitted != 0 || st.Live != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestStaleIDsNameNoOne(t *testing.T) {
	w := newWorld(t, Config{MaxModelLen: 40}, kvcache.Config{Blocks: 9, BlockTokens: 4})
	r := Request{Prompt: []int32{1, 2}, MaxTokens: 2, Domain: w.pool.Domain("a")}
	first, err := w.submit("first", r)
	if err != nil {
		t.Fatal(err)
	}
	w.cancel(first, -1)
	second, err := w.submit("second", r)
	if err != nil {
		t.Fatal(err)
	}
	if first.id.Index() != second.id.Index() || first.id == second.id || first.id.String() == second.id.String() {
		t.Errorf("ids %v and %v: want one slot, two generations", first.id, second.id)
	}
	if _, ok := w.sched.Progress(first.id); ok || w.sched.Cancel(0, first.id, -1) || w.sched.Cancel(0, 0, -1) {
		t.Error("a stale id was taken for a live request")
	}
	if _, ok := w.sched.Progress(second.id); !ok {
		t.Error("the live request is not known")
	}
}

func TestCommitSurvivesMissingResults(t *testing.T) {
	for name, results := range map[string][]Result{
		"none":         nil,
		"no tokens":    {{}},
		"too few of n": {{Tokens: []int32{1}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{MaxModelLen: 40}, kvcache.Config{Blocks: 9, BlockTokens: 4})
			j, err := w.submit("a", Request{Prompt: []int32{1, 2}, MaxTokens: 2, N: 2, Domain: w.pool.Domain("a")})
			if err != nil {
				t.Fatal(err)
			}
			w.begin()
			w.out = false
			ends := w.sched.Commit(0, results)
			w.check()
			w.takeEnds(ends)
			if !errors.Is(j.err, inference.ErrInternal) || !j.done {
				t.Errorf("ends %+v", ends)
			}
			if ends := w.sched.Commit(0, results); len(ends) != 0 {
				t.Errorf("a commit without a plan ended %+v", ends)
			}
		})
	}
}

func TestPlanWaitsForCommit(t *testing.T) {
	w := newWorld(t, Config{MaxModelLen: 40}, kvcache.Config{Blocks: 9, BlockTokens: 4})
	if _, err := w.submit("a", Request{Prompt: []int32{1, 2}, MaxTokens: 2, Domain: w.pool.Domain("a")}); err != nil {
		t.Fatal(err)
	}
	w.begin()
	var second Plan
	if w.sched.Plan(0, &second) {
		t.Error("a second plan was made while the first was out")
	}
	w.commit()
	w.drain(10)
}

func TestProgressOfAPrompt(t *testing.T) {
	w := newWorld(t, Config{MaxSeqs: 1, MaxBatchTokens: 4, MaxModelLen: 40}, kvcache.Config{Blocks: 33, BlockTokens: 4})
	r := Request{Prompt: []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, MaxTokens: 2, Domain: w.pool.Domain("a")}
	a, _ := w.submit("a", r)
	b, _ := w.submit("b", r)
	want := func(j *job, p inference.Progress) {
		t.Helper()
		if got, ok := w.sched.Progress(j.id); !ok || got != p {
			t.Errorf("%s: %+v, want %+v", j.name, got, p)
		}
	}
	want(a, inference.Progress{})
	want(b, inference.Progress{Position: 1})
	w.step()
	want(a, inference.Progress{PrefillTokens: 4})
	want(b, inference.Progress{})
	for range 3 {
		w.step()
	}
	w.begin()
	want(b, inference.Progress{PrefillTokens: 8, CachedTokens: 8})
	w.drain(10)
}

func TestWeightsAreBounded(t *testing.T) {
	w := newWorld(t, Config{MaxModelLen: 40}, kvcache.Config{Blocks: 9, BlockTokens: 4})
	for _, weight := range []int{-5, 0, 1, admission.MaxWeight * 100} {
		if _, err := w.submit("a", Request{Prompt: []int32{1}, MaxTokens: 2, Weight: weight, Domain: w.pool.Domain("a")}); err != nil {
			t.Error(err)
		}
	}
	w.drain(20)
}
