package llm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/engine/gguf"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/pool"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/scheduler"
)

// tinyText is a random text encoder of bert's layers, modern-bert's or nomic-bert-moe's.
type tinyText struct {
	arch    string
	typ     gguf.Type
	pooling inference.Pooling
	labels  int  // of a rank head; 0 is none
	unnamed bool // the file has no names of the labels
	cls     bool // the head has a first matrix
	edit    func(b *gguf.Builder)
}

const textLayers, textWidth, textHeads, textFFN, textVocab, textContext = 3, 64, 2, 96, 80, 512

const textExperts = 6 // of nomic-bert-moe, in every second layer

func (m tinyText) file(t testing.TB) *gguf.File {
	t.Helper()
	return parse(t, m.raw(t))
}

func (m tinyText) raw(t testing.TB) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(m.pooling), 7))
	b := &gguf.Builder{}
	set := func(key string, v any) { b.Set(m.arch+"."+key, v) }
	b.Set("general.architecture", m.arch)
	b.Set("tokenizer.ggml.token_type_count", uint32(2))
	set("block_count", uint32(textLayers))
	set("embedding_length", uint32(textWidth))
	set("attention.head_count", uint32(textHeads))
	set("feed_forward_length", uint32(textFFN))
	set("context_length", uint32(textContext))
	set("attention.layer_norm_epsilon", float32(1e-6))
	set("attention.causal", false)
	set("pooling_type", uint32(m.pooling))
	values := func(n int, mean, spread float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(mean + spread*r.NormFloat64())
		}
		return v
	}
	matrix := func(name string, rows, cols int) {
		b.Tensor(name+".weight", []uint64{uint64(cols), uint64(rows)}, m.typ, encodeAs(t, m.typ, values(rows*cols, 0, 1.5/math.Sqrt(float64(cols)))))
	}
	vector := func(name string, n int, mean float64) { b.TensorF32(name, []uint64{uint64(n)}, values(n, mean, 0.2)) }
	norm := func(name string) {
		vector(name+".weight", textWidth, 1)
		vector(name+".bias", textWidth, 0)
	}
	full := func(name string, rows, cols int) {
		matrix(name, rows, cols)
		vector(name+".bias", rows, 0)
	}
	matrix("token_embd", textVocab, textWidth)
	norm("token_embd_norm")
	modern := m.arch == "modern-bert"
	if modern {
		set("attention.sliding_window", uint32(16))
		norm("output_norm")
	} else {
		b.TensorF32("token_types.weight", []uint64{textWidth, 2}, values(2*textWidth, 0, 0.3))
	}
	experts := m.arch == "nomic-bert-moe"
	if experts {
		set("expert_count", uint32(textExperts))
		set("expert_used_count", uint32(2))
		set("moe_every_n_layers", uint32(2))
	} else if !modern {
		b.TensorF32("position_embd.weight", []uint64{textWidth, textContext}, values(textContext*textWidth, 0, 0.3))
	}
	for i := range textLayers {
		at := fmt.Sprintf("blk.%d.", i)
		if modern {
			if i > 0 {
				norm(at + "attn_norm")
			}
			norm(at + "ffn_norm")
			matrix(at+"attn_qkv", 3*textWidth, textWidth)
			matrix(at+"attn_output", textWidth, textWidth)
			matrix(at+"ffn_up", 2*textFFN, textWidth)
			matrix(at+"ffn_down", textWidth, textFFN)
			continue
		}
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			full(at+name, textWidth, textWidth)
		}
		if experts && i%2 == 1 {
			matrix(at+"ffn_gate_inp", textExperts, textWidth)
			parts := func(name string, rows, cols int) {
				v := values(textExperts*rows*cols, 0, 1.5/math.Sqrt(float64(cols)))
				b.Tensor(name+".weight", []uint64{uint64(cols), uint64(rows), textExperts}, m.typ, encodeAs(t, m.typ, v))
			}
			parts(at+"ffn_up_exps", textFFN, textWidth)
			parts(at+"ffn_down_exps", textWidth, textFFN)
		} else {
			full(at+"ffn_up", textFFN, textWidth)
			full(at+"ffn_down", textWidth, textFFN)
		}
		norm(at + "attn_output_norm")
		norm(at + "layer_output_norm")
	}
	if m.cls {
		full("cls", textWidth, textWidth)
	}
	if m.labels > 0 {
		full("cls.output", m.labels, textWidth)
	}
	if m.labels > 1 && !m.unnamed {
		set("classifier.output_labels", []string{"yes", "no", "maybe"}[:m.labels])
	}
	if m.edit != nil {
		m.edit(b)
	}
	raw, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func openEncoder(t testing.TB, f *gguf.File, o Options) *Encoder {
	t.Helper()
	e, err := OpenEncoder(f, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return e
}

func embed(t testing.TB, e *Encoder, texts ...[]int32) [][]float32 {
	t.Helper()
	a := &inference.Embedding{Texts: texts}
	if err := e.Embed(context.Background(), a); err != nil {
		t.Fatal(err)
	}
	if len(a.Vectors) != len(texts) {
		t.Fatalf("%d vectors of %d texts", len(a.Vectors), len(texts))
	}
	return a.Vectors
}

func randomText(r *rand.Rand, n int) []int32 {
	text := make([]int32, n)
	for i := range text {
		text[i] = r.Int32N(textVocab)
	}
	return text
}

func TestVectorsArePooledRows(t *testing.T) {
	text := randomText(rand.New(rand.NewPCG(1, 1)), 37)
	for _, arch := range []string{"bert", "modern-bert"} {
		for _, pooling := range []inference.Pooling{inference.PoolingMean, inference.PoolingCLS, inference.PoolingLast} {
			f := tinyText{arch: arch, typ: gguf.TypeF32, pooling: pooling}.file(t)
			hidden := hiddenOf(t, load(t, f), isa.Auto, [][]int32{text}, 64, 1)
			want := make([]float64, textWidth)
			for i := range hidden {
				switch r := i / textWidth; {
				case pooling == inference.PoolingMean:
					want[i%textWidth] += float64(hidden[i]) / float64(len(text))
				case pooling == inference.PoolingCLS && r == 0, pooling == inference.PoolingLast && r == len(text)-1:
					want[i%textWidth] = float64(hidden[i])
				}
			}
			got := embed(t, openEncoder(t, f, Options{}), text)[0]
			for i, v := range got {
				if math.Abs(float64(v)-want[i]) > 1e-6 {
					t.Fatalf("%s, %v: value %d is %v, want %v", arch, pooling, i, v, want[i])
				}
			}
		}
	}
}

// The second promise of every engine here: the same answer whatever the batch. Calls
// of random texts meet in passes with others, cut into blocks and pauses as they come.
func TestAVectorDoesNotDependOnItsCompany(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	list := make([][]int32, 60)
	for i := range list {
		list[i] = randomText(r, 1+r.IntN(1<<(1+i%8)))
	}
	for _, m := range []tinyText{
		{arch: "bert", typ: gguf.TypeF32, pooling: inference.PoolingMean},
		{arch: "bert", typ: gguf.TypeF16, pooling: inference.PoolingCLS},
		{arch: "bert", typ: gguf.TypeQ8_0, pooling: inference.PoolingMean},
		{arch: "modern-bert", typ: gguf.TypeQ8_0, pooling: inference.PoolingMean},
		{arch: "nomic-bert-moe", typ: gguf.TypeQ8_0, pooling: inference.PoolingMean},
	} {
		f := m.file(t)
		for _, level := range levels() {
			texts, rounds := list, 8
			if shortAt(level) {
				texts, rounds = list[:16], 2
			}
			alone := openEncoder(t, f, Options{Threads: 1, Level: level})
			want := make([][]float32, len(texts))
			for i, x := range texts {
				want[i] = embed(t, alone, x)[0]
			}
			many := openEncoder(t, f, Options{Threads: 3, Level: level})
			var wg sync.WaitGroup
			for w := range 4 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(w), 3))
					for range rounds {
						pick := r.Perm(len(texts))[:1+r.IntN(len(texts)/3)]
						call := make([][]int32, len(pick))
						for i, p := range pick {
							call[i] = texts[p]
						}
						for i, v := range embed(t, many, call...) {
							if !slices.Equal(v, want[pick[i]]) {
								t.Errorf("%s %v %v: text %d has other bits among others", m.arch, m.typ, level, pick[i])
							}
						}
					}
				})
			}
			wg.Wait()
		}
	}
}

