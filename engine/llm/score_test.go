package llm

import (
	"path/filepath"
	"strings"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/attend"
	"weir/internal/reference"
)

func score(t *testing.T, f *gguf.File, o Options, exact func(string) bool, tokens []int32, from int) []float32 {
	t.Helper()
	o.MaxModelLen = len(tokens)
	s, err := OpenScorer(f, o, exact, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var rows []float32
	next := from
	if err := s.Score(tokens, from, func(position int, logits []float32) {
		if position != next || len(logits) != s.Vocabulary() {
			t.Fatalf("position %d with %d logits, want %d", position, len(logits), next)
		}
		next++
		rows = append(rows, logits...)
	}); err != nil {
		t.Fatal(err)
	}
	if next != len(tokens) {
		t.Fatalf("%d positions of %d", next, len(tokens))
	}
	return rows
}

// The exact weights of a quantised file give what the reference computed from them in
// double precision would, and far more closely than the served model does; what is served
// has an engine's own bits.
func TestScorer(t *testing.T) {
	dir := reference.Path(t, "testdata/logits")
	tokens := readTokens(t, dir)
	names := []string{"llama3-Q4_0", "llama3-Q6_K", "llama3-F32"}
	if testing.Short() {
		names = names[:1]
	}
	for _, name := range names {
		f, err := gguf.Open(filepath.Join(dir, name+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		ref := readFloats(t, filepath.Join(dir, name+".logits"))
		m := load(t, f)
		all := func(string) bool { return true }
		for _, level := range levels() {
			if name != names[0] && shortAt(level) {
				continue
			}
			o := Options{Level: level, Threads: 2, KVType: attend.KVF32}
			served := score(t, f, o, nil, tokens, 0)
			if want := allLogits(t, m, level, tokens, attend.KVF32, 16, 7, 2); relativeL2(served, want) != 0 {
				t.Errorf("%s %v: the served logits are not the engine's", name, level)
			}
			exact := score(t, f, o, all, tokens, 0)
			e := relativeL2(exact, ref)
			t.Logf("%s %v: exact %.1e, served %.1e", name, level, e, relativeL2(served, ref))
			if e > 1e-4 {
				t.Errorf("%s %v: relative L2 %.2e from the reference", name, level, e)
			}
			if from := len(tokens) / 2; relativeL2(score(t, f, o, all, tokens, from), exact[from*m.vocab:]) != 0 {
				t.Errorf("%s %v: a later beginning gives other logits", name, level)
			}
		}
	}
}

// One tensor is exact, the others as served: neither all bits of the one nor of the other.
func TestScorerOfSomeExactTensors(t *testing.T) {
	dir := reference.Path(t, "testdata/logits")
	f, err := gguf.Open(filepath.Join(dir, "llama3-Q4_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tokens := readTokens(t, dir)[:8]
	o := Options{Threads: 2, KVType: attend.KVF32}
	served, exact := score(t, f, o, nil, tokens, 0), score(t, f, o, func(string) bool { return true }, tokens, 0)
	some := score(t, f, o, func(tensor string) bool { return strings.Contains(tensor, "ffn_down") }, tokens, 0)
	if relativeL2(some, served) == 0 || relativeL2(some, exact) == 0 {
		t.Errorf("to served %.1e, to exact %.1e", relativeL2(some, served), relativeL2(some, exact))
	}
}

func TestScorerRefuses(t *testing.T) {
	f, err := gguf.Open(filepath.Join(reference.Path(t, "testdata/logits"), "llama3-Q4_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := OpenScorer(f, Options{MaxModelLen: 20}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, tokens := range [][]int32{nil, make([]int32, s.MaxTokens()+1), {1, -1}, {int32(s.Vocabulary())}} {
		if err := s.Score(tokens, 0, func(int, []float32) { t.Error("it was scored") }); err == nil {
			t.Errorf("%d tokens were taken", len(tokens))
		}
	}
}
