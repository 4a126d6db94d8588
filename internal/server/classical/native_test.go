//go:build ort

package classical

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"weir/engine/classic"
	"weir/engine/onnx"
	"weir/internal/inference"
	"weir/internal/tensor"
)

func field(to []byte, number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), content)
}

func integer(to []byte, number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.VarintType), v)
}

const heavyWidth = 1024 // inputs of heavy

// heavy is a model that only ONNX Runtime computes, since its operator set is below 7, with 4 MiB of weights.
func heavy() []byte {
	value := func(name string) []byte {
		shape := field(field(nil, 1, nil), 1, nil)
		return field(field(nil, 1, []byte(name)), 2, field(nil, 1, field(integer(nil, 1, 1), 2, shape)))
	}
	hardmax := field(field(field(nil, 1, []byte("x")), 2, []byte("h")), 4, []byte("Hardmax"))
	product := field(field(field(field(nil, 1, []byte("h")), 1, []byte("w")), 2, []byte("y")), 4, []byte("MatMul"))
	weights := field(integer(integer(integer(nil, 1, heavyWidth), 1, heavyWidth), 2, 1), 8, []byte("w"))
	weights = field(weights, 9, bytes.Repeat([]byte{0, 0, 0, 0x3f}, heavyWidth*heavyWidth))
	graph := field(field(field(field(nil, 1, hardmax), 1, product), 2, []byte("g")), 5, weights)
	graph = field(field(graph, 11, value("x")), 12, value("y"))
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

var loadRuntime sync.Once // of the process, whatever -count says

// A version in ONNX Runtime is closed when it leaves memory, reloaded, evicted or unloaded,
// and not before the requests that have it are done: none fails.
func TestVersionsInONNXRuntimeAreClosed(t *testing.T) {
	library := os.Getenv("WEIR_ORT_LIBRARY")
	if library == "" {
		library = filepath.Join("..", "..", "..", ".cache", "ort", "libonnxruntime.so.1")
	}
	if _, err := os.Stat(library); err != nil {
		t.Skipf("SKIPPED, nothing is compared: no ONNX Runtime (%v); make ort-lib, or set WEIR_ORT_LIBRARY", err)
	}
	loadRuntime.Do(func() {
		if err := onnx.SetRuntime(library); err != nil {
			t.Fatal(err)
		}
	})
	data := string(heavy())
	const room = 12 << 20 // one of the two models, by about twice its file
	r, seen := newTestModels(t, room, Source{Source: classic.Source{Name: "a", Data: data}}, Source{Source: classic.Source{Name: "b", Data: data}})
	row := func() *inference.Prediction {
		return &inference.Prediction{Tenant: "t", Inputs: []tensor.Tensor{
			tensor.Of("x", tensor.Float32, []int64{1, heavyWidth}, make([]float32, heavyWidth)),
		}}
	}
	var kept []*classic.Version // so that no cleanup of the garbage collector's closes them
	use := func(name string) error {
		p := row()
		if err := predict(t, r, name, "", p); err != nil {
			return err
		}
		if v := find(t, r, name, "").Loaded(); v != nil {
			kept = append(kept, v)
		}
		if y := tensor.Values[float32](&p.Outputs[0]); y[3] != 0.5 {
			return fmt.Errorf("y is %v", y[3])
		}
		return nil
	}
	for _, name := range []string{"a", "b", "a"} {
		if err := use(name); err != nil {
			t.Fatal(err)
		}
	}
	before := resident(t)
	for i := range 30 { // each use of one evicts the other
		if err := use([]string{"a", "b"}[i%2]); err != nil {
			t.Fatal(err)
		}
	}
	var stop atomic.Bool
	var answers atomic.Int64
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for !stop.Load() {
				if err := predict(t, r, "a", "", row()); err != nil {
					t.Errorf("a prediction beside reloads: %v", err)
					return
				}
				answers.Add(1)
			}
		})
	}
	for range 30 {
		if err := r.Load(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if v := find(t, r, "a", "").Loaded(); v != nil {
			kept = append(kept, v)
		}
	}
	stop.Store(true)
	wait.Wait()
	last := find(t, r, "a", "").Loaded()
	if err := r.Unload("a"); err != nil {
		t.Fatal(err)
	}
	more := resident(t) - before
	seen.mu.Lock()
	t.Logf("%d versions, %d answers beside reloads, %d changes, %d bytes more", len(kept), answers.Load(), len(seen.list), more)
	seen.mu.Unlock()
	if more > 200<<20 { // a leak of all is above 400 MB
		t.Errorf("%d bytes more", more)
	}
	r.Close() // waits for what closes
	for _, v := range append(kept, last) {
		if err := r.opts.Lane.Predict(t.Context(), v, row()); !errors.Is(err, inference.ErrUnavailable) {
			t.Fatalf("a closed version computes: %v", err)
		}
	}
}
