package classic

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weir/internal/defaultmodel"
	"weir/internal/inference"
	"weir/internal/tensor"
)

// flower is a request for the built-in model, of rows of four columns.
func flower(rows ...float32) *inference.Prediction {
	return &inference.Prediction{Tenant: "a", Inputs: []tensor.Tensor{tensor.Of("input", tensor.Float32, []int64{int64(len(rows) / 4), 4}, rows)}}
}

func iris() Source {
	model, golden := defaultmodel.Iris()
	return Source{Name: "iris", Data: model, GoldenData: golden, Options: Options{Labels: defaultmodel.IrisClasses()}}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// flowers is the built-in model, loaded.
func flowers(t *testing.T) *Version {
	t.Helper()
	s := iris()
	v, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Who ends the process does not wait for a large file.
func TestReadingEndsWithItsContext(t *testing.T) {
	model, _ := defaultmodel.Iris()
	path := filepath.Join(t.TempDir(), "iris.json")
	write(t, path, model)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	s := Source{Name: "iris", Path: path}
	if _, err := s.Open(ctx); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the model was opened, or %v", err)
	}
	v, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
}

func TestTheBuiltInModelKnowsItsFlowers(t *testing.T) {
	l, v := newTestLane(t, LaneOptions{Cores: 2}), flowers(t)
	d := v.Describe()
	if d.Platform != "weir_gbdt" || d.Version != "1" || len(d.Inputs) != 1 || !slices.Equal(d.Inputs[0].Shape, []int64{-1, 4}) ||
		!slices.Equal(d.Outputs[0].Shape, []int64{-1, 3}) || !slices.Equal(d.Labels["output"], defaultmodel.IrisClasses()) {
		t.Errorf("%+v", d)
	}
	if !v.Batches() || v.Estimate(1) <= 0 || v.Estimate(1) > InlineLimit || v.Kernel() == "" {
		t.Errorf("batches %v, a row takes %v, kernel %q", v.Batches(), v.Estimate(1), v.Kernel())
	}
	p := flower(5.1, 3.5, 1.4, 0.2, 6.3, 3.3, 6.0, 2.5)
	if err := l.Predict(t.Context(), v, p); err != nil {
		t.Fatal(err)
	}
	y := tensor.Values[float32](&p.Outputs[0])
	if len(y) != 6 || y[0] < 0.9 || y[5] < 0.9 {
		t.Errorf("%v; want setosa and virginica", y)
	}

	// The same row in other forms: float64, whole numbers, one column per feature.
	columns := &inference.Prediction{Tenant: "a"}
	for i, name := range []string{"petal_width", "sepal_length", "petal_length", "sepal_width"} {
		columns.Inputs = append(columns.Inputs, tensor.Of(name, tensor.Float64, []int64{1}, []float64{[]float64{2, 6, 5, 3}[i]}))
	}
	whole := &inference.Prediction{Tenant: "a", Inputs: []tensor.Tensor{tensor.Of("input", tensor.Int64, []int64{1, 4}, []int64{6, 3, 5, 2})}}
	want := flower(6, 3, 5, 2)
	for i, p := range []*inference.Prediction{want, columns, whole} {
		if err := l.Predict(t.Context(), v, p); err != nil {
			t.Fatal(err)
		}
		if !same(p.Outputs, want.Outputs) {
			t.Errorf("form %d: %v, want %v", i, p.Outputs, want.Outputs)
		}
	}
}

func TestWrongInputsAreRefused(t *testing.T) {
	l, v := newTestLane(t, LaneOptions{Cores: 2}), flowers(t)
	one := []float32{1}
	for name, in := range map[string][]tensor.Tensor{
		"nothing":        nil,
		"three columns":  {tensor.Of("input", tensor.Float32, []int64{1, 3}, []float32{1, 2, 3})},
		"too few bytes":  {{Name: "input", Type: tensor.Float32, Shape: []int64{2, 4}, Data: make([]byte, 16)}},
		"huge":           {{Name: "input", Type: tensor.Float32, Shape: []int64{1 << 60, 4}}},
		"negative":       {{Name: "input", Type: tensor.Float32, Shape: []int64{-1, 4}}},
		"strings":        {{Name: "input", Type: tensor.Bytes, Shape: []int64{1, 4}, Strings: make([][]byte, 4)}},
		"unknown column": {tensor.Of("a", tensor.Float32, []int64{1}, one), {}, {}, {}},
		"twice": {tensor.Of("sepal_width", tensor.Float32, []int64{1}, one), tensor.Of("sepal_width", tensor.Float32, []int64{1}, one),
			tensor.Of("sepal_length", tensor.Float32, []int64{1}, one), tensor.Of("petal_length", tensor.Float32, []int64{1}, one)},
		"no rows": {{Name: "input", Type: tensor.Float32, Shape: []int64{0, 4}}},
	} {
		if err := l.Predict(t.Context(), v, &inference.Prediction{Inputs: in}); !errors.Is(err, inference.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzReadGolden(f *testing.F) {
	_, golden := defaultmodel.Iris()
	f.Add([]byte(golden))
	f.Add([]byte(`{"inputs":[{"name":"a","datatype":"BYTES","shape":[1],"data":["x"]}],"outputs":[{"name":"b","datatype":"INT64","shape":[2],"data":[1,[2]]}]}`))
	f.Add([]byte(`{"inputs":[{"name":"a","datatype":"FP64","shape":[3],"data":[null,"NaN","-Infinity"]}],"outputs":[{"name":"b","datatype":"BOOL","shape":[1],"data":[true]}],"tolerance":0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := ReadGolden(data)
		if err != nil {
			return
		}
		for _, ts := range [][]tensor.Tensor{g.Inputs, g.Outputs} {
			for i := range ts {
				if err := whole(&ts[i]); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
