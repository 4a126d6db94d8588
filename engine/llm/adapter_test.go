package llm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/internal/inference"
	"weir/kvcache"
)

// lowRank is an adapter for tests: random matrices of a rank for the tensors of a model that it names.
type lowRank struct {
	seed    uint64
	rank    int
	alpha   float32
	typ     gguf.Type
	tensors []string // parts of names; none: all that adapters may change
	edit    func(b *gguf.Builder)
}

// adapterOf builds the file of an adapter of a model, and the model's file with the adapter in its weights, which are float32.
func (p lowRank) adapterOf(t testing.TB, raw []byte) (file, merged []byte) {
	t.Helper()
	f, b := parse(t, raw), &gguf.Builder{}
	arch, _, _ := f.String("general.architecture")
	b.Set("general.type", "adapter")
	b.Set("general.architecture", arch)
	b.Set("adapter.type", "lora")
	b.Set("adapter.lora.alpha", p.alpha)
	m, err := loadModel(f)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.release() }()
	merged = slices.Clone(raw)
	r := rand.New(rand.NewPCG(p.seed, 7))
	targets := (&adapterFile{model: m}).adaptable()
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		if len(p.tensors) > 0 && !slices.ContainsFunc(p.tensors, func(part string) bool { return strings.Contains(name, part) }) {
			continue
		}
		base, _ := f.Tensor(name + ".weight")
		cols, rows := int(base.Dims[0]), int(base.Dims[1])
		low, high := p.values(t, r, p.rank, cols, b, name+".weight"+lowA), p.values(t, r, rows, p.rank, b, name+".weight"+lowB)
		if base.Type == gguf.TypeF32 {
			p.merge(merged[base.Offset:], low, high, rows, cols)
		}
	}
	if p.edit != nil {
		p.edit(b)
	}
	if file, err = b.Bytes(); err != nil {
		t.Fatal(err)
	}
	return file, merged
}

// values adds a matrix to the file and returns it as it is there.
func (p lowRank) values(t testing.TB, r *rand.Rand, rows, cols int, b *gguf.Builder, name string) []float32 {
	v := make([]float32, rows*cols)
	for i := range v {
		v[i] = float32(r.NormFloat64() / math.Sqrt(float64(cols)))
		if p.typ == gguf.TypeF16 || p.typ == gguf.TypeBF16 {
			v[i] = math.Float32frombits(math.Float32bits(v[i]) &^ 0xffff)
		}
	}
	b.Tensor(name, []uint64{uint64(cols), uint64(rows)}, p.typ, encodeAs(t, p.typ, v))
	return v
}

// merge adds the adapter to a tensor of float32.
func (p lowRank) merge(tensor []byte, low, high []float32, rows, cols int) {
	scale := 1.0
	if p.alpha != 0 {
		scale = float64(p.alpha) / float64(p.rank)
	}
	for o := range rows {
		for i := range cols {
			sum := 0.0
			for k := range p.rank {
				sum += float64(high[o*p.rank+k]) * float64(low[k*cols+i])
			}
			at := tensor[4*(o*cols+i):]
			v := float64(math.Float32frombits(binary.LittleEndian.Uint32(at))) + scale*sum
			binary.LittleEndian.PutUint32(at, math.Float32bits(float32(v)))
		}
	}
}