func TestAClassifierScoresPairs(t *testing.T) {
	text := randomText(rand.New(rand.NewPCG(4, 4)), 21)
	types := make([]uint8, len(text))
	for i := 9; i < len(types); i++ {
		types[i] = 1
	}
	for _, m := range []tinyText{
		{arch: "bert", typ: gguf.TypeF32, pooling: inference.PoolingRank, labels: 1, cls: true},
		{arch: "bert", typ: gguf.TypeF32, pooling: inference.PoolingRank, labels: 2},
		{arch: "bert", typ: gguf.TypeF32, pooling: inference.PoolingRank, labels: 3},
	} {
		f := m.file(t)
		e := openEncoder(t, f, Options{})
		if i := e.Info(); i.Scores != m.labels || i.Dimensions != 0 || len(i.Labels) != m.labels && m.labels > 1 {
			t.Errorf("the model says %d scores, %d dimensions, labels %v", i.Scores, i.Dimensions, i.Labels)
		}
		a := &inference.Embedding{Texts: [][]int32{text, text}, Types: [][]uint8{types, nil}}
		if err := e.Embed(context.Background(), a); err != nil {
			t.Fatal(err)
		}
		if slices.Equal(a.Vectors[0], a.Vectors[1]) {
			t.Error("token types change nothing")
		}
		x := hiddenOf(t, load(t, f), isa.Auto, [][]int32{text}, 64, 1)[:textWidth]
		d := &e.model.head
		apply := func(l *linear, x []float32) []float32 {
			out, row := make([]float32, l.w.Rows), make([]float32, l.w.Cols)
			for o := range out {
				l.w.DecodeRow(row, o)
				sum := float64(l.bias[o])
				for i, w := range row {
					sum += float64(w) * float64(x[i])
				}
				out[o] = float32(sum)
			}
			return out
		}
		if m.cls {
			x = apply(&d.cls, x)
			for i, v := range x {
				x[i] = float32(math.Tanh(float64(v)))
			}
		}
		for i, want := range apply(&d.scores, x) {
			if got := a.Vectors[1][i]; math.Abs(float64(got-want)) > 1e-5 {
				t.Errorf("%d labels: score %d is %v, want %v", m.labels, i, got, want)
			}
		}
	}
}

