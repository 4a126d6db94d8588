package llm

import (
	"fmt"
	"os"
	"testing"

	"weir/engine/gguf"
	"weir/engine/kernel"
	"weir/engine/kernel/attend"
	"weir/engine/kernel/isa"
	"weir/kvcache"
)

// benchFile opens the file named by WEIR_BENCH_MODEL.
func benchFile(b *testing.B) *gguf.File {
	b.Helper()
	path := os.Getenv("WEIR_BENCH_MODEL")
	if path == "" {
		b.Skip("WEIR_BENCH_MODEL names no file")
	}
	f, err := gguf.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return f
}

// loadBenchModel loads a file.
func loadBenchModel(b *testing.B, f *gguf.File) *model {
	b.Helper()
	m, err := loadModel(f)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.release() })
	return m
}

// BenchmarkForward times the forward pass alone, without scheduler and
// sampling, on the file named by WEIR_BENCH_MODEL: prefill of 512 rows, and
// decode of n sequences at 128 tokens with the output matrix.
//
//	WEIR_BENCH_MODEL=model.gguf go test ./engine/llm -run - -bench Forward
func BenchmarkForward(b *testing.B) {
	m := loadBenchModel(b, benchFile(b))
	level, err := isa.Parse(os.Getenv("WEIR_BENCH_LEVEL"))
	if err != nil {
		b.Fatal(err)
	}
	c := kernel.NewCPU((&Options{}).threads(), level)
	defer c.Close()
	const blockTokens = 16
	kv, err := attend.NewPages(m.cacheShape.sized(attend.KVF16, blockTokens, 1025).Tables)
	if err != nil {
		b.Fatal(err)
	}
	defer kv.Close()
	b.Run("pp512", func(b *testing.B) { benchForward(b, m, c, kv, 1, 512, 0, false) })
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		b.Run(fmt.Sprintf("tg/%d", n), func(b *testing.B) { benchForward(b, m, c, kv, n, 1, 127, true) })
	}
}

// benchForward runs rows rows of each of n sequences from position start on.
func benchForward(b *testing.B, m *model, c *kernel.CPU, kv *attend.Pages, n, rows, start int, logits bool) {
	var batch batch
	next := kvcache.BlockID(1)
	for s := range n {
		blocks := make([]kvcache.BlockID, (start+rows+15)/16)
		for i := range blocks {
			blocks[i] = next
			next++
		}
		tokens := make([]int32, rows)
		for i := range tokens {
			tokens[i] = int32(1000 + 17*i + 29*s)
		}
		row := batch.add(tokens, start, 16, blocks)
		batch.output = append(batch.output, row+rows-1)
	}
	out := make([]float32, n*m.vocab)
	for b.Loop() {
		m.forward(c, kv, &batch)
		if logits {
			m.logits(c, out, batch.hidden, n)
		}
	}
	b.ReportMetric(float64(n*rows*b.N)/b.Elapsed().Seconds(), "tok/s")
}
