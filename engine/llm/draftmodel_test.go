package llm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/engine/gguf"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/scheduler"
)

// A draft model shows in no answer, whether its drafts are accepted (it is the model itself), hardly ever are, or find no room in its cache.
func TestDraftModelsChangeNoAnswer(t *testing.T) {
	reference.Slow(t)
	other := tiny{arch: "llama", typ: gguf.TypeF32, seed: 77}
	for _, f := range differingFamilies() {
		if !slices.Contains([]string{"llama", "gemma3", "qwen35"}, f.arch) {
			continue
		}
		drafts := map[string]tiny{"another": other}
		if f.hybrid == 0 {
			drafts["itself"] = f
		}
		var want []string
		plain := start(t, f, Options{EndTokens: []int32{9}})
		for _, r := range speculative() {
			want = append(want, story(ask(t, plain, r())))
		}
		for name, draft := range drafts {
			for _, o := range []Options{
				{Scheduler: scheduler.Config{MaxDrafts: 5}},
				{Scheduler: scheduler.Config{MaxDrafts: 8, MaxSeqs: 4, MaxBatchTokens: 24, OutputEstimate: 1}, KVBlocks: 17, BlockTokens: 16, MaxModelLen: 220, logitRows: 2, Threads: 3},
			} {
				t.Run(fmt.Sprintf("%s,%s,drafts=%d", f.arch, name, o.Scheduler.MaxDrafts), func(t *testing.T) {
					o.EndTokens, o.Speculate, o.Scheduler.EveryDraft = []int32{9}, true, true
					o.Scheduler.LookupMin, o.Scheduler.LookupMax = 20, 20
					o.Draft = draft.file(t)
					e := start(t, f, o)
					answerAs(t, e, want)
					st := e.Stats().Scheduler
					t.Logf("%d of %d drafts accepted", st.AcceptedTokens, st.DraftTokens)
					if st.DraftTokens == 0 || name == "itself" && 10*st.AcceptedTokens < st.DraftTokens {
						t.Errorf("%d of %d drafts accepted", st.AcceptedTokens, st.DraftTokens)
					}
				})
			}
		}
	}
}

// The next turn of a chat finds what the draft model has read of the turns before, and requests that have ended leave nothing behind.
func TestDraftModelsKeepTheirCache(t *testing.T) {
	f := families[0]
	s := newStepper(t, f, Options{Speculate: true, Draft: f.file(t), Scheduler: scheduler.Config{MaxDrafts: 3, EveryDraft: true, LookupMin: 20, LookupMax: 20}})
	turn := func(text []int32) []int32 {
		s.submit(t, greedy(text, 30))
		for s.turn() {
		}
		return text
	}
	text := prompt(5, 90)
	turn(text)
	g := s.drafts.model
	if st := g.pool.Stats(); st.Referenced != 0 || len(g.read) != 0 || st.QueryTokens == 0 || st.HitTokens != 0 {
		t.Fatalf("after a request %d texts are open, %+v", len(g.read), st)
	}
	turn(slices.Concat(text, prompt(6, 20)))
	if st := g.pool.Stats(); st.HitTokens < 80 {
		t.Errorf("the next turn found %d tokens of 90", st.HitTokens)
	}
	if err := g.pool.Check(); err != nil {
		t.Error(err)
	}
}

// Files of one family pad their vocabulary differently: a request may name tokens that the draft model has no row for, and the draft model may
// propose tokens that the model does not have.
func TestDraftModelsOfOtherVocabularySizes(t *testing.T) {
	reference.Slow(t)
	f := families[0]
	var want []string
	plain := start(t, f, Options{EndTokens: []int32{9}})
	for _, r := range speculative() {
		want = append(want, story(ask(t, plain, r())))
	}
	for _, vocab := range []int{tinyVocab - 60, tinyVocab + 60} {
		draft := f
		draft.vocab = vocab
		e := start(t, f, Options{
			EndTokens: []int32{9}, Speculate: true, Draft: draft.file(t),
			Scheduler: scheduler.Config{MaxDrafts: 4, EveryDraft: true, LookupMin: 20, LookupMax: 20},
		})
		answerAs(t, e, want)
		if s := e.Stats(); s.Panics != 0 || s.Scheduler.DraftTokens == 0 {
			t.Errorf("a draft model of %d tokens: %d panics, %d drafts", vocab, s.Panics, s.Scheduler.DraftTokens)
		}
	}
}

