package llm

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"weir/internal/inference"
	"weir/internal/reference"
	"weir/scheduler"
)

// repetitive is a prompt for which draft tokens are easy to find.
func repetitive(seed uint64, n int) []int32 {
	return slices.Repeat(prompt(seed, 7), n/7+1)[:n]
}

// story is what a stream told of each choice, to the last bit.
func story(a answer) string {
	var s string
	for c := range len(a.tokens) {
		for _, e := range a.events {
			if e.Choice == c && (e.Kind == inference.EventToken || e.Kind == inference.EventFinish) {
				s += fmt.Sprintf("%d:%d %x %v %v\n", c, e.Token, e.Logprob, e.Top, e.Finish)
			}
		}
	}
	return s + fmt.Sprint(a.err)
}

// speculative requests: greedy and drawn, with everything that changes what
// the sampler yields.
func speculative() []func() *inference.Request {
	edits := []func(r *inference.Request){
		func(*inference.Request) {},
		func(r *inference.Request) { r.Sampling.Logprobs = 3 },
		func(r *inference.Request) { r.Sampling.RepetitionPenalty = 1.3 },
		func(r *inference.Request) { r.Sampling.PresencePenalty, r.Sampling.FrequencyPenalty = 0.5, 0.4 },
		func(r *inference.Request) { r.Sampling.LogitBias = []inference.TokenBias{{ID: 3, Bias: 5}} },
		func(r *inference.Request) { r.MinTokens = 20 },
		func(r *inference.Request) { r.Sampling.AllowedTokens = []int32{2, 5, 7, 8, 9} },
		func(r *inference.Request) {
			r.Sampling.AllowedTokens, r.Sampling.BadWords = []int32{2, 5, 7, 8, 30}, [][]int32{{2}, {5, 7}, {7, 5}, {8, 8, 8}, {30, 30}}
		},
		func(r *inference.Request) { r.StopTokens = []int32{1, 2, 3, 4, 5, 6} },
		func(r *inference.Request) { r.Sampling.Temperature, r.Sampling.Seed = 0.7, 11 },
		func(r *inference.Request) {
			r.Sampling.Temperature, r.Sampling.TopP, r.Sampling.Seed, r.N = 1.2, 0.9, 12, 3
		},
		func(r *inference.Request) { r.N = 2 },
		func(r *inference.Request) { r.PromptLogprobs = 1 },
		func(r *inference.Request) { r.MaxTokens = 1 },
	}
	var all []func() *inference.Request
	for i, edit := range edits {
		all = append(all, func() *inference.Request {
			r := greedy(repetitive(uint64(i), 20+9*i), 60)
			edit(r)
			return r
		})
	}
	return all
}

// Whether draft tokens are proposed, and how they are verified, shows in no
// answer: not in a token, not in a bit of a logprob.
func TestSpeculationChangesNoAnswer(t *testing.T) {
	reference.Slow(t)
	for _, f := range differingFamilies() {
		var want []string
		plain := start(t, f, Options{EndTokens: []int32{9}})
		for _, r := range speculative() {
			want = append(want, story(ask(t, plain, r())))
		}
		for _, o := range []Options{
			{Scheduler: scheduler.Config{MaxDrafts: 5, LookupMin: 1}},
			{Scheduler: scheduler.Config{MaxDrafts: 3, LookupMin: 1, LookupMax: 1, PrefillChunk: 7}, BlockTokens: 32, logitRows: 3},
			{Scheduler: scheduler.Config{MaxDrafts: 8, LookupMin: 1, MaxSeqs: 4, MaxBatchTokens: 24, OutputEstimate: 1}, KVBlocks: 17, BlockTokens: 16, MaxModelLen: 220, logitRows: 2, Threads: 3},
		} {
			t.Run(fmt.Sprintf("%s,drafts=%d,chunk=%d,blocks=%d", f.arch, o.Scheduler.MaxDrafts, o.Scheduler.PrefillChunk, o.KVBlocks), func(t *testing.T) {
				o.EndTokens, o.Speculate, o.Scheduler.EveryDraft = []int32{9}, true, true
				e := start(t, f, o)
				answerAs(t, e, want)
				if st := e.Stats().Scheduler; st.AcceptedTokens == 0 || st.AcceptedTokens >= st.DraftTokens {
					t.Errorf("%d of %d drafts accepted: nothing was shown", st.AcceptedTokens, st.DraftTokens)
				}
			})
		}
	}
}

// answerAs wants the answers to the speculative requests, alone and among each other.
func answerAs(t *testing.T, e *Engine, want []string) {
	t.Helper()
	for i, r := range speculative() { // alone: no other sequence makes draft tokens expensive
		if got := story(ask(t, e, r())); got != want[i] {
			t.Errorf("request %d alone:\n%s\nwant\n%s", i, got, want[i])
		}
	}
	var wg sync.WaitGroup
	got := make([]string, len(want))
	for i, r := range speculative() {
		wg.Go(func() { got[i] = story(ask(t, e, r())) })
	}
	wg.Wait()
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("request %d among others:\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
}

func TestRequestsDecideAboutSpeculation(t *testing.T) {
	for _, c := range []struct {
		server bool
		toggle inference.Toggle
		want   bool
	}{
		{false, inference.ToggleUnset, false},
		{true, inference.ToggleUnset, true},
		{false, inference.ToggleOn, true},
		{true, inference.ToggleOff, false},
	} {
		e := start(t, families[0], Options{Speculate: c.server, Scheduler: scheduler.Config{MaxDrafts: 4, LookupMin: 1, EveryDraft: true}})
		r := greedy(repetitive(1, 40), 60)
		r.Speculation = c.toggle
		ask(t, e, r)
		if n := e.Stats().Scheduler.DraftTokens; (n > 0) != c.want {
			t.Errorf("server %v, request %v: %d drafts", c.server, c.toggle, n)
		}
	}
}

// The prompt's choices are forked under their own names also when the first of
// them has been cancelled before.
func TestFirstChoiceCancelledBeforeTheFork(t *testing.T) {
	e := start(t, families[0], Options{Scheduler: scheduler.Config{PrefillChunk: 1}})
	r := greedy(prompt(10, 200), 20)
	r.N, r.Sampling.Temperature, r.Sampling.Seed = 3, 1, 5
	want := ask(t, e, r).tokens
	again := *r
	again.CacheDomain = "another" // nothing is cached: the prompt takes its 200 steps
	s, err := e.Submit(&again)
	if err != nil {
		t.Fatal(err)
	}
	s.Cancel(0)
	a := read(t, s)
	if a.err != nil {
		t.Error(a.err)
	}
	for _, c := range []int{1, 2} {
		if !slices.Equal(a.tokens[c], want[c]) {
			t.Errorf("choice %d: %v, want %v", c, a.tokens[c], want[c])
		}
	}
}
