package llm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/recurrence"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/scheduler"
)

// headed are models with an MTP head: with states, with states and experts, and with attention alone.
var headed = []tiny{
	{arch: "qwen35", typ: gguf.TypeQ8_0, seed: 21, layers: 4, norms: true, hybrid: recurrence.Delta, mtp: true},
	{arch: "qwen3next", typ: gguf.TypeF16, seed: 22, layers: 3, norms: true, experts: 5, hybrid: recurrence.Delta, mtp: true},
	{arch: "glm4moe", typ: gguf.TypeF32, seed: 23, norms: true, experts: 5, mtp: true, edit: preferences},
	{arch: "qwen35", typ: gguf.TypeF32, seed: 24, layers: 2, norms: true, hybrid: recurrence.Delta, mtp: true, sure: true},
}

// preferences give the experts of GLM's layers the tensors that they cannot lack.
func preferences(b *gguf.Builder) {
	b.Set("glm4moe.expert_feed_forward_length", uint32(tinyFFN))
	for i := range tinyLayers + 1 {
		b.TensorF32(fmt.Sprintf("blk.%d.exp_probs_b.bias", i), []uint64{5}, []float32{0.1, -0.2, 0.3, 0, -0.1})
	}
}

// everyDraft drafts with the head whenever it can, and looks nothing up.
func everyDraft(drafts int) Options {
	return Options{
		EndTokens: []int32{9}, MTP: true, Speculate: true,
		Scheduler: scheduler.Config{MaxDrafts: drafts, EveryDraft: true, LookupMin: 20, LookupMax: 20},
	}
}

// mtpLogits runs the hidden states of all tokens but the last through the MTP head, a chunk of rows at a time, and chains a row of token last.
func mtpLogits(t *testing.T, m *model, level isa.Level, tokens []int32, last int32, chunk, threads int) []float32 {
	t.Helper()
	c := kernel.NewCPU(threads, level)
	defer c.Close()
	head, hidden := m.mtpHead, allHidden(t, m, level, tokens)
	shape := head.cacheShape.whole(attend.KVF32, 16, len(tokens))
	kv, err := attend.NewPages(shape.Tables)
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	head.formKeys(c, kv, len(tokens))
	tables, out := shape.wholeTables(len(tokens)), []float32(nil)
	var b batch
	run := func(ids []int32, at int, hidden []float32) {
		b.reset()
		b.add(ids, at, 16, tables...)
		b.headHidden = append(b.headHidden, hidden...)
		for i := range ids {
			b.output = append(b.output, i)
		}
		head.forward(c, kv, &b)
		logits := make([]float32, len(ids)*m.vocab)
		head.logits(c, logits, b.hidden, len(ids))
		out = append(out, logits...)
	}
	rows := len(tokens) - 1
	for lo := 0; lo < rows; lo += chunk {
		hi := min(lo+chunk, rows)
		run(tokens[1+lo:1+hi], lo, hidden[lo*m.width:hi*m.width])
	}
	run([]int32{last}, rows, slices.Clone(b.hidden[len(b.hidden)-m.width:]))
	return out
}

// allHidden are the model's hidden states of tokens.
func allHidden(t *testing.T, m *model, level isa.Level, tokens []int32) (hidden []float32) {
	t.Helper()
	allRows(t, m, level, tokens, attend.KVF32, 16, len(tokens), 1, func(_ *kernel.CPU, part []float32, _, rows int) {
		hidden = append(hidden, part[:rows*m.width]...)
	})
	return hidden
}

// chainedToken is the last row's, as in testdata/decoders.py.
const chainedToken = 5

