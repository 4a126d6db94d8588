package llm

import (
	"encoding/binary"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/internal/reference"
	"weir/kvcache"
)

// allLogits runs tokens through the model in chunks and returns [len][vocab].
func allLogits(t *testing.T, m *model, level isa.Level, tokens []int32, kvType attend.KVType, blockTokens, chunk, threads int) []float32 {
	t.Helper()
	out := make([]float32, len(tokens)*m.vocab)
	allRows(t, m, level, tokens, kvType, blockTokens, chunk, threads, func(c *kernel.CPU, hidden []float32, lo, rows int) {
		m.logits(c, out[lo*m.vocab:], hidden, rows)
	})
	return out
}

// allRows gives take the hidden states of tokens, a chunk at a time.
func allRows(t *testing.T, m *model, level isa.Level, tokens []int32, kvType attend.KVType, blockTokens, chunk, threads int,
	take func(c *kernel.CPU, hidden []float32, lo, rows int),
) {
	t.Helper()
	c := kernel.NewCPU(threads, level)
	defer c.Close()
	shape := m.cacheShape.whole(kvType, blockTokens, len(tokens))
	kv, err := attend.NewPages(shape.Tables)
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	m.formKeys(c, kv, len(tokens))
	tables := shape.wholeTables(len(tokens))
	for _, blocks := range tables {
		slices.Reverse(blocks)
	}
	var b batch
	if b.store, err = newStates(m.states, 2); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.store.close() }()
	from := kvcache.StateID(0)
	for lo := 0; lo < len(tokens); lo += chunk {
		part := tokens[lo:min(lo+chunk, len(tokens))]
		b.reset()
		b.add(part, lo, blockTokens, tables...)
		to := kvcache.StateID(1 + lo%2) // sometimes the same
		b.carry(from, to)
		from = to
		for i := range part {
			b.output = append(b.output, i)
		}
		m.forward(c, kv, &b)
		take(c, b.hidden, lo, len(part))
	}
}

// loadModel is a model without an engine.
func loadModel(f *gguf.File) (*model, error) { return loadModelWith(f, Options{KVBlocks: 1 << 20}) }

func loadModelWith(f *gguf.File, opts Options) (*model, error) {
	o, err := readOutline(f, &opts)
	if err != nil {
		return nil, err
	}
	return o.load(func(int64, int64) {}, opts.stopped)
}

func load(t *testing.T, f *gguf.File) *model {
	t.Helper()
	m, err := loadModel(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.release() })
	return m
}

func relativeL2(got, want []float32) float64 {
	diff, norm := 0.0, 0.0
	for i := range want {
		d := float64(got[i]) - float64(want[i])
		diff += d * d
		norm += float64(want[i]) * float64(want[i])
	}
	return math.Sqrt(diff / norm)
}

var everyKVType = flag.Bool("every-kv-type", false, "print the distance from the references with the KV types without a limit, too")

// The limits are llama.cpp's own distance from the same references.
func TestLogitsMatchTheReferences(t *testing.T) {
	dir := reference.Path(t, "testdata/logits")
	tokens := readTokens(t, dir)
	for _, c := range []struct {
		name  string
		limit float64
		kv    attend.KVType
	}{
		{"llama3-F32", 1e-4, attend.KVF32}, {"llama3-F16", 1e-3, attend.KVF32}, {"llama3-BF16", 6e-3, attend.KVF32},
		{"llama3-Q8_0", 0.02, attend.KVF16}, {"llama3-Q4_0", 0.02, attend.KVF16},
		{"llama3-Q4_K", 0.03, attend.KVF16}, {"llama3-Q5_K", 0.03, attend.KVF16}, {"llama3-Q6_K", 0.03, attend.KVF16},
		{"llama-untied-f16", 1e-3, attend.KVF32}, {"qwen2-f16", 1e-3, attend.KVF32}, {"qwen3-f16", 1e-3, attend.KVF16},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := gguf.Open(filepath.Join(dir, c.name+".gguf"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			ref := readFloats(t, filepath.Join(dir, c.name+".logits"))
			m := load(t, f)
			if len(ref) != len(tokens)*m.vocab {
				t.Fatalf("%d reference values for %d tokens of %d", len(ref), len(tokens), m.vocab)
			}
			tokens := tokens
			kvs := []attend.KVType{c.kv}
			switch {
			case testing.Short():
				tokens, ref = tokens[:16], ref[:16*m.vocab]
			case *everyKVType:
				kvs = []attend.KVType{attend.KVF32, attend.KVF16, attend.KVQ8}
			}
			for _, level := range levels() {
				for _, kv := range kvs {
					e := relativeL2(allLogits(t, m, level, tokens, kv, 16, 64, 2), ref)
					t.Logf("%-17s %-8v kv %-5v relative L2 %.2e (limit %.0e)", c.name, level, kv, e, c.limit)
					if kv == c.kv && e > c.limit {
						t.Errorf("%v, kv %v: relative L2 %.3e above %.0e", level, kv, e, c.limit)
					}
				}
			}
		})
	}
}