// read is the adapter as a model reads it.
func (p lowRank) read(t testing.TB, m *model, raw []byte) *adapter {
	t.Helper()
	file, _ := p.adapterOf(t, raw)
	a, err := readAdapter(m, parse(t, file), AdapterOptions{Name: "a"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// adaptedLogits are those of all rows of several texts, each with its adapter or nil, which pass through the model in chunks together.
func adaptedLogits(t *testing.T, m *model, level isa.Level, threads, chunk int, texts [][]int32, by []*adapter) [][]float32 {
	t.Helper()
	const blockTokens = 16
	c := kernel.NewCPU(threads, level)
	defer c.Close()
	blocks, longest, tables := 1, 0, make([][][]kvcache.BlockID, len(texts))
	for i, text := range texts {
		for range m.cacheShape.Tables {
			var list []kvcache.BlockID
			for range (len(text) + blockTokens - 1) / blockTokens {
				list, blocks = append(list, kvcache.BlockID(blocks)), blocks+1
			}
			tables[i] = append(tables[i], list)
		}
		longest = max(longest, len(text))
	}
	kv, err := attend.NewPages(m.cacheShape.sized(attend.KVF32, blockTokens, blocks).Tables)
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	m.formKeys(c, kv, longest)
	var b batch
	if b.store, err = newStates(m.states, len(texts)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.store.close() }()
	out := make([][]float32, len(texts))
	for lo := 0; lo < longest; lo += chunk {
		b.reset()
		for i, text := range texts {
			if lo >= len(text) {
				continue
			}
			row := b.add(text[lo:min(lo+chunk, len(text))], lo, blockTokens, tables[i]...)
			b.adapted = b.adapted.add(row, len(b.tokens), by[i])
			from := kvcache.StateID(0)
			if lo > 0 {
				from = kvcache.StateID(i + 1)
			}
			b.carry(from, kvcache.StateID(i+1))
			for r := row; r < len(b.tokens); r++ {
				b.output = append(b.output, r)
			}
		}
		m.forward(c, kv, &b)
		logits := make([]float32, len(b.output)*m.vocab)
		m.logits(c, logits, b.hidden, len(b.output))
		for i, text := range texts {
			if n := min(lo+chunk, len(text)) - lo; n > 0 {
				out[i], logits = append(out[i], logits[:n*m.vocab]...), logits[n*m.vocab:]
			}
		}
	}
	return out
}

// exactFamilies are the families with weights of float32, into which an adapter can be merged.
func exactFamilies() []tiny {
	list := slices.Clone(families)
	for i := range list {
		list[i].typ = gguf.TypeF32
	}
	return list
}

// What a model gives with an adapter is what it gives with the adapter in its weights.
func TestAdaptersGiveWhatMergedWeightsDo(t *testing.T) {
	texts := [][]int32{prompt(5, 45)}
	for n, f := range exactFamilies() {
		raw := f.build(t)
		m := load(t, parse(t, raw))
		plain := adaptedLogits(t, m, isa.Best(), 1, 45, texts, []*adapter{nil})[0]
		for i, p := range []lowRank{
			{seed: 1, rank: 4, alpha: 8, typ: gguf.TypeF32},
			{seed: 2, rank: 3, typ: gguf.TypeF16},
			{seed: 3, rank: 17, alpha: 17, typ: gguf.TypeF32, tensors: []string{"attn_q", "attn_v"}},
			{seed: 4, rank: 32, alpha: 16, typ: gguf.TypeBF16, tensors: []string{"attn_output", "ffn_up", "ffn_gate"}},
		} {
			if i > 0 && testing.Short() && n > 1 {
				continue
			}
			file, merged := p.adapterOf(t, raw)
			a, err := readAdapter(m, parse(t, file), AdapterOptions{Name: "a"}, 0)
			if err != nil {
				if f.experts > 0 && strings.Contains(err.Error(), "has no tensors") {
					continue
				}
				t.Fatalf("%s: %v", f.arch, err)
			}
			want := adaptedLogits(t, load(t, parse(t, merged)), isa.Best(), 1, 45, texts, []*adapter{nil})[0]
			got := adaptedLogits(t, m, isa.Best(), 1, 45, texts, []*adapter{a})[0]
			if d := relativeL2(got, want); !(d <= 1e-5) {
				t.Errorf("%s, adapter %d: %.2g from the merged weights' answers", f.arch, i, d)
			}
			if d := relativeL2(got, plain); d < 1e-3 {
				t.Errorf("%s, adapter %d: only %.2g from the model's own answers", f.arch, i, d)
			}
		}
	}
}

// Rows have the same bits whatever rows of other adapters, or of none, share their steps, and however many workers compute.
func TestRowsOfAdaptersDependOnNoOthers(t *testing.T) {
	all := []tiny{
		{arch: "llama", typ: gguf.TypeQ8_0, seed: 2, tied: true},
		{arch: "qwen2", typ: gguf.TypeF16, seed: 3, bias: true, tied: true},
		{arch: "gemma2", typ: gguf.TypeF32, seed: 8, layers: 3, tied: true, post: true, edit: windowOf("gemma2", 12)},
	}
	for _, f := range all {
		raw := f.build(t)
		m := load(t, parse(t, raw))
		by := []*adapter{
			nil, lowRank{seed: 1, rank: 4, alpha: 8, typ: gguf.TypeF32}.read(t, m, raw),
			lowRank{seed: 2, rank: 9, alpha: 8, typ: gguf.TypeF16, tensors: []string{"attn_", "ffn_down"}}.read(t, m, raw), nil,
			lowRank{seed: 3, rank: 2, typ: gguf.TypeF32, tensors: []string{"ffn_up"}}.read(t, m, raw),
		}
		texts := [][]int32{prompt(1, 31), prompt(2, 100), prompt(3, 57), prompt(4, 9), prompt(2, 100)}
		for _, level := range levels() {
			var want [][]float32
			for i, text := range texts {
				want = append(want, adaptedLogits(t, m, level, 1, 100, [][]int32{text}, by[i:i+1])[0])
			}
			for _, cut := range []struct{ threads, chunk int }{{1, 100}, {2, 100}, {2, 23}, {3, 1}} {
				if cut.chunk == 1 && shortAt(level) {
					continue
				}
				got := adaptedLogits(t, m, level, cut.threads, cut.chunk, texts, by)
				for i := range texts {
					if !slices.Equal(got[i], want[i]) {
						t.Errorf("%s at %v, %d workers, chunks of %d: text %d has other bits than alone", f.arch, level, cut.threads, cut.chunk, i)
					}
				}
			}
		}
	}
}

// withAdapters starts an engine with adapters named a0, a1 …, and gives the engines of the merged weights.
func withAdapters(t *testing.T, f tiny, o Options, n int) (e *Engine, merged []*Engine, files [][]byte) {
	t.Helper()
	e = start(t, f, o)
	for i := range n {
		p := lowRank{seed: uint64(i + 1), rank: 4 + i, alpha: 8, typ: gguf.TypeF32}
		file, whole := p.adapterOf(t, f.build(t))
		if _, err := e.Adapters().Load(parse(t, file), AdapterOptions{Name: fmt.Sprint("a", i)}); err != nil {
			t.Fatal(err)
		}
		other, err := Open(parse(t, whole), Options{Threads: 1, KVBlocks: f.blocks(t, Options{KVBlocks: 200})}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, other) })
		merged, files = append(merged, other), append(files, file)
	}
	return e, merged, files
}

// Requests with several adapters and without one run together and get the answers of merged weights; none finds another adapter's
// keys and values.
func TestEnginesAnswerWithAdapters(t *testing.T) {
	f := tiny{arch: "qwen3", typ: gguf.TypeF32, seed: 4, norms: true}
	e, merged, files := withAdapters(t, f, Options{}, 3)
	text := prompt(9, 70)
	want := make(map[string][]int32)
	for i, o := range merged {
		want[fmt.Sprint("a", i)] = ask(t, o, greedy(text, 24)).tokens[0]
	}
	alone := start(t, f, Options{})
	want[""] = ask(t, alone, greedy(text, 24)).tokens[0]
	seen := map[string]bool{}
	for name, tokens := range want {
		if seen[fmt.Sprint(tokens)] {
			t.Errorf("%q answers as another one does; the test shows nothing", name)
		}
		seen[fmt.Sprint(tokens)] = true
	}
	var wg sync.WaitGroup
	for range 3 {
		for name, tokens := range want {
			wg.Go(func() {
				r := greedy(slices.Clone(text), 24)
				r.Adapter = name
				if got := ask(t, e, r); got.err != nil || !slices.Equal(got.tokens[0], tokens) {
					t.Errorf("adapter %q: %v (%v), not %v", name, got.tokens[0], got.err, tokens)
				}
			})
		}
	}
	wg.Wait()
	cached := func(name string) int {
		r := greedy(slices.Clone(text), 1)
		r.Adapter = name
		s, err := e.Submit(r)
		if err != nil {
			t.Fatal(err)
		}
		read(t, s)
		return s.Progress().CachedTokens
	}
	if n := cached("a1"); n < 64 {
		t.Errorf("of a prompt that its adapter knows %d tokens are cached", n)
	}
	if _, err := e.Adapters().Load(parse(t, files[0]), AdapterOptions{Name: "a0 again"}); err != nil {
		t.Fatal(err)
	}
	if n := cached("a0 again"); n < 64 {
		t.Errorf("of a prompt that the same adapter knows by another name %d tokens are cached", n)
	}
	for _, o := range []AdapterOptions{{Name: "weaker", Scale: 0.5}, {Name: "a1"}} { // a1 is another file from now on
		if _, err := e.Adapters().Load(parse(t, files[2]), o); err != nil {
			t.Fatal(err)
		}
	}
	if n := cached("weaker"); n != 0 {
		t.Errorf("an adapter of another scale finds %d tokens", n)
	}
	if got := ask(t, e, &inference.Request{Prompt: text, MaxTokens: 24, N: 1, PromptLogprobs: -1, Adapter: "a1", Sampling: inference.Sampling{TopP: 1, TypicalP: 1, RepetitionPenalty: 1, Logprobs: -1}}); !slices.Equal(got.tokens[0], want["a2"]) {
		t.Errorf("a name that stands for another file answers %v, not %v", got.tokens[0], want["a2"])
	}
}

// An adapter that was unloaded finds no further requests; those that run end with it.
func TestUnloadedAdaptersEndTheirRequests(t *testing.T) {
	f := tiny{arch: "llama", typ: gguf.TypeF32, seed: 1}
	e, merged, _ := withAdapters(t, f, Options{}, 1)
	want := ask(t, merged[0], greedy(prompt(3, 30), 200)).tokens[0]
	r := greedy(prompt(3, 30), 200)
	r.Adapter = "a0"
	s, err := e.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	if l := e.Adapters().List(); len(l) != 1 || l[0].Name != "a0" || l[0].Rank != 4 || l[0].Tensors != 14 || l[0].Bytes == 0 || l[0].Alpha != 8 {
		t.Errorf("%+v", l)
	}
	if i, ok := e.Adapters().Find("a0"); !ok || i != e.Adapters().List()[0] {
		t.Errorf("%+v, %v", i, ok)
	}
	if !e.Adapters().Unload("a0") || e.Adapters().Unload("a0") || len(e.Adapters().List()) > 0 {
		t.Error("an adapter is unloaded once")
	}
	if _, err := e.Submit(&inference.Request{Prompt: prompt(1, 3), MaxTokens: 1, N: 1, PromptLogprobs: -1, Adapter: "a0"}); !errors.Is(err, inference.ErrNoAdapter) {
		t.Errorf("a request for it: %v", err)
	}
	if got := read(t, s); got.err != nil || !slices.Equal(got.tokens[0], want) {
		t.Errorf("%v (%v), not %v", got.tokens[0], got.err, want)
	}
}

// Requests of a call that come one after the other have the adapter that the first had, also where another one has its name by then, or none.
func TestHeldAdaptersStay(t *testing.T) {
	f := tiny{arch: "llama", typ: gguf.TypeF32, seed: 1}
	e, merged, files := withAdapters(t, f, Options{}, 2)
	held, ok := e.Adapters().Hold("a0")
	if _, none := e.Adapters().Hold("a2"); !ok || none || held.Info.Name != "a0" {
		t.Fatalf("%v, %+v, and one that there is not: %v", ok, held.Info, none)
	}
	want := ask(t, merged[0], greedy(prompt(3, 30), 40)).tokens[0]
	answers := func(when string) {
		t.Helper()
		streams, err := e.SubmitHeld([]*inference.Request{greedy(prompt(3, 30), 40)}, held)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if got := read(t, streams[0]); got.err != nil || !slices.Equal(got.tokens[0], want) {
			t.Errorf("%s: %v (%v), not %v", when, got.tokens[0], got.err, want)
		}
	}
	answers("loaded")
	if _, err := e.Adapters().Load(parse(t, files[1]), AdapterOptions{Name: "a0"}); err != nil {
		t.Fatal(err)
	}
	answers("replaced")
	e.Adapters().Unload("a0")
	answers("unloaded")
}

// Files that do not fit are refused by what does not.
func TestAdaptersThatDoNotFitAreRefused(t *testing.T) {
	f := tiny{arch: "qwen3moe", typ: gguf.TypeQ8_0, seed: 12, norms: true, experts: 5}
	dense := tiny{arch: "llama", typ: gguf.TypeF32, seed: 1}
	rows := func(name string, dims ...uint64) func(b *gguf.Builder) {
		n := uint64(1)
		for _, d := range dims {
			n *= d
		}
		return func(b *gguf.Builder) { b.TensorF32(name, dims, make([]float32, n)) }
	}
	only := []string{"blk.0.attn_q"}
	for _, c := range []struct {
		model tiny
		with  lowRank
		says  string
	}{
		{dense, lowRank{edit: func(b *gguf.Builder) { b.Set("general.type", "model") }}, `general.type is "model"`},
		{dense, lowRank{edit: func(b *gguf.Builder) { b.Set("adapter.type", "lokr") }}, `adapter.type is "lokr"`},
		{dense, lowRank{edit: func(b *gguf.Builder) { b.Set("general.architecture", "gemma") }}, `general.architecture is "gemma", and the model's is "llama"`},
		{dense, lowRank{edit: func(b *gguf.Builder) { b.Set("adapter.lora.alpha", float32(math.NaN())) }}, "adapter.lora.alpha is NaN"},
		{dense, lowRank{edit: func(b *gguf.Builder) { b.Set("adapter.lora.alpha", float32(3e38)) }}, "at most 1e+06 is taken"},
		{dense, lowRank{edit: func(b *gguf.Builder) { b.Set("adapter.lora.alpha", "8") }}, "adapter.lora.alpha"},
		{dense, lowRank{edit: func(b *gguf.Builder) { b.Set("adapter.alora.invocation_tokens", []int32{1}) }}, "alora"},
		{dense, lowRank{edit: rows("blk.0.attn_k.weight.lora_a", 64, 4)}, "blk.0.attn_k.weight.lora_a has no blk.0.attn_k.weight.lora_b"},
		{dense, lowRank{edit: rows("blk.0.attn_k.weight.lora_b", 4, 64)}, "blk.0.attn_k.weight.lora_b has no blk.0.attn_k.weight.lora_a"},
		{dense, lowRank{edit: rows("blk.0.attn_k.weight", 4, 64)}, "its name ends neither"},
		{dense, lowRank{edit: func(b *gguf.Builder) {
			rows("blk.2.attn_k.weight.lora_a", 64, 4)(b)
			rows("blk.2.attn_k.weight.lora_b", 4, 64)(b)
		}}, "changes blk.2.attn_k.weight, and the model has no such matrix"},
		{dense, lowRank{edit: func(b *gguf.Builder) {
			rows("blk.1.attn_k.weight.lora_a", 32, 4)(b)
			rows("blk.1.attn_k.weight.lora_b", 4, 64)(b)
		}}, "blk.1.attn_k.weight.lora_a has shape [32 4]; of the model's blk.1.attn_k it must be [64, the rank]"},
		{dense, lowRank{edit: func(b *gguf.Builder) {
			rows("blk.1.attn_k.weight.lora_a", 64, 4)(b)
			rows("blk.1.attn_k.weight.lora_b", 5, 64)(b)
		}}, "blk.1.attn_k.weight.lora_b has shape [5 64]"},
		{dense, lowRank{edit: func(b *gguf.Builder) {
			rows("token_embd.weight.lora_a", 64, 4)(b)
			rows("token_embd.weight.lora_b", 4, 80)(b)
		}}, "changes token_embd.weight"},
		{dense, lowRank{rank: 65}, "its rank 65 is greater than max_lora_rank 64"},
		{dense, lowRank{edit: func(b *gguf.Builder) {
			v := make([]float32, 4*64)
			v[7] = float32(math.Inf(1))
			b.TensorF32("blk.1.attn_k.weight.lora_a", []uint64{64, 4}, v)
			rows("blk.1.attn_k.weight.lora_b", 4, 64)(b)
		}}, "of the model's blk.1.attn_k, holds a value that is not finite"},
		{f, lowRank{edit: func(b *gguf.Builder) {
			rows("blk.0.ffn_up_exps.weight.lora_a", 64, 4, 5)(b)
			rows("blk.0.ffn_up_exps.weight.lora_b", 4, 96, 5)(b)
		}}, "changes blk.0.ffn_up_exps.weight"},
		{dense, lowRank{tensors: []string{"none"}}, "the file has no tensors"},
	} {
		if c.with.rank == 0 {
			c.with.rank = 4
		}
		if c.with.tensors == nil {
			c.with.tensors = only
		}
		file, _ := c.with.adapterOf(t, c.model.build(t))
		_, err := readAdapter(load(t, c.model.file(t)), parse(t, file), AdapterOptions{Name: "a"}, 64)
		if !errors.Is(err, ErrAdapter) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}

// Floats that are those of a half-precision type are held in it, with no value changed; the digest has every value.
func TestFloatsOfHalvesAreHeldAsSuch(t *testing.T) {
	dense := tiny{arch: "llama", typ: gguf.TypeF32, seed: 1}
	m, base := load(t, dense.file(t)), "blk.0.attn_q.weight"
	q := m.layers[0].attention.q.w
	digests := map[string]bool{}
	for _, c := range []struct {
		low, high float32
		held      gguf.Type // of A, which has the low value; that of B is known
	}{{1 << 40, 1, gguf.TypeBF16}, {1 + 1.0/1024, 1, gguf.TypeF16}, {0.1, 1, gguf.TypeF32}, {0.1, 2, gguf.TypeF32}, {1<<40 + 1<<20, 1, gguf.TypeF32}} {
		b := &gguf.Builder{}
		b.Set("general.type", "adapter")
		b.Set("general.architecture", "llama")
		b.Set("adapter.type", "lora")
		low, high := slices.Repeat([]float32{c.low, 0, -2}, q.Cols)[:2*q.Cols], slices.Repeat([]float32{c.high}, 2*q.Rows)
		b.TensorF32(base+lowA, []uint64{uint64(q.Cols), 2}, low)
		b.TensorF32(base+lowB, []uint64{2, uint64(q.Rows)}, high)
		file, err := b.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		a, err := readAdapter(m, parse(t, file), AdapterOptions{Name: "a"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		d, row := a.deltas[q], make([]float32, q.Cols)
		if d.A.Type != c.held || d.B.Type != gguf.TypeBF16 {
			t.Errorf("%v and %v are held as %v and %v", c.low, c.high, d.A.Type, d.B.Type)
		}
		for r := range 2 {
			if d.A.DecodeRow(row, r); !slices.Equal(row, low[r*q.Cols:(r+1)*q.Cols]) {
				t.Errorf("%v: row %d has other values", c.low, r)
			}
		}
		if digests[a.info.Digest] {
			t.Errorf("%v and %v have the digest of others", c.low, c.high)
		}
		digests[a.info.Digest] = true
		seen, err := DescribeAdapter(dense.file(t), parse(t, file), Options{}, AdapterOptions{Name: "a"})
		if want := a.info; err != nil || seen.Bytes != want.Bytes || seen.Rank != want.Rank || seen.Tensors != want.Tensors {
			t.Errorf("described as %+v, %v, not as %+v", seen, err, want)
		}
	}
}

// FuzzAdapter: no file makes reading an adapter panic, and what is read fits the model.
func FuzzAdapter(f *testing.F) {
	dense := tiny{arch: "llama", typ: gguf.TypeF32, seed: 1}
	raw := dense.build(f)
	m, err := loadModel(parse(f, raw))
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range []lowRank{
		{seed: 1, rank: 4, alpha: 8, typ: gguf.TypeF32, tensors: []string{"blk.0.attn_q"}},
		{seed: 2, rank: 2, typ: gguf.TypeF16, tensors: []string{"blk.1.ffn_down", "blk.0.attn_v"}},
	} {
		file, _ := p.adapterOf(f, raw)
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		x, err := gguf.Parse(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		a, err := readAdapter(m, x, AdapterOptions{Name: "a"}, 0)
		if err != nil {
			return
		}
		for w, d := range a.deltas {
			if d.A.Cols != w.Cols || d.B.Rows != w.Rows || d.A.Rows != d.B.Cols || d.A.Rows > a.info.Rank || a.info.Rank > MostAdapterRank {
				t.Fatalf("%d x %d and %d x %d for %d x %d", d.A.Rows, d.A.Cols, d.B.Rows, d.B.Cols, w.Rows, w.Cols)
			}
		}
	})
}
