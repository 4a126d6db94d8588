package llm

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/engine/gguf"
	"weir/internal/inference"
	"weir/internal/reference"
)

func openScored(t *testing.T, name string) (e *Encoder, scores []float32, tokens []int32) {
	t.Helper()
	dir := filepath.Join("testdata", "encoders")
	f, err := gguf.Open(filepath.Join(dir, name+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return openEncoder(t, f, Options{}), readFloats(t, filepath.Join(dir, name+".scores")), readTokens(t, dir)
}

func upTo(n int) []int {
	marks := make([]int, n)
	for i := range marks {
		marks[i] = i
	}
	return marks
}

func typesOf(n int, kind uint8) []uint8 { return slices.Repeat([]uint8{kind}, n) }

// A decision head gives at each mark what its definition does, in doubles, for each type of question; and the same bits among other texts.
func TestDecisionHeadsMatchTheirDefinition(t *testing.T) {
	e, want, tokens := openScored(t, "modern-bert-laya")
	if i := e.Info(); !i.Decides || i.Scores != 0 || i.Dimensions != 0 {
		t.Fatalf("the model says %+v", i)
	}
	n := len(tokens)
	for kind := range uint8(QuestionTypes) {
		ask := func(texts [][]int32, types [][]uint8, marks [][]int) [][]float32 {
			a := &inference.Embedding{Texts: texts, Types: types, Marks: marks}
			if err := e.Embed(context.Background(), a); err != nil {
				t.Fatal(err)
			}
			return a.Vectors
		}
		alone := ask([][]int32{tokens}, [][]uint8{typesOf(n, kind)}, [][]int{upTo(n)})[0]
		if got := relativeL2(alone, want[int(kind)*n:(int(kind)+1)*n]); got > 4e-6 {
			t.Errorf("type %d: relative L2 %.1e", kind, got)
		} else {
			t.Logf("type %d: relative L2 %.1e", kind, got)
		}
		among := ask([][]int32{tokens[:9], tokens, tokens[5:40]}, [][]uint8{typesOf(9, 2-kind), typesOf(n, kind), nil}, [][]int{{0, 3}, {2, 30, 31}, {8}})
		if got := []float32{alone[2], alone[30], alone[31]}; !slices.Equal(among[1], got) || len(among[0]) != 2 || len(among[2]) != 1 {
			t.Errorf("type %d: %v among other texts, %v alone", kind, among[1], got)
		}
	}
}

// A classifier on ModernBERT gives the logits of its definition.
func TestClassifiersMatchTheirDefinition(t *testing.T) {
	e, want, tokens := openScored(t, "modern-bert-labels")
	if i := e.Info(); i.Scores != 4 || !slices.Equal(i.Labels, []string{"billing", "technical", "shipping", "other"}) {
		t.Fatalf("the model says %+v", i)
	}
	a := &inference.Embedding{Texts: [][]int32{tokens}}
	if err := e.Embed(context.Background(), a); err != nil {
		t.Fatal(err)
	}
	if got := relativeL2(a.Vectors[0], want); got > 2e-6 {
		t.Errorf("relative L2 %.1e: %v, want %v", got, a.Vectors[0], want)
	}
}

func TestMarksAreChecked(t *testing.T) {
	e, _, tokens := openScored(t, "modern-bert-laya")
	plain := openEncoder(t, tinyText{arch: "bert", typ: gguf.TypeF32, pooling: inference.PoolingMean}.file(t), Options{})
	text := [][]int32{tokens[:5]}
	for want, c := range map[string]struct {
		e *Encoder
		a inference.Embedding
	}{
		"no decision head":    {plain, inference.Embedding{Texts: text, Marks: [][]int{{0}}}},
		"marks of 0 texts":    {e, inference.Embedding{Texts: text}},
		"text 0 has no marks": {e, inference.Embedding{Texts: text, Marks: [][]int{{}}}},
		"mark 5 in text 0":    {e, inference.Embedding{Texts: text, Marks: [][]int{{0, 5}}}},
		"mark 1 in text 0":    {e, inference.Embedding{Texts: text, Marks: [][]int{{1, 1}}}},
		"token type 3":        {e, inference.Embedding{Texts: text, Marks: [][]int{{1}}, Types: [][]uint8{typesOf(5, 3)}}},
	} {
		if err := c.e.Embed(context.Background(), &c.a); !errors.Is(err, inference.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// tinyLaya is a tinyText with a decision head of one block behind its layers, whose last bias is given.
func tinyLaya(bias float32, edit func(b *gguf.Builder)) tinyText {
	return tinyText{arch: "modern-bert", typ: gguf.TypeF32, edit: func(b *gguf.Builder) {
		b.Set("modern-bert.decision.type", DecisionLaya)
		b.Set("modern-bert.decision.block_count", uint32(1))
		b.Set("modern-bert.block_count", uint32(textLayers+1))
		b.Set("modern-bert.feed_forward_length", []uint32{textFFN, textFFN, textFFN, 32})
		b.Set("tokenizer.ggml.token_type_count", uint32(QuestionTypes))
		tensor := func(name string, rows, cols int) {
			v := make([]float32, rows*max(cols, 1))
			for i := range v {
				v[i] = float32(i%7-3) / 16
			}
			dims := []uint64{uint64(rows)}
			if cols > 0 {
				dims = []uint64{uint64(cols), uint64(rows)}
			}
			b.TensorF32(name, dims, v)
		}
		full := func(name string, rows, cols int) {
			tensor(name+".weight", rows, cols)
			tensor(name+".bias", rows, 0)
		}
		tensor("token_types.weight", QuestionTypes, textWidth)
		for _, name := range []string{"blk.3.attn_norm", "blk.3.ffn_norm", "cls.norm"} {
			full(name, textWidth, 0)
		}
		full("blk.3.attn_qkv", 3*textWidth, textWidth)
		full("blk.3.attn_output", textWidth, textWidth)
		full("blk.3.ffn_up", 32, textWidth)
		full("blk.3.ffn_down", textWidth, 32)
		full("cls", textWidth, textWidth)
		tensor("cls.output.weight", textWidth, 0) // a matrix of one row, whose second size converters leave out
		b.TensorF32("cls.output.bias", []uint64{1}, []float32{bias})
		if edit != nil {
			edit(b)
		}
	}}
}

// What is wrong with a file's head is told by its keys and tensors.
func TestHeadsOfAFileAreChecked(t *testing.T) {
	if _, err := OpenEncoder(tinyLaya(1, nil).file(t), Options{}, nil); err != nil {
		t.Fatal(err)
	}
	laya := func(key string, v any) *gguf.File {
		return tinyLaya(1, func(b *gguf.Builder) { b.Set("modern-bert."+key, v) }).file(t)
	}
	classifier := func(labels int, names any) *gguf.File {
		m := tinyText{arch: "bert", typ: gguf.TypeF32, pooling: inference.PoolingRank, labels: labels, unnamed: names == nil}
		if names != nil {
			m.edit = func(b *gguf.Builder) { b.Set("bert.classifier.output_labels", names) }
		}
		return m.file(t)
	}
	many := make([]string, maxLabels+1)
	for want, f := range map[string]*gguf.File{
		`decision.type is "kev" in a file of modern-bert`:          laya("decision.type", "kev"),
		`decision.type is "" in a file of modern-bert`:             laya("decision.type", ""),
		"decision.block_count is 4, and the file has 4 blocks":     laya("decision.block_count", uint32(4)),
		"decision.block_count is 0":                                laya("decision.block_count", uint32(0)),
		"feed_forward_length is 95 in block 1 and 96 in the first": laya("feed_forward_length", []uint32{96, 95, 96, 32}),
		"feed_forward_length is of 3 layers":                       laya("feed_forward_length", []uint32{96, 96, 96}),
		"blk.3.ffn_up.weight has shape [64 32]":                    laya("feed_forward_length", []uint32{96, 96, 96, 33}),
		"tokenizer.ggml.token_type_count is 2": tinyLaya(1, func(b *gguf.Builder) {
			b.Set("tokenizer.ggml.token_type_count", uint32(2))
		}).file(t),
		`hidden_activation is "swish"`: laya("hidden_activation", "swish"),
		`decision.type is "laya" in a file of bert`: tinyText{arch: "bert", typ: gguf.TypeF32, pooling: 1, edit: func(b *gguf.Builder) {
			b.Set("bert.decision.type", "laya")
		}}.file(t),
		"tensor cls.output.bias holds NaN":                             tinyLaya(float32(math.NaN()), nil).file(t),
		"gives 3 scores, and bert.classifier.output_labels is missing": classifier(3, nil),
		`output_labels has 2 labels (["a" "b"]), and the tensor`:       classifier(3, []string{"a", "b"}),
		`has the label "a" at place 2`:                                 classifier(3, []string{"a", "b", "a"}),
		`has the label "" at place 1`:                                  classifier(3, []string{"a", "", "c"}),
		"has 65537 labels, of 65536":                                   classifier(3, many),
		"output_labels":                                                classifier(3, uint32(3)),
	} {
		if _, err := OpenEncoder(f, Options{}, nil); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// Files with heads, changed at random places, mostly of what says what the tensors are: what opens answers or refuses, and nothing panics.
func TestMutantsOfHeads(t *testing.T) {
	reference.Slow(t)
	r := rand.New(rand.NewPCG(5, 5))
	opened := 0
	for _, m := range []tinyText{
		tinyLaya(1, nil),
		{arch: "modern-bert", typ: gguf.TypeF32, pooling: inference.PoolingRank, labels: 3, cls: true},
	} {
		file := m.raw(t)
		header := len(file) - 4*countOf(t, file)
		for range 300 {
			raw := slices.Clone(file)
			for range 1 + r.IntN(3) {
				at := r.IntN(header)
				if r.IntN(4) == 0 {
					at = r.IntN(len(raw))
				}
				raw[at] = byte(r.Uint32())
			}
			f, err := gguf.Parse(bytes.NewReader(raw), int64(len(raw)))
			if err != nil {
				continue
			}
			e, err := OpenEncoder(f, Options{Threads: 1, OnFault: func(text string) { t.Error(text) }}, nil)
			if err != nil {
				continue
			}
			opened++
			a := &inference.Embedding{Texts: [][]int32{{1, 2, 3, 4, 5}}}
			if e.Info().Decides {
				a.Types, a.Marks = [][]uint8{typesOf(5, 2)}, [][]int{{1, 4}}
			}
			_ = e.Embed(context.Background(), a)
			if s := e.Stats(); s.Panics > 0 {
				t.Errorf("%+v", s)
			}
			if err := e.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d of 600 open", opened)
	if opened == 0 || opened == 600 {
		t.Error("the mutants change too much or nothing")
	}
}

// countOf is how many values the tensors of a file have.
func countOf(t *testing.T, raw []byte) (n int) {
	t.Helper()
	f := parse(t, raw)
	for i := range f.Tensors {
		n += int(f.Tensors[i].Elements())
	}
	return n
}
