package onnx

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"weir/internal/tensor"
)

var benchmarked = []string{"linear", "scaled", "mlp_relu", "mlp_three", "columns", "columns_forest", "forest_three", "xgboost_two", "lightgbm_three", "svc_three"}

// BenchmarkRun cycles through the golden rows, one at a time and all at once.
func BenchmarkRun(b *testing.B) {
	for _, name := range benchmarked {
		m, err := Load(readModel(b, name))
		if err != nil {
			b.Fatal(err)
		}
		benchmark(b, name, m)
	}
}

func benchmark(b *testing.B, name string, m *Model) {
	golden, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
	if err != nil {
		b.Fatal(err)
	}
	in, _, _ := readGolden(b, golden)
	rows := in[0].Shape[0]
	var single [][]tensor.Tensor
	for r := range rows {
		var batch []tensor.Tensor
		for _, t := range in {
			batch = append(batch, part(t, r, r+1))
		}
		single = append(single, batch)
	}
	for _, batches := range [][][]tensor.Tensor{single, {in}} {
		n := batches[0][0].Shape[0]
		b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := m.Run(batches[i%len(batches)]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
		})
	}
}