func TestEncodersSayWhyTheyCannotRun(t *testing.T) {
	lm := families[0]
	for want, f := range map[string]*gguf.File{
		"pooling_type is 0":      tinyText{arch: "bert", typ: gguf.TypeF32}.file(t),
		"without the tensor cls": tinyText{arch: "bert", typ: gguf.TypeF32, pooling: inference.PoolingRank}.file(t),
		"generates text":         lm.file(t),
		"pooling_type is 9":      tinyText{arch: "bert", typ: gguf.TypeF32, edit: func(b *gguf.Builder) { b.Set("bert.pooling_type", uint32(9)) }}.file(t),
		"attention.causal":       tinyText{arch: "bert", typ: gguf.TypeF32, pooling: 1, edit: func(b *gguf.Builder) { b.Set("bert.attention.causal", true) }}.file(t),
		"layer_norm_epsilon":     tinyText{arch: "bert", typ: gguf.TypeF32, pooling: 1, edit: func(b *gguf.Builder) { b.Set("bert.attention.layer_norm_epsilon", math.NaN()) }}.file(t),
		"finite": tinyText{arch: "bert", typ: gguf.TypeF32, pooling: 2, edit: func(b *gguf.Builder) {
			b.TensorF32("blk.0.extra", []uint64{1}, []float32{1})
		}}.file(t),
	} {
		_, err := OpenEncoder(f, Options{}, nil)
		if want == "finite" {
			want = "blk.0.extra"
		}
		if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error that says %q, got %v", want, err)
		}
	}
	if _, err := Open(tinyText{arch: "bert", typ: gguf.TypeF32, pooling: 1}.file(t), Options{}, nil); err == nil ||
		!strings.Contains(err.Error(), "text encoder") {
		t.Errorf("an encoder was opened as a language model: %v", err)
	}
}

