package llm

import (
	"fmt"
	"slices"
	"testing"

	"weir/engine/kernel/recurrence"
	"weir/scheduler"
)

// Faults that others had with models whose layers keep states, each by the number of its issue. Every test takes another family.

// cachedOf asks, and returns how much of the prompt was found. The answer has to be that of an engine that has seen nothing of the prompt.
func cachedOf(t *testing.T, e, alone *Engine, text []int32, tokens int) (cached int, whole []int32) {
	t.Helper()
	s, err := e.Submit(greedy(slices.Clone(text), tokens))
	if err != nil {
		t.Fatal(err)
	}
	a := read(t, s)
	r := greedy(slices.Clone(text), tokens)
	r.CacheDomain = fmt.Sprint(len(text), text[len(text)-1], text[len(text)/2])
	if want := ask(t, alone, r).tokens[0]; a.err != nil || !slices.Equal(a.tokens[0], want) {
		t.Errorf("a prompt of %d tokens: %v (%v), without a cache %v", len(text), a.tokens[0], a.err, want)
	}
	return s.Progress().CachedTokens, slices.Concat(text, a.tokens[0])
}

// engines are two of one of the hybrid families, the second one to compare with.
func engines(t *testing.T, family int, o Options) (e, alone *Engine) {
	t.Helper()
	f := hybrids()[family%len(hybrids())]
	o.KVBlocks = max(o.KVBlocks, 120)
	return start(t, f, o), start(t, f, Options{KVBlocks: 100, MaxModelLen: o.MaxModelLen, Scheduler: scheduler.Config{MaxSeqs: 1}})
}

// vllm-project/vllm 45238: 52 of 64 requests found the prompt that they share, and none once it was 100 tokens shorter, since the only
// checkpoint of a request then lay in its own text. Here all except the two that show where the common text ends find it, wherever that is.
func TestVLLM45238SharedPromptsAreFoundWhereverTheyEnd(t *testing.T) {
	for i, shared := range []int{160, 150} { // of 220 tokens
		e, alone := engines(t, i, Options{})
		hits := 0
		for n := range 64 {
			text := slices.Concat(prompt(7, shared), prompt(uint64(100+n), 220-shared))
			if cached, _ := cachedOf(t, e, alone, text, 2); cached >= shared/16*16 {
				hits++
			}
		}
		if hits < 62 {
			t.Errorf("%d tokens in common: %d of 64 requests found them", shared, hits)
		}
	}
}

// vllm-project/vllm 40696: blocks of 528 tokens, made for states to fit, so that shorter prompts never hit.
func TestVLLM40696ShortPromptsAreFound(t *testing.T) {
	e, alone := engines(t, 2, Options{})
	for n := range 4 {
		if cached, _ := cachedOf(t, e, alone, slices.Concat(prompt(8, 40), prompt(uint64(n), 8)), 2); n > 1 && cached != 32 {
			t.Errorf("request %d: %d tokens of 40 found, want two blocks of 16", n, cached)
		}
	}
}

// vllm-project/vllm 43090: blocks of attention were found and no state, and recurrent layers began behind them with an empty one.
func TestVLLM43090BlocksWithoutAStateAreNoHit(t *testing.T) {
	e, alone := engines(t, 3, Options{})
	cachedOf(t, e, alone, prompt(9, 100), 2)
	text := slices.Concat(prompt(9, 40), prompt(10, 30)) // shares blocks with the first one, and no checkpoint
	if cached, _ := cachedOf(t, e, alone, text, 8); cached != 0 {
		t.Errorf("%d tokens found, and there is no state behind them", cached)
	}
	if n := e.Stats().Cache.Stateless; n != 32 {
		t.Errorf("%d tokens are counted as found without a state, want two blocks", n)
	}
}

// vllm-project/vllm 53912: drafts on top of a cached prefix left states of tokens that were refused.
func TestVLLM53912DraftsBehindACachedPrefixChangeNothing(t *testing.T) {
	e, alone := engines(t, 4, Options{Scheduler: scheduler.Config{MaxDrafts: 4}})
	text := slices.Concat(prompt(11, 30), prompt(11, 30), prompt(11, 30)) // repeats itself, so that drafts are found
	for range 3 {
		_, text = cachedOf(t, e, alone, text, 20)
		text = append(text, prompt(12, 9)...)
	}
}

