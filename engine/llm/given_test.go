package llm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/internal/inference"
	"weir/scheduler"
)

// measuring is a request for how likely texts are behind a prompt.
func measuring(prompt []int32, given ...[]int32) *inference.Request {
	r := greedy(prompt, 0)
	r.Given, r.N = given, len(given)
	for _, ids := range given {
		r.MaxTokens = max(r.MaxTokens, len(ids))
	}
	return r
}

// options are texts of 1 to n tokens, one of which begins the next.
func options(n int) (given [][]int32) {
	all := prompt(77, n)
	for i := range n {
		given = append(given, all[:i+1], prompt(uint64(200+i), i+1))
	}
	return given
}

// logprobsOf are those of an answer's tokens, by choice.
func logprobsOf(a answer) map[int][]float32 {
	list := map[int][]float32{}
	for _, e := range a.events {
		if e.Kind == inference.EventToken {
			list[e.Choice] = append(list[e.Choice], e.Logprob)
		}
	}
	return list
}

// Whatever the cache rounds, what measures keeps float16.
func TestGivenTokensHaveTheModelsLogprobs(t *testing.T) {
	for _, o := range []Options{{}, {KVType: attend.KVQ8}, {KVType: attend.KVQ8, BlockTokens: 48}, {KVType: attend.KVQ4}} {
		t.Run(fmt.Sprint(o.KVType, o.BlockTokens), func(t *testing.T) { haveTheModelsLogprobs(t, o) })
	}
}

func haveTheModelsLogprobs(t *testing.T, o Options) {
	for _, f := range []tiny{families[0], families[3]} {
		p, given := prompt(3, 20), options(4)
		o.Scheduler, o.EndTokens = scheduler.Config{PrefillChunk: 32}, []int32{given[3][0]}
		e := start(t, f, o)
		a := ask(t, e, measuring(p, given...))
		if a.err != nil {
			t.Fatal(a.err)
		}
		m := load(t, f.file(t))
		for c, ids := range given {
			if !slices.Equal(a.tokens[c], ids) || a.finish[c] != inference.FinishStop {
				t.Errorf("choice %d: %v, %v; want %v and stop", c, a.tokens[c], a.finish[c], ids)
				continue
			}
			logits := allLogits(t, m, isa.Auto, slices.Concat(p, ids), attend.KVF16, 16, len(p)+len(ids), 1)
			for i, id := range ids {
				row, sum := logits[(len(p)-1+i)*m.vocab:][:m.vocab], 0.0
				for _, l := range row {
					sum += math.Exp(float64(l))
				}
				if d := math.Abs(float64(logprobsOf(a)[c][i]) - (float64(row[id]) - math.Log(sum))); d > 1e-4 {
					t.Errorf("choice %d, token %d: logprob off by %g", c, i, d)
				}
			}
		}
		if s := e.Stats(); s.Steps != 2 || s.Scheduler.OutputTokens != 0 || s.Scheduler.DraftTokens != 0 {
			t.Errorf("%d steps, want 2: the prompt, and all options; %d output tokens, %d drafts, want none", s.Steps, s.Scheduler.OutputTokens, s.Scheduler.DraftTokens)
		}
	}
}

