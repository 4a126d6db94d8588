package onnx

import (
	"archive/zip"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/engine/kernel/vector"
	"weir/internal/tensor"
)

// eachNetwork calls f for every network and single operator of testdata/neural.zip, with its inputs and ONNX Runtime's outputs.
func eachNetwork(t *testing.T, f func(t *testing.T, name string, m *Model, in, want []tensor.Tensor)) {
	t.Helper()
	count := 0
	for _, name := range []string{"neural.zip", "half.zip"} {
		count += eachOf(t, name, f)
	}
	if count < 180 {
		t.Errorf("%d networks", count)
	}
}

// eachOf counts the networks of an archive.
func eachOf(t *testing.T, name string, f func(t *testing.T, name string, m *Model, in, want []tensor.Tensor)) (count int) {
	t.Helper()
	archive, err := zip.OpenReader(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	for _, file := range archive.File {
		name, isModel := strings.CutSuffix(file.Name, ".onnx")
		if !isModel {
			continue
		}
		count++
		t.Run(name, func(t *testing.T) {
			m, err := Load(unpacked(t, &archive.Reader, file.Name))
			if err != nil {
				t.Fatal(err)
			}
			in, want, _ := readGolden(t, unpacked(t, &archive.Reader, name+".golden"))
			f(t, name, m, in, want)
		})
	}
	return count
}

// TestNetworksEqualONNXRuntime holds every network to ONNX Runtime's answers: within 1e-5 of the greatest, and those of float16 within 2e-3, four
// steps of that type: ONNX Runtime rounds between some of its operators.
func TestNetworksEqualONNXRuntime(t *testing.T) {
	eachNetwork(t, func(t *testing.T, name string, m *Model, in, want []tensor.Tensor) {
		got, err := m.Run(in)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			d, err := distance(&got[i], &want[i])
			if err != nil {
				t.Errorf("output %q: %v", want[i].Name, err)
				continue
			}
			within, scale := 1e-5, 1.0
			if strings.Contains(name, "_half_") {
				within = 2e-3
			}
			switch want[i].Type {
			case tensor.Float32:
				for _, x := range tensor.Values[float32](&want[i]) {
					scale = max(scale, math.Abs(float64(x)))
				}
			case tensor.Float16:
				for _, x := range tensor.Values[uint16](&want[i]) {
					scale = max(scale, math.Abs(float64(vector.F16ToF32(x))))
				}
			default:
				continue // equal
			}
			t.Logf("output %q %v: %.3g apart, of %.3g", want[i].Name, want[i].Shape, d.absolute, scale)
			if !(d.absolute <= within*scale) {
				t.Errorf("output %q is %.3g apart, of %.3g", want[i].Name, d.absolute, scale)
			}
		}
	})
}

// TestNetworksRowsDoNotDependOnTheBatch runs networks in random batches; those that
// quantize a whole batch say so.
func TestNetworksRowsDoNotDependOnTheBatch(t *testing.T) {
	eachNetwork(t, func(t *testing.T, name string, m *Model, in, _ []tensor.Tensor) {
		if strings.HasPrefix(name, "op_") {
			return // a single operator, whose inputs are no rows
		}
		want, err := m.Run(in)
		if err != nil {
			t.Fatal(err)
		}
		if dynamic := strings.HasSuffix(name, "_dynamic"); dynamic != m.RowsMayMix() {
			t.Fatalf("mixes the rows of a batch: %v", m.RowsMayMix())
		}
		if m.RowsMayMix() {
			return
		}
		open := func(s tensor.Spec) bool { return s.Shape[0] == tensor.Any }
		if !slices.ContainsFunc(m.Inputs(), open) {
			t.Fatalf("inputs %v", m.Inputs())
		}
		runInBatches(t, m, rand.New(rand.NewPCG(3, 4)), false, in, want)
	})
}