// Every architecture, in tiny models whose outputs are known exactly: whole, and
// cut into chunks.
func TestArchitecturesMatchTheirReferences(t *testing.T) {
	matchLogits(t, reference.Path(t, "architectures"))
}

// matchLogits compares all models of a folder whose architecture the engine knows with the logits beside them.
func matchLogits(t *testing.T, dir string) {
	t.Helper()
	tokens := readTokens(t, dir)
	paths, err := filepath.Glob(filepath.Join(dir, "*.logits"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no logits in %s: %v", dir, err)
	}
	compared := 0
	for _, path := range paths {
		f, err := gguf.Open(strings.TrimSuffix(path, "logits") + "gguf")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		name, _, _ := f.String("general.architecture")
		if _, err := architectureNamed(name); err != nil {
			continue
		}
		compared++
		t.Run(strings.TrimSuffix(filepath.Base(path), ".logits"), func(t *testing.T) { compareLogits(t, load(t, f), tokens, readFloats(t, path)) })
	}
	if compared == 0 {
		t.Errorf("the engine knows no architecture of %s", dir)
	}
}

// compareLogits runs tokens through a model whole, and in chunks that must give the same bits.
func compareLogits(t *testing.T, m *model, tokens []int32, want []float32) {
	t.Helper()
	if len(want) != len(tokens)*m.vocab {
		t.Fatalf("%d reference values for %d tokens of %d", len(want), len(tokens), m.vocab)
	}
	limit := 2e-6
	if m.arch.layered { // scores of Gemma 4's kind are not scaled, so that what rounds queries and keys counts for more
		limit = 4e-6
	}
	for _, level := range levels() {
		whole := allLogits(t, m, level, tokens, attend.KVF32, 16, len(tokens), 2)
		e := relativeL2(whole, want)
		t.Logf("%v: relative L2 %.1e", level, e)
		if e > limit {
			t.Errorf("%v: relative L2 %.2e above %.0e", level, e, limit)
		}
		for i, chunk := range []int{len(tokens), 1, 7, 64, 65} {
			if chunk != 7 && level != isa.Best() && !reference.Long() {
				continue // whatever the level, the same code cuts
			}
			if !slices.Equal(allLogits(t, m, level, tokens, attend.KVF32, 16, chunk, 1+i%3), whole) {
				t.Errorf("%v, chunks of %d: other bits than whole", level, chunk)
			}
		}
		if m.attention() != nil {
			compareWindows(t, m, level, tokens)
		}
	}
}

func readTokens(t *testing.T, dir string) []int32 {
	t.Helper()
	return readIDs(t, filepath.Join(dir, "tokens.txt"))
}

// readIDs reads the tokens of a file.
func readIDs(t *testing.T, path string) []int32 {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var tokens []int32
	for w := range strings.FieldsSeq(string(raw)) {
		n, err := strconv.Atoi(w)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, int32(n))
	}
	return tokens
}

// readFloats reads little-endian 32-bit floats.
func readFloats(t *testing.T, path string) []float32 {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]float32, len(raw)/4)
	for i := range list {
		list[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return list
}

// Same bits whatever the chunks, the blocks, the threads: the engine's first
// promise, for every family, cache type and level. Each of these meets two of the cuts, and in long runs all.
func TestLogitsAreTheSameHoweverTheWorkIsCut(t *testing.T) {
	tokens := make([]int32, 70)
	for i := range tokens {
		tokens[i] = int32(i*i*7+i) % tinyVocab
	}
	cuts := [][3]int{{48, 33, 3}, {16, 16, 1}, {64, 1, 2}, {32, 7, 2}}
	at := 0
	for _, f := range families {
		m := load(t, f.file(t))
		for _, level := range levels() {
			for _, kv := range []attend.KVType{attend.KVF32, attend.KVF16, attend.KVQ8} {
				want := allLogits(t, m, level, tokens, kv, 16, len(tokens), 1)
				for range reference.Repeats(1, 2, len(cuts)) {
					c := cuts[at%len(cuts)]
					at++
					if got := allLogits(t, m, level, tokens, kv, c[0], c[1], c[2]); !slices.Equal(got, want) {
						t.Errorf("%s %v kv %v: blocks of %d, chunks of %d, %d threads: other bits", f.arch, level, kv, c[0], c[1], c[2])
					}
				}
			}
		}
	}
}
