package llm

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weir/engine/gguf"
	"weir/internal/inference"
)

// miniLM is what testdata/minilm.py wrote: the folder, and its texts with the ids and
// vectors of the model's own library.
type miniLM struct {
	folder string
	texts  []struct {
		Text   string
		IDs    []int32
		Vector []float64
	}
}

// openMiniLM ends the test where WEIR_TEST_MINILM does not name the folder: the model
// has 90 MB, which no repository should carry.
func openMiniLM(t testing.TB) *miniLM {
	t.Helper()
	m := &miniLM{folder: os.Getenv("WEIR_TEST_MINILM")}
	if m.folder == "" {
		t.Skip("WEIR_TEST_MINILM is not set: engine/llm/testdata/minilm.py writes what it is to name")
	}
	raw, err := os.ReadFile(filepath.Join(m.folder, "minilm.json"))
	if err == nil {
		err = json.Unmarshal(raw, &m.texts)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *miniLM) file(t testing.TB, typ string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(filepath.Join(m.folder, "minilm-"+typ+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func cosine(a []float32, b []float64) float64 {
	dot, x, y := 0.0, 0.0, 0.0
	for i, v := range a {
		dot += float64(v) * b[i]
		x += float64(v) * float64(v)
		y += b[i] * b[i]
	}
	return dot / math.Sqrt(x*y)
}

// A real model's vectors are those of its own library, all texts in one call.
func TestMiniLMEqualsItsLibrary(t *testing.T) {
	m := openMiniLM(t)
	if len(m.texts) < 200 {
		t.Fatalf("%d texts", len(m.texts))
	}
	call := make([][]int32, len(m.texts))
	for i := range m.texts {
		call[i] = m.texts[i].IDs
	}
	for _, c := range []struct {
		typ   string
		dtype DType
		limit float64
	}{{"F32", AutoDType, 0.9999}, {"F16", AutoDType, 0.9999}, {"F32", BFloat16, 0.9999}, {"F16", BFloat16, 0.9999}, {"Q8_0", AutoDType, 0.999}} {
		typ, limit := c.typ+" "+DTypes[c.dtype], c.limit
		e := openEncoder(t, m.file(t, c.typ), Options{DType: c.dtype})
		a := &inference.Embedding{Texts: call}
		if err := e.Embed(context.Background(), a); err != nil {
			t.Fatal(err)
		}
		all := make([]float64, len(call))
		for i, v := range a.Vectors {
			all[i] = cosine(v, m.texts[i].Vector)
			if !(all[i] >= limit) {
				t.Errorf("%s: text %d (%d tokens): cosine %.6f", typ, i, len(call[i]), all[i])
			}
		}
		slices.Sort(all)
		t.Logf("%s: %d texts, cosine at least %.8f, median %.8f", typ, len(all), all[0], all[len(all)/2])
	}
}
