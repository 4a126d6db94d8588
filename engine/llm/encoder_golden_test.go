package llm

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/kvcache"
)

// encoders are the architectures with exact outputs in the reference data, derived those
// whose outputs testdata/encoders.py has computed from the definitions, in doubles.
var (
	encoders = []string{"bert", "nomic-bert", "modern-bert", "gemma-embedding"}
	derived  = []string{"jina-bert-v2", "jina-bert-v2-code", "nomic-bert-moe", "gemma-embedding2"}
)

// hiddenOf runs texts through an encoder as one batch, blockRows rows of a layer at a
// time, and returns the hidden states of all rows.
func hiddenOf(t *testing.T, m *model, level isa.Level, texts [][]int32, blockRows, threads int) []float32 {
	t.Helper()
	c := kernel.NewCPU(threads, level)
	defer c.Close()
	rows, blocks := 0, 1
	for _, x := range texts {
		rows += len(x)
		blocks += (len(x) + 15) / 16 * len(m.cacheShape.Tables)
	}
	kv, err := attend.NewPages(m.cacheShape.sized(attend.KVF32, 16, blocks).Tables)
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	var b batch
	next := kvcache.BlockID(1)
	for _, x := range texts {
		tables := make([][]kvcache.BlockID, len(m.cacheShape.Tables))
		for t := range tables {
			for range (len(x) + 15) / 16 {
				tables[t], next = append(tables[t], next), next+1
			}
		}
		b.addText(x, nil, m.causal, 16, tables...)
	}
	for r := range rows {
		b.output = append(b.output, r)
	}
	blockRows = min(blockRows, rows)
	m.begin(c, &b, blockRows)
	for i := range m.layers {
		y := &m.layers[i]
		for lo := 0; lo < rows; lo += blockRows {
			m.project(c, kv, &y.attention, &b, block{lo, min(lo+blockRows, rows)})
		}
		for lo := 0; lo < rows; lo += blockRows {
			r := block{lo, min(lo+blockRows, rows)}
			m.attend(c, kv, &y.attention, &b, r)
			m.finishLayer(c, y, &b, r)
		}
	}
	m.hiddenStates(c, &b)
	return b.hidden
}

func openReference(t *testing.T, dir, name string) *model {
	t.Helper()
	f, err := gguf.Open(filepath.Join(dir, name+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return load(t, f)
}

// Every encoder, in tiny models whose hidden states are known exactly: alone, among
// other texts, and cut into blocks.
func TestEncodersMatchTheirReferences(t *testing.T) {
	matchReferences(t, reference.Path(t, "architectures"), encoders)
}

func TestEncodersMatchTheirDefinitions(t *testing.T) {
	matchReferences(t, filepath.Join("testdata", "encoders"), derived)
}

func matchReferences(t *testing.T, dir string, names []string) {
	t.Helper()
	tokens := readTokens(t, dir)
	others := [][]int32{tokens[:5], tokens[7:50], tokens[3:4]}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			m := openReference(t, dir, name)
			ref := readFloats(t, filepath.Join(dir, name+".hidden"))
			if len(ref) != len(tokens)*m.width {
				t.Fatalf("%d reference values for %d tokens of %d", len(ref), len(tokens), m.width)
			}
			for _, level := range levels() {
				alone := hiddenOf(t, m, level, [][]int32{tokens}, len(tokens), 2)
				e := relativeL2(alone, ref)
				t.Logf("%v: relative L2 %.1e", level, e)
				if e > 2e-6 {
					t.Errorf("%v: relative L2 %.2e", level, e)
				}
				texts := [][]int32{others[0], others[1], tokens, others[2]}
				for _, blockRows := range []int{1 << 20, 40, 7, 1} {
					got := hiddenOf(t, m, level, texts, blockRows, 3)
					first := (len(others[0]) + len(others[1])) * m.width
					if !slices.Equal(got[first:first+len(alone)], alone) {
						t.Errorf("%v, blocks of %d rows: other bits than alone", level, blockRows)
					}
				}
			}
		})
	}
}

// A file whose experts are not what its metadata say is refused by name, as are experts in
// a family that has none.
func TestExpertsOfAFileAreChecked(t *testing.T) {
	set := func(key string, v any) func(b *gguf.Builder) { return func(b *gguf.Builder) { b.Set(key, v) } }
	for _, c := range []struct {
		arch string
		edit func(b *gguf.Builder)
		want string
	}{
		{"nomic-bert-moe", set("nomic-bert-moe.expert_used_count", uint32(7)), "expert_used_count is 7, more than expert_count 6"},
		{"nomic-bert-moe", set("nomic-bert-moe.expert_count", uint32(5)), "ffn_gate_inp"},
		{"nomic-bert-moe", set("nomic-bert-moe.moe_every_n_layers", uint32(1)), "blk.1.ffn_up.weight is missing"},
		{"bert", set("bert.expert_count", uint32(2)), "mixtures of experts"},
	} {
		m := tinyText{arch: c.arch, typ: gguf.TypeF32, pooling: inference.PoolingMean, edit: c.edit}
		if _, err := loadModel(m.file(t)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.arch, err, c.want)
		}
	}
}
