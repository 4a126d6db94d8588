//go:build ort

package onnx

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"weir/internal/tensor"
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
	m, err := Load(oneNode("", "Hardmax", 6))
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

// heavy is a model that this package's evaluator does not support, since its operator set is below 7, with 4 MiB of weights.
func heavy() []byte {
	const width = 1024
	node := func(op, out string, in ...string) []byte {
		var n []byte
		for _, name := range in {
			n = field(n, 1, []byte(name))
		}
		return field(field(n, 2, []byte(out)), 4, []byte(op))
	}
	weights := field(field(integer(integer(integer(nil, 1, width), 1, width), 2, 1), 8, []byte("w")), 9, bytes.Repeat([]byte{0, 0, 0, 0x3f}, width*width))
	graph := field(field(nil, 1, node("Hardmax", "h", "x")), 1, node("MatMul", "y", "h", "w"))
	graph = field(field(field(field(graph, 2, []byte("g")), 5, weights), 11, valueInfo("x")), 12, valueInfo("y"))
	return field(field(integer(nil, 1, 8), 7, graph), 8, integer(field(nil, 1, nil), 2, 6))
}

// resident is the process's memory.
func resident(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("no /proc/self/statm")
	}
	var size, pages int
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// TestCloseFreesASession: models that are closed leave nothing behind, though they are
// still referred to; those that are not keep their weights, which shows that it is measured.
func TestCloseFreesASession(t *testing.T) {
	library(t)
	data, x := heavy(), floats("x", []int64{1, 1024}, make([]float32, 1024)...)
	var kept []*Model
	open := func() *Model {
		m, err := Load(data)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := m.Run(x); err != nil || !m.Native() || tensor.Values[float32](&out[0])[7] != 0.5 {
			t.Fatal(out, err)
		}
		kept = append(kept, m)
		return m
	}
	const n, weights = 40, 4 << 20
	if err := open().Close(); err != nil { // the first one fills ONNX Runtime's own tables
		t.Fatal(err)
	}
	before := resident(t)
	for range n {
		if err := open().Close(); err != nil {
			t.Fatal(err)
		}
	}
	closed := resident(t) - before
	for range n {
		open()
	}
	opened := resident(t) - before - closed
	t.Logf("%d sessions of %d bytes of weights: %d bytes more after they were closed, %d bytes open", n, weights, closed, opened)
	if closed > opened/4 || opened < n*weights {
		t.Error("closed sessions keep memory, or open ones take none")
	}
	for _, m := range kept {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := kept[0].Run(x); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a closed model runs: %v", err)
	}
}