// The values are the same bits whatever is computed beside a question, in which chunks and in what room, and whether its prompt is cached.
func TestGivenTokensDoNotDependOnHowTheEngineIsRun(t *testing.T) {
	shared, f := prompt(9, 45), families[1]
	requests := func() (list []*inference.Request) {
		for i := range 8 {
			list = append(list, measuring(slices.Concat(shared, prompt(uint64(i), 2+3*i)), options(1+i%5)...))
		}
		return append(list, greedy(shared, 30), greedy(prompt(5, 60), 30))
	}
	var want []map[int][]float32
	alone := start(t, f, Options{KVBlocks: 100})
	for _, r := range requests() {
		want = append(want, logprobsOf(ask(t, alone, r)))
	}
	preempted := false
	for _, o := range []Options{
		{BlockTokens: 16},
		{BlockTokens: 64, KVBlocks: 40},
		{BlockTokens: 16, Scheduler: scheduler.Config{PrefillChunk: 16, MaxDrafts: 3}},
		{BlockTokens: 48, Threads: 5, Scheduler: scheduler.Config{MaxBatchTokens: 17, MaxSeqs: 9}},
		{BlockTokens: 16, KVBlocks: 12, MaxModelLen: 160, Scheduler: scheduler.Config{OutputEstimate: 1, WatermarkBlocks: -1}},
		{BlockTokens: 16, KVType: attend.KVQ8},
		{BlockTokens: 48, KVType: attend.KVQ8, Threads: 3, Scheduler: scheduler.Config{PrefillChunk: 16}},
		{BlockTokens: 16, KVType: attend.KVQ8, KVBlocks: 22, MaxModelLen: 160, Scheduler: scheduler.Config{OutputEstimate: 1, WatermarkBlocks: -1}},
		{BlockTokens: 32, KVType: attend.KVQ4, KVBlocks: 60},
	} {
		t.Run(fmt.Sprintf("cache=%v,block=%d,chunk=%d,blocks=%d", o.KVType, o.BlockTokens, o.Scheduler.PrefillChunk, o.KVBlocks), func(t *testing.T) {
			e := start(t, f, o)
			for round := range 2 { // the second finds its prefixes cached
				streams, err := e.SubmitAll(requests())
				if err != nil {
					t.Fatal(err)
				}
				got := make([]answer, len(streams))
				var wg sync.WaitGroup
				for i, s := range streams {
					wg.Go(func() { got[i] = read(t, s) })
				}
				wg.Wait()
				for i := range got {
					for c, logs := range want[i] {
						if !slices.Equal(logprobsOf(got[i])[c], logs) {
							t.Errorf("round %d, request %d, choice %d (%v): %v, want %v", round, i, c, got[i].err, logprobsOf(got[i])[c], logs)
						}
					}
				}
			}
			preempted = preempted || e.Stats().Scheduler.Preemptions > 0
		})
	}
	if !preempted {
		t.Error("no run preempted; make the smallest pool smaller")
	}
}

// The questions of a call have one beginning, which is computed once.
func TestQuestionsOfACallShareTheirBeginning(t *testing.T) {
	shared := prompt(9, 45)
	e := start(t, families[1], Options{BlockTokens: 16})
	var requests []*inference.Request
	rows := len(shared)
	for i := range 12 {
		tail := append([]int32{int32(i)}, prompt(uint64(300+i), 19)...) // no two begin alike
		requests = append(requests, measuring(slices.Concat(shared, tail), []int32{1, 2}, []int32{3, 2}))
		rows += len(tail) + 2
	}
	streams, err := e.SubmitAll(requests)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range streams {
		if a := read(t, s); a.err != nil {
			t.Fatal(a.err)
		}
	}
	if got := e.Stats().Scheduler.Rows; got != uint64(rows) {
		t.Errorf("%d rows were computed, want %d", got, rows)
	}
}

func TestGivenTokensAreRefused(t *testing.T) {
	e := start(t, families[0], Options{})
	for name, edit := range map[string]func(*inference.Request){
		"outside of the vocabulary": func(r *inference.Request) { r.Given[1] = []int32{tinyVocab} },
		"of too few choices":        func(r *inference.Request) { r.N = 3 },
		"none of a choice":          func(r *inference.Request) { r.Given[0] = nil },
		"more than max_tokens":      func(r *inference.Request) { r.MaxTokens = 1 },
		"and the prompt's":          func(r *inference.Request) { r.PromptLogprobs = 0 },
	} {
		r := measuring(prompt(1, 5), []int32{1, 2}, []int32{3})
		edit(r)
		if _, err := e.Submit(r); !errors.Is(err, inference.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCancelledQuestionsLeaveNothing(t *testing.T) {
	e := start(t, families[0], Options{})
	var streams []*inference.Stream
	for i := range 6 {
		s, err := e.Submit(measuring(prompt(uint64(i), 60), options(6)...))
		if err != nil {
			t.Fatal(err)
		}
		if streams = append(streams, s); i%2 == 0 {
			s.Cancel(-1)
		} else {
			s.Cancel(i)
		}
	}
	for _, s := range streams {
		read(t, s)
	}
	await(t, "all blocks are free", func() bool { return e.Stats().Cache.Referenced == 0 })
}
