package llm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/internal/inference"
	"weir/scheduler"
)

// pointing is a family's model with a decision head of n values, as files of type kev have it.
func pointing(f tiny, n int) tiny {
	before := f.edit
	f.edit = func(b *gguf.Builder) {
		if before != nil {
			before(b)
		}
		r := rand.New(rand.NewPCG(21, 22))
		w, bias := make([]float32, 2*n*tinyWidth), make([]float32, 2*n)
		for i := range w {
			w[i] = float32(r.NormFloat64() / math.Sqrt(tinyWidth))
		}
		for i := range bias {
			bias[i] = float32(r.NormFloat64() / 4)
		}
		b.Set(f.arch+".decision.type", DecisionPointer)
		b.Set(f.arch+".embedding_length_out", uint32(2*n))
		b.TensorF32("cls.output.weight", []uint64{tinyWidth, uint64(2 * n)}, w)
		b.TensorF32("cls.output.bias", []uint64{uint64(2 * n)}, bias)
	}
	return f
}

// pointed is a question whose options end at marks.
func pointed(p []int32, marks ...int) *inference.Request {
	given := slices.Repeat([][]int32{{1}}, len(marks))
	r := measuring(p, given...)
	r.Marks = marks
	return r
}

// Scores are query · key / √n, in doubles of what the model gives of rows, in hybrids and in models with attention alone.
func TestDecisionHeadsOfLanguageModels(t *testing.T) {
	const n = 12
	for _, f := range append(hybrids(), families[0]) {
		t.Run(f.arch, func(t *testing.T) {
			f.typ = gguf.TypeF32 // activations of the reference are not rounded either
			f := pointing(f, n)
			p, marks := prompt(3, 75), []int{20, 33, 34, 70}
			m := load(t, f.file(t))
			if l := m.weights.logits; l != 0 && l != 1 {
				t.Skip("a factor of logits")
			}
			m.output, m.vocab, m.logitCap = m.pointer.w, 2*n, 0
			rows := allLogits(t, m, isa.Auto, p, attend.KVF16, 16, len(p), 1)
			got := logprobsOf(ask(t, start(t, f, Options{Scheduler: scheduler.Config{PrefillChunk: 32}}), pointed(p, marks...)))
			value := func(row, i int) float64 { return float64(rows[row*2*n+i]) + float64(m.pointer.bias[i]) }
			for c, at := range marks {
				want := 0.0
				for i := range n {
					want += value(len(p)-1, i) * value(at, n+i)
				}
				want /= math.Sqrt(n)
				if len(got[c]) != 1 || math.Abs(float64(got[c][0])-want) > 1e-4*(1+math.Abs(want)) {
					t.Errorf("option %d: %v, want %v", c, got[c], want)
				}
			}
		})
	}
}

