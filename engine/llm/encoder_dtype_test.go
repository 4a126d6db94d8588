package llm

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel/isa"
	"weir/engine/kernel/weight"
	"weir/internal/inference"
	"weir/internal/reference"
)

// TestEncodersInBFloat16 compares the vectors of products of bfloat16 with those of floats, and the bits of a text alone with those
// among others; where the processor has no such products, both are the same.
func TestEncodersInBFloat16(t *testing.T) {
	reference.Slow(t)
	texts := tinyTexts(9, 17)
	for _, arch := range []string{"bert", "modern-bert", "nomic-bert-moe"} {
		for _, typ := range []gguf.Type{gguf.TypeF32, gguf.TypeF16, gguf.TypeBF16} {
			t.Run(fmt.Sprint(arch, " ", typ), func(t *testing.T) {
				m := tinyText{arch: arch, typ: typ, pooling: inference.PoolingMean}
				vectors := func(o Options, texts [][]inference.TokenID) [][]float32 {
					a := &inference.Embedding{Texts: texts}
					if err := openEncoder(t, m.file(t), o).Embed(context.Background(), a); err != nil {
						t.Fatal(err)
					}
					return a.Vectors
				}
				floats, rounded := vectors(Options{DType: Float32}, texts), vectors(Options{DType: BFloat16}, texts)
				for i, v := range rounded {
					e := relativeL2(v, floats[i])
					if e > 0.03 {
						t.Errorf("text %d: relative L2 %.1e", i, e)
					}
					if has := weight.HasPairs(isa.Best()); has == (e == 0) {
						t.Errorf("text %d: relative L2 %.1e, and it is %v that the processor has such products", i, e, has)
					}
					if alone := vectors(Options{DType: BFloat16}, texts[i:i+1]); !slices.Equal(alone[0], v) {
						t.Errorf("text %d has other bits alone", i)
					}
				}
				auto, want := vectors(Options{}, texts), floats
				if typ == gguf.TypeBF16 {
					want = rounded
				}
				for i := range auto {
					if !slices.Equal(auto[i], want[i]) {
						t.Errorf("text %d: auto has other bits", i)
					}
				}
			})
		}
	}
}

// tinyTexts are texts of different lengths for the tiny encoders.
func tinyTexts(count, step int) [][]inference.TokenID {
	texts := make([][]inference.TokenID, count)
	for i := range texts {
		texts[i] = make([]inference.TokenID, 1+i*step%61)
		for k := range texts[i] {
			texts[i][k] = inference.TokenID((i*31 + k*k*7) % textVocab) //nolint:gosec // below textVocab
		}
	}
	return texts
}