func TestCallsThatCannotBeServedAreRefused(t *testing.T) {
	e := openEncoder(t, tinyText{arch: "bert", typ: gguf.TypeF32, pooling: inference.PoolingMean}.file(t), Options{MaxModelLen: 32})
	one := []int32{1}
	for _, c := range []struct {
		what string
		call inference.Embedding
		want error
	}{
		{"empty text", inference.Embedding{Texts: [][]int32{one, {}}}, inference.ErrInvalid},
		{"long text", inference.Embedding{Texts: [][]int32{make([]int32, 33)}}, inference.ErrContextLength},
		{"token", inference.Embedding{Texts: [][]int32{{textVocab}}}, inference.ErrInvalid},
		{"negative token", inference.Embedding{Texts: [][]int32{{-1}}}, inference.ErrInvalid},
		{"type", inference.Embedding{Texts: [][]int32{one}, Types: [][]uint8{{2}}}, inference.ErrInvalid},
		{"types", inference.Embedding{Texts: [][]int32{one}, Types: [][]uint8{{1, 1}}}, inference.ErrInvalid},
		{"deadline", inference.Embedding{Texts: [][]int32{one}, DoneBy: time.Now().Add(-time.Second)}, inference.ErrDeadline},
	} {
		err := e.Embed(context.Background(), &c.call)
		if c.what == "deadline" && errors.Is(err, inference.ErrDeadlineUnreachable) {
			continue
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	if w := e.Stats(); w.Waiting != 0 {
		t.Errorf("%d texts are counted as waiting", w.Waiting)
	}
}

// held is an encoder whose pool another member holds until let is called.
func held(t *testing.T, o Options) (e *Encoder, let func()) {
	t.Helper()
	p := pool.New(2)
	o.Pool = p
	f := tinyText{arch: "bert", typ: gguf.TypeF32, pooling: inference.PoolingMean}.file(t)
	e, err := OpenEncoder(f, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	gate, inside := make(chan struct{}), make(chan struct{})
	var once sync.Once
	go p.Join(1).Run(jobFunc(func(worker, item int) {
		if item == 0 {
			close(inside)
			<-gate
		}
	}), 2, 1)
	<-inside
	let = func() { once.Do(func() { close(gate) }) }
	t.Cleanup(func() {
		let()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
		p.Close()
	})
	return e, let
}

type jobFunc func(worker, item int)

func (f jobFunc) Do(worker, item int) { f(worker, item) }

func TestACancelledCallIsNeverComputed(t *testing.T) {
	e, let := held(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Embed(ctx, &inference.Embedding{Texts: [][]int32{{1, 2}, {3}}}) }()
	for e.Stats().Waiting != 2 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call ends with %v", err)
	}
	let()
	embed(t, e, []int32{5})
	if s := e.Stats(); s.Texts != 1 || s.Waiting != 0 {
		t.Errorf("%d texts were computed and %d wait, want 1 and 0", s.Texts, s.Waiting)
	}
}

// A cancelled call says how long it was computed until then.
func TestACancelledCallIsCharged(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f := tinyText{arch: "bert", typ: gguf.TypeF32, pooling: inference.PoolingMean}.file(t)
	e := openEncoder(t, f, Options{OnStep: func(StepStats) { cancel() }})
	r, call := rand.New(rand.NewPCG(2, 2)), inference.Embedding{}
	for range 500 {
		call.Texts = append(call.Texts, randomText(r, textContext))
	}
	if err := e.Embed(ctx, &call); !errors.Is(err, context.Canceled) {
		t.Fatalf("it ends with %v", err)
	}
	if call.Computed <= 0 || call.Waited <= 0 || call.Vectors != nil {
		t.Errorf("computed for %v, waited for %v, %d vectors", call.Computed, call.Waited, len(call.Vectors))
	}
}

func TestAFullEncoderRefuses(t *testing.T) {
	o := Options{}
	o.Scheduler.MaxWaiting = 4
	e, let := held(t, o)
	text := []int32{1}
	done := make(chan error, 1)
	go func() {
		done <- e.Embed(context.Background(), &inference.Embedding{Tenant: "a", Texts: [][]int32{text, text, text, text}})
	}()
	for e.Stats().Waiting != 4 {
		time.Sleep(time.Millisecond)
	}
	err := e.Embed(context.Background(), &inference.Embedding{Tenant: "b", Texts: [][]int32{text}})
	if !errors.Is(err, inference.ErrQueueFull) {
		t.Errorf("a fifth text: %v, want %v", err, inference.ErrQueueFull)
	}
	let()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A call whose time to wait is over is never computed; one that also has a deadline is told
// which of the two passed.
func TestACallWaitsNoLongerThanItMay(t *testing.T) {
	e, let := held(t, Options{})
	past, late := time.Now().Add(20*time.Millisecond), time.Now().Add(time.Hour)
	calls := []struct {
		call inference.Embedding
		want error
	}{
		{inference.Embedding{WaitUntil: past}, inference.ErrQueueTimeout},
		{inference.Embedding{WaitUntil: past, DoneBy: late}, inference.ErrQueueTimeout},
		{inference.Embedding{WaitUntil: late, DoneBy: past}, inference.ErrDeadline},
		{inference.Embedding{WaitUntil: late}, nil},
	}
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	var ended atomic.Int32
	for i := range calls {
		calls[i].call.Texts = [][]int32{{1, 2}}
		wg.Go(func() {
			errs[i] = e.Embed(context.Background(), &calls[i].call)
			ended.Add(1)
		})
	}
	for e.Stats().Waiting+int(ended.Load()) < len(calls) { // a machine may be so busy that time is over before a call waits
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Until(past) + time.Millisecond)
	let()
	wg.Wait()
	for i, c := range calls {
		if !errors.Is(errs[i], c.want) || (c.call.Vectors != nil) != (c.want == nil) {
			t.Errorf("call %d: %v with %d vectors, want %v", i, errs[i], len(c.call.Vectors), c.want)
		}
	}
}

// The server's own end of waiting holds where the caller has none, or a later one.
func TestACallWaitsNoLongerThanTheServerLets(t *testing.T) {
	e, let := held(t, Options{Scheduler: scheduler.Config{MaxWait: time.Millisecond}})
	errs := make(chan error, 2)
	for _, until := range []time.Time{{}, time.Now().Add(time.Hour)} {
		go func() {
			errs <- e.Embed(context.Background(), &inference.Embedding{WaitUntil: until, Texts: [][]int32{{1, 2}}})
		}()
	}
	for e.Stats().Waiting != 2 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond)
	let()
	for range 2 {
		if err := <-errs; !errors.Is(err, inference.ErrQueueTimeout) {
			t.Errorf("the call ends with %v, want %v", err, inference.ErrQueueTimeout)
		}
	}
}

func TestAPanicInAPassFailsItsCallsOnly(t *testing.T) {
	var broken atomic.Bool
	faults := make(chan string, 10)
	o := Options{OnFault: func(s string) { faults <- s }, atPhase: func(phase) {
		if broken.Swap(false) {
			panic("a test breaks the pass")
		}
	}}
	e := openEncoder(t, tinyText{arch: "bert", typ: gguf.TypeF32, pooling: inference.PoolingMean}.file(t), o)
	want := embed(t, e, []int32{1, 2, 3})
	broken.Store(true)
	if err := e.Embed(context.Background(), &inference.Embedding{Texts: [][]int32{{1, 2, 3}}}); !errors.Is(err, inference.ErrInternal) {
		t.Errorf("a call of a broken pass ends with %v", err)
	}
	if got := embed(t, e, []int32{1, 2, 3}); !slices.Equal(got[0], want[0]) {
		t.Error("the vector is another one after a fault")
	}
	if s := e.Stats(); s.Panics != 1 || len(faults) != 1 {
		t.Errorf("%d panics and %d faults were reported, want one of each", s.Panics, len(faults))
	}
}

// A long text is computed in turns: a language model on the same pool makes steps
// meanwhile.
func TestALongTextHoldsNoLanguageModelUp(t *testing.T) {
	reference.Slow(t)
	p := pool.New(2)
	defer p.Close()
	e, err := OpenEncoder(tinyText{arch: "bert", typ: gguf.TypeF32, pooling: inference.PoolingMean}.file(t), Options{Pool: p}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	var beside atomic.Int64
	lm, err := Open(families[0].file(t), Options{Pool: p, OnStep: func(StepStats) {
		if e.Stats().Running > 0 {
			beside.Add(1)
		}
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer lm.Close(context.Background())
	r := rand.New(rand.NewPCG(8, 8))
	var call inference.Embedding
	texts := 200
	if isa.Best() == isa.Portable || reference.Raced { // a tenth as fast
		texts = 40
	}
	for range texts {
		call.Texts = append(call.Texts, randomText(r, textContext))
	}
	done := make(chan error, 1)
	go func() { done <- e.Embed(context.Background(), &call) }()
	for beside.Load() < 5 {
		req := &inference.Request{Prompt: []int32{1, 2, 3}, MaxTokens: 20, N: 1, IgnoreEOS: true, PromptLogprobs: -1, Sampling: inference.DefaultSampling()}
		s, err := lm.Submit(req)
		if err != nil {
			t.Fatal(err)
		}
		events := make([]inference.Event, 32)
		for ended := false; !ended; {
			<-s.Wake()
			_, ended, _ = s.Poll(events)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			if beside.Load() == 0 {
				t.Fatal("no step of the language model came between the parts of the passes")
			}
			return
		default:
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
