package classic

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weir/internal/inference"
	"weir/internal/reference"
	"weir/internal/tensor"
)

// Every ONNX model of the evaluator's tests goes through the lane: callers of several rows
// and of single ones, batched or not, get the bits that the evaluator gives for the same
// rows at once.
func TestGraphsInTheLane(t *testing.T) {
	reference.Slow(t)
	files, err := filepath.Glob("../onnx/testdata/*.onnx")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d models: %v", len(files), err)
	}
	l := newTestLane(t, LaneOptions{Cores: 2})
	batched := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".onnx")
		v, err := Load(data, name, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !v.Batches() {
			continue
		}
		in := v.sample(nil)
		if in == nil {
			continue
		}
		batched++
		all, err := v.compute(in)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for from := 0; from < probeRows; from += 4 {
			wg.Go(func() {
				to := from + 1 + from%4
				p := &inference.Prediction{Tenant: "a", Inputs: parts(in, from, to)}
				if err := l.Predict(t.Context(), v, p); err != nil {
					t.Errorf("%s: %v", name, err)
				} else if !same(p.Outputs, parts(all, from, to)) {
					t.Errorf("%s: rows %d to %d differ from those of the whole", name, from, to)
				}
			})
		}
		wg.Wait()
	}
	if batched < len(files)/2 {
		t.Errorf("%d of %d models are batched", batched, len(files))
	}
	t.Logf("%d of %d models are batched", batched, len(files))
}

func TestGraphsConvertAndRefuse(t *testing.T) {
	data, err := os.ReadFile("../onnx/testdata/boosting.onnx")
	if err != nil {
		t.Fatal(err)
	}
	v, err := Load(data, "boosting", Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, spec := newTestLane(t, LaneOptions{Cores: 1}), v.Describe().Inputs[0]
	width := spec.Shape[1]
	row := make([]float64, width)
	doubles := &inference.Prediction{Inputs: []tensor.Tensor{tensor.Of(spec.Name, tensor.Float64, []int64{1, width}, row)}}
	floats := &inference.Prediction{Inputs: []tensor.Tensor{tensor.Of(spec.Name, tensor.Float32, []int64{1, width}, make([]float32, width))}}
	for _, p := range []*inference.Prediction{doubles, floats} {
		if err := l.Predict(t.Context(), v, p); err != nil {
			t.Fatal(err)
		}
	}
	if !same(doubles.Outputs, floats.Outputs) {
		t.Errorf("%v and %v", doubles.Outputs, floats.Outputs)
	}
	for name, in := range map[string][]tensor.Tensor{
		"another name": {tensor.Of("nothing", tensor.Float32, []int64{1, width}, make([]float32, width))},
		"wrong shape":  {tensor.Of(spec.Name, tensor.Float32, []int64{width}, make([]float32, width))},
		"strings":      {{Name: spec.Name, Type: tensor.Bytes, Shape: []int64{1, width}, Strings: make([][]byte, width)}},
		"none":         nil,
	} {
		if err := l.Predict(t.Context(), v, &inference.Prediction{Inputs: in}); !errors.Is(err, inference.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