// An MTP head gives what its definition does, which is computed in doubles in testdata/decoders.py, and llama.cpp's head, for rows all at once and in
// chunks, with a hidden state of the model and of the head itself.
func TestMTPHeadsMatchTheirDefinition(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(decoders, "*.mtp"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	tokens := readTokens(t, decoders)
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".mtp")
		f, err := gguf.Open(filepath.Join(decoders, name+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, err := loadModelWith(f, Options{KVBlocks: 1 << 20, MTP: true})
		if err != nil {
			t.Fatal(name, err)
		}
		defer func() { _ = m.release() }()
		want, peer := readFloats(t, path), readFloats(t, filepath.Join("testdata/llamacpp", name+".mtp"))
		for _, level := range levels() {
			whole := mtpLogits(t, m, level, tokens, chainedToken, len(tokens), 2)
			d, e := relativeL2(whole, want), relativeL2(whole, peer)
			t.Logf("%-14s %-8v relative L2 %.1e from the definition, %.1e from llama.cpp", name, level, d, e)
			if !(d <= 2e-6 && e <= 3e-6) {
				t.Errorf("%s, %v: relative L2 %.2e from the definition, %.2e from llama.cpp", name, level, d, e)
			}
			for _, chunk := range []int{1, 7, 64} {
				if !slices.Equal(mtpLogits(t, m, level, tokens, chainedToken, chunk, 1), whole) {
					t.Errorf("%s, %v, chunks of %d: other bits than whole", name, level, chunk)
				}
			}
		}
	}
}

// An MTP head shows in no answer, whether its drafts are accepted, hardly ever are, or find no room in its cache: greedy and drawn, with several choices,
// in chunks and among sequences that are displaced.
func TestMTPHeadsChangeNoAnswer(t *testing.T) {
	reference.Slow(t)
	headed := headed
	if reference.Raced {
		headed = headed[len(headed)-1:]
	}
	for _, f := range headed {
		var want []string
		plain := start(t, f, Options{EndTokens: []int32{9}})
		for _, r := range speculative() {
			want = append(want, story(ask(t, plain, r())))
		}
		crowded := everyDraft(8)
		crowded.Scheduler.MaxSeqs, crowded.Scheduler.MaxBatchTokens, crowded.Scheduler.OutputEstimate = 4, 24, 1
		crowded.KVBlocks, crowded.BlockTokens, crowded.MaxModelLen, crowded.logitRows, crowded.Threads = 17, 16, 220, 2, 3
		for _, o := range []Options{everyDraft(5), crowded} {
			t.Run(fmt.Sprintf("%s,sure=%v,drafts=%d", f.arch, f.sure, o.Scheduler.MaxDrafts), func(t *testing.T) {
				e := start(t, f, o)
				answerAs(t, e, want)
				st := e.Stats().Scheduler
				t.Logf("%d of %d drafts accepted, %d preemptions", st.AcceptedTokens, st.DraftTokens, st.Preemptions)
				if st.DraftTokens == 0 || f.sure && 3*st.AcceptedTokens < st.DraftTokens {
					t.Errorf("%d of %d drafts accepted", st.AcceptedTokens, st.DraftTokens)
				}
			})
		}
	}
}

// A head that knows what follows saves steps: of six tokens in a step nearly all are accepted.
func TestMTPHeadsSaveSteps(t *testing.T) {
	f, steps := headed[3], [2]uint64{}
	for i, o := range []Options{{EndTokens: []int32{9}}, everyDraft(5)} {
		e := start(t, f, o)
		a := ask(t, e, &inference.Request{Prompt: prompt(3, 40), MaxTokens: 120, N: 1, IgnoreEOS: true, PromptLogprobs: -1, Sampling: inference.DefaultSampling(), Arrived: time.Now()})
		st := e.Stats()
		if steps[i] = st.Steps; len(a.tokens[0]) != 120 {
			t.Fatalf("%d tokens, %v", len(a.tokens[0]), a.err)
		}
		t.Logf("%d steps, %d of %d drafts accepted", st.Steps, st.Scheduler.AcceptedTokens, st.Scheduler.DraftTokens)
	}
	if 3*steps[1] > steps[0] {
		t.Errorf("%d steps with the head, %d without, want a third at most", steps[1], steps[0])
	}
}

// watched notes what an MTP head proposes.
type watched struct {
	*mtpProposer
	ids    [][]int32
	drafts [][]int32
}

func (w *watched) Propose(texts []scheduler.DraftText, n int, reading time.Duration) time.Duration {
	took := w.mtpProposer.Propose(texts, n, reading)
	for i := range texts {
		if len(texts[i].Drafts) > 0 {
			w.ids, w.drafts = append(w.ids, slices.Clone(texts[i].IDs)), append(w.drafts, slices.Clone(texts[i].Drafts))
		}
	}
	return took
}

// What the head proposes is what its definition gives for the whole text: behind prompts in one chunk and in many, behind prefixes from the cache, in the
// choices of a request, and behind drafts that were accepted or were not.
func TestMTPHeadsProposeByTheWholeText(t *testing.T) {
	for _, f := range headed {
		o := everyDraft(3)
		o.EndTokens, o.KVType, o.Scheduler.PrefillChunk = nil, attend.KVF32, 24
		s := newStepper(t, f, o)
		w := &watched{mtpProposer: s.drafts.mtp}
		s.opts.Scheduler.Proposer = w
		if err := s.openScheduler(); err != nil {
			t.Fatal(err)
		}
		turn := func(r *inference.Request) {
			s.submit(t, r)
			for s.turn() {
			}
		}
		turn(greedy(prompt(5, 90), 20))
		turn(greedy(slices.Concat(w.ids[len(w.ids)-1], prompt(6, 30)), 20)) // the next turn of a chat
		several := greedy(prompt(7, 40), 12)
		several.N, several.Sampling.Temperature, several.Sampling.Seed = 3, 0.9, 5
		turn(several)
		if st := s.drafts.mtp.pool.Stats(); st.Referenced != 0 || len(s.drafts.mtp.read) != 0 || st.HitTokens < 64 {
			t.Errorf("%s: %d texts are open, %+v", f.arch, len(s.drafts.mtp.read), st)
		}
		if err := s.drafts.mtp.pool.Check(); err != nil {
			t.Error(err)
		}
		if len(w.ids) < 15 {
			t.Fatalf("%s: proposed %d times", f.arch, len(w.ids))
		}
		for i, ids := range w.ids {
			rows := mtpLogits(t, s.model, isa.Best(), ids, w.drafts[i][0], len(ids), 1)
			for k := range min(2, len(w.drafts[i])) {
				logits := rows[(len(ids)-2+k)*s.model.vocab:][:s.model.vocab]
				best := 0
				for id, v := range logits {
					if v > logits[best] {
						best = id
					}
				}
				if got := w.drafts[i][k]; int(got) != best {
					t.Fatalf("%s: behind %d tokens draft %d is %d (%v), want %d (%v)", f.arch, len(ids), k, got, logits[got], best, logits[best])
				}
			}
		}
	}
}

func TestUnfitMTPHeadsAreRefused(t *testing.T) {
	with := headed[0]
	without := with
	without.mtp = false
	edited := func(edit func(b *gguf.Builder)) tiny {
		f := without
		f.edit = edit
		return f
	}
	for _, c := range []struct {
		name  string
		model tiny
		says  string
		draft bool
	}{
		{"no head", without, "qwen35.nextn_predict_layers is 0 or missing", false},
		{"a promise", edited(func(b *gguf.Builder) {
			b.Set("qwen35.nextn_predict_layers", uint32(1))
			b.Set("qwen35.block_count", uint32(4))
		}), "qwen35.nextn_predict_layers is 1, and tensor blk.3.nextn.eh_proj.weight is missing", false},
		{"a layer of the model among the heads", edited(func(b *gguf.Builder) {
			b.Set("qwen35.nextn_predict_layers", uint32(2))
			b.Set("qwen35.block_count", uint32(5))
			b.TensorF32("blk.4.nextn.eh_proj.weight", []uint64{2, 3}, make([]float32, 6))
		}), "qwen35.nextn_predict_layers is 2, and tensor blk.3.nextn.eh_proj.weight is missing", false},
		{"another shape", edited(func(b *gguf.Builder) {
			b.Set("qwen35.nextn_predict_layers", uint32(1))
			b.Set("qwen35.block_count", uint32(5))
			b.TensorF32("blk.4.nextn.eh_proj.weight", []uint64{2, 3}, make([]float32, 6))
		}), "tensor blk.4.nextn.enorm.weight is missing", false},
		{"another model", tiny{arch: "nemotron_h", typ: gguf.TypeF16, seed: 17, layers: 7, hybrid: recurrence.Scan, sole: true, edit: func(b *gguf.Builder) {
			b.Set("nemotron_h.nextn_predict_layers", uint32(1))
		}}, "MTP heads of nemotron_h are not supported", false},
		{"two drafters", with, "--speculative-model and --speculative-mtp both propose draft tokens", true},
	} {
		o := Options{KVBlocks: 50, MTP: true, Scheduler: scheduler.Config{MaxDrafts: 2}}
		if c.draft {
			o.Draft = with.file(t)
		}
		e, err := Open(c.model.file(t), o, nil)
		if err == nil {
			_ = e.Close(context.Background())
		}
		if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

// An adapter changes the model and not the head: what the head proposes changes no answer with one, also while others have another.
func TestMTPHeadsChangeNoAnswerOfAdapters(t *testing.T) {
	reference.Slow(t)
	f := headed[2]
	o := everyDraft(4)
	o.EndTokens = nil
	adaptersKeepAnswers(t, f, o)
}
