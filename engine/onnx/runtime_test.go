//go:build ort

package onnx

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// library finds ONNX Runtime: where WEIR_ORT_LIBRARY says, or where make ort-lib puts it.
func library(t testing.TB) {
	t.Helper()
	path := os.Getenv("WEIR_ORT_LIBRARY")
	if path == "" {
		path = filepath.Join("..", "..", ".cache", "ort", "libonnxruntime.so.1")
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED, nothing is compared: no ONNX Runtime (%v); make ort-lib, or set WEIR_ORT_LIBRARY", err)
	}
	once.Do(func() { loaded = SetRuntime(path) })
	if loaded != nil {
		t.Fatal(loaded)
	}
}

var (
	once   sync.Once
	loaded error
)

// TestSessionsGiveTheGoldenOutputs runs every model by ONNX Runtime itself, through the
// same conversions as a served model.
func TestSessionsGiveTheGoldenOutputs(t *testing.T) {
	library(t)
	for _, name := range testModels(t) {
		t.Run(name, func(t *testing.T) {
			data := readModel(t, name)
			p, err := parseModel(data)
			if err != nil {
				t.Fatal(err)
			}
			m, err := openSession(data, p)
			if err != nil {
				t.Fatal(err)
			}
			golden, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
			if err != nil {
				t.Fatal(err)
			}
			in, want, _ := readGolden(t, golden)
			got, err := m.Run(in)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				d, err := distance(&got[i], &want[i])
				if err != nil || d.ulps != 0 {
					t.Errorf("output %q is %d ulp apart, %v", want[i].Name, d.ulps, err)
				}
			}
		})
	}
}

// TestUnsupportedModelsGoToONNXRuntime loads one by Load itself.
func TestUnsupportedModelsGoToONNXRuntime(t *testing.T) {
	library(t)
	m, err := Load(oneNode("", "Hardmax", 21))
	if err != nil {
		t.Fatal(err)
	}
	if m.session == nil {
		t.Fatal("the model was evaluated here")
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 50 {
				out, err := m.Run(floats("x", []int64{2, 3}, 1, 5, 2, 9, 3, 4))
				if err != nil || out[0].Data[7] != 0x3f || out[0].Data[15] != 0x3f {
					t.Errorf("%v, %v", out, err)
					return
				}
			}
		})
	}
	wait.Wait()
	if _, err := m.Run(floats("x", []int64{0, 3})); err == nil {
		t.Error("an empty tensor was taken")
	}
}

func BenchmarkSession(b *testing.B) {
	library(b)
	for _, name := range benchmarked {
		data := readModel(b, name)
		p, err := parseModel(data)
		if err != nil {
			b.Fatal(err)
		}
		m, err := openSession(data, p)
		if err != nil {
			b.Fatal(err)
		}
		benchmark(b, name, m)
	}
}