// ggml-org/llama.cpp 21831 and 20225: each turn of a chat read the whole prompt again.
func TestLlamaCpp21831TurnsOfAChatGoOn(t *testing.T) {
	e, alone := engines(t, 5, Options{})
	text := prompt(13, 60)
	for n := range 4 {
		before := len(text) - 1 // the last token of an answer was never computed
		cached, whole := cachedOf(t, e, alone, append(text, prompt(uint64(20+n), 7)...), 9)
		if n > 0 && cached < before/16*16 {
			t.Errorf("turn %d: %d tokens found of %d", n, cached, before)
		}
		text = whole
	}
}

// ggml-org/llama.cpp 24714: prompts that are the same except for their end (a date) were read whole, each time.
func TestLlamaCpp24714PromptsThatDifferInTheirEndAreFound(t *testing.T) {
	e, alone := engines(t, 6, Options{})
	for n := range 5 {
		cached, _ := cachedOf(t, e, alone, append(prompt(14, 90), int32(n)), 2)
		if n > 0 && cached != 80 {
			t.Errorf("request %d: %d tokens found, want 80", n, cached)
		}
	}
}

// ggml-org/llama.cpp 18497: a text with something put in amid it is found up to there, and not behind.
func TestLlamaCpp18497TextsAreFoundUpToWhatWasPutIn(t *testing.T) {
	e, alone := engines(t, 7, Options{})
	a, b := prompt(15, 64), prompt(16, 64)
	cachedOf(t, e, alone, slices.Concat(a, b), 2)
	for n := range 2 {
		if cached, _ := cachedOf(t, e, alone, slices.Concat(a, prompt(uint64(17+n), 16), b), 4); n > 0 && cached != 64 {
			t.Errorf("%d tokens found, want the 64 before what was put in", cached)
		}
	}
}

// vllm-project/tpu-inference 3412: slots that others had were read as if they were a sequence's own. Here there are more texts than slots, and each
// comes back when its slot was another's.
func TestTPUInference3412SlotsOfOthersAreNotRead(t *testing.T) {
	e, alone := engines(t, 0, Options{Scheduler: scheduler.Config{MaxSeqs: 1}})
	for range 2 {
		for n := range 45 {
			cachedOf(t, e, alone, prompt(uint64(200+n), 20), 3)
		}
	}
	if s := e.Stats().Cache; s.States >= 45 {
		t.Errorf("%d slots for 45 texts; the test needs fewer", s.States)
	}
}

// huggingface/transformers 46741: chunks of a prompt began with an empty state.
func TestTransformers46741ChunksOfAPromptGoOn(t *testing.T) {
	for family := range hybrids() {
		e, alone := engines(t, family, Options{Scheduler: scheduler.Config{PrefillChunk: 17}})
		cachedOf(t, e, alone, prompt(18, 120), 6)
	}
}

// A live request says how many of its prompt's tokens were in blocks of the prefix cache without a state behind them, and are computed again; the counts
// add them up. Models without states have none.
func TestRequestsTellTokensWithoutAState(t *testing.T) {
	for _, f := range []tiny{hybrids()[0], families[0]} {
		s := newStepper(t, f, Options{})
		s.submit(t, greedy(prompt(9, 100), 2))
		for s.turn() {
		}
		s.submit(t, greedy(slices.Concat(prompt(9, 40), prompt(10, 30)), 20))
		s.turn()
		want := [2]int{0, 40} // of blocks of 16 the third one in part
		if f.hybrid != recurrence.None {
			want = [2]int{32, 0}
		}
		states := s.sched.Explain(nil)
		if len(states) != 1 || [2]int{states[0].StatelessTokens, states[0].CachedTokens} != want || s.Stats().Cache.Stateless != uint64(want[0]) {
			t.Errorf("%s: %+v and %d counted, want %d tokens without a state, %d cached", f.arch, states, s.Stats().Cache.Stateless, want[0], want[1])
		}
		for s.turn() {
		}
	}
}