// A text that has not grown since the last call, as of a sequence that sat a step out, gets the same drafts, beside others and alone.
func TestDraftModelsProposeAgain(t *testing.T) {
	f := families[0]
	s := newStepper(t, f, Options{Draft: f.file(t), Scheduler: scheduler.Config{MaxDrafts: 4}})
	g := s.drafts.model
	text := func(request uint64, n int) scheduler.DraftText {
		return scheduler.DraftText{ID: scheduler.SequenceID{Request: scheduler.ID(request)}, Domain: g.cache.Domain("tenant"), IDs: prompt(request, n)}
	}
	draft := func(n int, texts ...scheduler.DraftText) (all [][]inference.TokenID) {
		g.Propose(texts, n, time.Hour)
		for _, x := range texts {
			all = append(all, slices.Clone(x.Drafts))
		}
		return all
	}
	a, b := text(1, 40), text(2, 33)
	first := draft(3, a)[0]
	if again := draft(3, a)[0]; len(first) != 3 || !slices.Equal(first, again) {
		t.Errorf("the drafts are %v, and then %v", first, again)
	}
	if again := draft(1, a)[0]; !slices.Equal(again, first[:1]) {
		t.Errorf("one draft is %v, not %v", again, first[:1])
	}
	both := draft(3, b, a)
	if alone := draft(3, b)[0]; !slices.Equal(both[1], first) || !slices.Equal(both[0], alone) {
		t.Errorf("together they are %v; one is %v alone, the other one %v", both, alone, first)
	}
	a.IDs = append(slices.Clone(a.IDs), first...)
	grown := draft(2, a)[0]
	g.Forget(a.ID)
	if fresh := draft(2, a)[0]; !slices.Equal(grown, fresh) {
		t.Errorf("of the longer text the drafts are %v, and %v when it is read from its beginning", grown, fresh)
	}
	long := text(3, g.length) // beside which the others get theirs
	if reading, proposing := g.Price([]scheduler.DraftText{b, long}, 3); reading >= never || proposing >= never {
		t.Errorf("a text beyond the context has drafts of another one cost %v and %v", reading, proposing)
	}
	if reading, _ := g.Price([]scheduler.DraftText{long}, 3); reading != never {
		t.Errorf("drafts of a text beyond the context cost %v", reading)
	}
	if got := draft(3, b, long); len(got[0]) != 3 || len(got[1]) != 0 {
		t.Errorf("beside a text beyond the context the drafts are %v", got)
	}
	if err := g.pool.Check(); err != nil {
		t.Error(err)
	}
}

func TestUnfitDraftModelsAreRefused(t *testing.T) {
	words := func(list ...string) func(b *gguf.Builder) {
		for len(list) < tinyVocab {
			list = append(list, fmt.Sprintf("w%d", len(list)))
		}
		return func(b *gguf.Builder) { b.Set("tokenizer.ggml.tokens", list) }
	}
	model := tiny{arch: "llama", typ: gguf.TypeF32, seed: 1, edit: words("a", "b")}
	for name, c := range map[string]struct {
		draft tiny
		says  string
	}{
		"other words": {tiny{arch: "llama", typ: gguf.TypeF32, seed: 2, edit: words("a", "c")}, `token 1 is "c" in the draft model and "b" in the model`},
		"states":      {hybrids()[0], "recurrent layers"},
	} {
		if name == "states" {
			c.draft.edit = words("a", "b")
		}
		e, err := Open(model.file(t), Options{KVBlocks: 50, Draft: c.draft.file(t), Scheduler: scheduler.Config{MaxDrafts: 2}}, nil)
		if err == nil {
			_ = e.Close(context.Background())
		}
		if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// A draft model knows no adapters: what it proposes to requests with one changes none of their answers, also while others have another.
func TestDraftModelsChangeNoAnswerOfAdapters(t *testing.T) {
	f := tiny{arch: "qwen3", typ: gguf.TypeF32, seed: 4, norms: true}
	adaptersKeepAnswers(t, f, Options{
		Speculate: true, Draft: f.file(t), Scheduler: scheduler.Config{MaxDrafts: 4, EveryDraft: true, LookupMin: 20, LookupMax: 20},
	})
}

// adaptersKeepAnswers asks for answers of two adapters and of the model alone together, with drafts by these options: they are those without.
func adaptersKeepAnswers(t *testing.T, f tiny, o Options) {
	t.Helper()
	plain, _, _ := withAdapters(t, f, Options{}, 2)
	drafted, _, _ := withAdapters(t, f, o, 2)
	var wg sync.WaitGroup
	for i, adapter := range []string{"", "a0", "a1", "a0"} {
		r := func() *inference.Request {
			r := greedy(prompt(uint64(i/3), 40), 40)
			r.Adapter = adapter
			return r
		}
		want := story(ask(t, plain, r()))
		wg.Go(func() {
			if got := story(ask(t, drafted, r())); got != want {
				t.Errorf("adapter %q:\n%s\nwant\n%s", adapter, got, want)
			}
		})
	}
	wg.Wait()
	if st := drafted.Stats().Scheduler; st.DraftTokens == 0 {
		t.Error("nothing was drafted")
	}
}