// The scores are the same bits whatever is computed beside a question, in which chunks and in what room, and whether its input is cached;
// and what questions share is computed once.
func TestDecisionHeadsDoNotDependOnHowTheEngineIsRun(t *testing.T) {
	f := pointing(hybrids()[0], 8)
	shared := prompt(9, 64)
	requests := func() (list []*inference.Request) {
		for i := range 7 {
			tail := append([]int32{int32(i)}, prompt(uint64(i), 9+3*i)...)
			p := slices.Concat(shared, tail)
			list = append(list, pointed(p, len(shared)+1, len(shared)+4, len(p)-2))
		}
		return append(list, greedy(shared, 30), greedy(prompt(5, 60), 30))
	}
	var want []map[int][]float32
	alone := start(t, f, Options{KVBlocks: 100})
	for _, r := range requests() {
		want = append(want, logprobsOf(ask(t, alone, r)))
	}
	for _, o := range []Options{
		{BlockTokens: 16},
		{BlockTokens: 16, Scheduler: scheduler.Config{PrefillChunk: 16, MaxDrafts: 3}},
		{BlockTokens: 16, Threads: 5, Scheduler: scheduler.Config{MaxBatchTokens: 17, MaxSeqs: 2}},
		{BlockTokens: 16, KVBlocks: 16, MaxModelLen: 160, Scheduler: scheduler.Config{OutputEstimate: 1, WatermarkBlocks: -1}},
		{BlockTokens: 16, KVType: attend.KVQ8},
	} {
		t.Run(fmt.Sprintf("cache=%v,chunk=%d,blocks=%d,seqs=%d", o.KVType, o.Scheduler.PrefillChunk, o.KVBlocks, o.Scheduler.MaxSeqs), func(t *testing.T) {
			e := start(t, f, o)
			for round := range 2 {
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
			if s := e.Stats(); o.KVBlocks == 0 && o.Scheduler.MaxSeqs == 0 && s.Cache.HitTokens < uint64(6*48) {
				t.Errorf("%d tokens were found in the cache", s.Cache.HitTokens)
			}
		})
	}
}

func TestMarksAreRefused(t *testing.T) {
	e, plain := start(t, pointing(families[0], 4), Options{}), start(t, families[0], Options{})
	for name, edit := range map[string]func(*inference.Request){
		"behind the prompt":    func(r *inference.Request) { r.Marks[1] = 9 },
		"before it":            func(r *inference.Request) { r.Marks[0] = -1 },
		"twice":                func(r *inference.Request) { r.Marks[1] = r.Marks[0] },
		"too few":              func(r *inference.Request) { r.Marks = r.Marks[:1] },
		"none":                 func(r *inference.Request) { r.Marks = []int{} },
		"of nothing given":     func(r *inference.Request) { r.Given = nil },
		"and the prompt's":     func(r *inference.Request) { r.PromptLogprobs = 0 },
		"with too many tokens": func(r *inference.Request) { r.MaxTokens = 2 },
	} {
		r := pointed(prompt(1, 9), 3, 5)
		edit(r)
		if _, err := e.Submit(r); !errors.Is(err, inference.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := plain.Submit(pointed(prompt(1, 9), 3)); !errors.Is(err, inference.ErrInvalid) {
		t.Errorf("without a head: %v", err)
	}
}

// What metadata and tensors contradict is refused by its name.
func TestDecisionTypesOfLanguageModelsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(b *gguf.Builder)
		want string
	}{
		"another type": {func(b *gguf.Builder) { b.Set("lfm2.decision.type", "lfm2-d1-omni") }, `decision.type is "lfm2-d1-omni"`},
		"no head": {func(b *gguf.Builder) {
			b.Set("lfm2.decision.type", "kev")
			b.Set("lfm2.embedding_length_out", uint32(8))
		}, "cls.output.weight is missing"},
		"odd": {func(b *gguf.Builder) {
			b.Set("lfm2.decision.type", "kev")
			b.Set("lfm2.embedding_length_out", uint32(7))
		}, "embedding_length_out is 7"},
		"no size": {func(b *gguf.Builder) { b.Set("lfm2.decision.type", "kev") }, "embedding_length_out"},
		"another shape": {func(b *gguf.Builder) {
			b.Set("lfm2.decision.type", "kev")
			b.Set("lfm2.embedding_length_out", uint32(8))
			b.TensorF32("cls.output.weight", []uint64{tinyWidth, 6}, make([]float32, 6*tinyWidth))
		}, "cls.output.weight has shape"},
		"a head of no type": {func(b *gguf.Builder) {
			b.TensorF32("cls.output.weight", []uint64{tinyWidth, 8}, make([]float32, 8*tinyWidth))
		}, "cls.output.weight"},
	} {
		i := slices.IndexFunc(hybrids(), func(f tiny) bool { return f.arch == "lfm2" })
		f := hybrids()[i]
		f.edit = c.edit
		if _, err := Describe(f.file(t), Options{KVBlocks: 64}); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := families[0]
	f.edit = func(b *gguf.Builder) { b.Set(f.arch+".decision.type", "lev") }
	if i, err := Describe(f.file(t), Options{KVBlocks: 64}); err != nil || i.DecisionType != "lev" {
		t.Errorf("a model with labels: %q, %v", i.DecisionType, err)
	}
}
