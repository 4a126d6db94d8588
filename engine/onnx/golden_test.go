package onnx

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/engine/kernel/vector"
	"weir/internal/tensor"
)

// bound says by how much a model's outputs may differ from ONNX Runtime's: by units in
// the last place, or absolutely; and why. Models without one are equal bit by bit.
type bound struct {
	ulps     int64
	absolute float64
	why      string
}

const (
	approximations = "ONNX Runtime's vector functions for logistic, tanh and exp are approximations; ours are rounded from float64"
	ordered        = "ONNX Runtime adds products of single rows in parts; we add them in order"
	sums           = "ONNX Runtime adds float32 in lanes; we add in float64 and round once"
)

// unit is one in the last place of a probability near 1.
const unit = 1.0 / (1 << 23)

var bounds = map[string]bound{
	"adaboost":          {ulps: 1, why: sums},
	"bagging":           {ulps: 2, why: sums},
	"columns":           {ulps: 2, why: approximations},
	"columns_mlp":       {absolute: unit, why: approximations},
	"logistic":          {absolute: unit, why: approximations},
	"mlp_logistic":      {absolute: unit, why: approximations},
	"mlp_tanh":          {absolute: 5 * unit, why: approximations + ", here of hidden layers, whose differences the next layer weighs"},
	"mlp_three":         {ulps: 2, why: approximations},
	"mlp_two":           {absolute: unit, why: approximations},
	"naive":             {absolute: 16 * unit, why: sums + "; the sums are logarithms of about -20, of which exp makes probabilities"},
	"pca":               {absolute: unit, why: approximations},
	"calibrated_knn":    {ulps: 2, why: sums},
	"knn_regressor":     {ulps: 1, why: sums},
	"lof":               {absolute: 2 * unit, why: sums},
	"outputs":           {absolute: unit, why: approximations},
	"process_matern":    {absolute: 1e-14, why: ordered},
	"process_quadratic": {absolute: 1e-14, why: ordered},
	"process_rbf":       {absolute: 1e-14, why: ordered},
	"radius":            {absolute: 2 * unit, why: sums},
	"rest":              {absolute: unit, why: approximations},
	"stacked_knn":       {absolute: unit, why: approximations},
	"text_logistic":     {absolute: unit, why: approximations},
	"text_pairs":        {ulps: 2, why: sums},
	"text_separated":    {ulps: 2, why: sums},
	"svc_three":         {ulps: 1, why: "ONNX Runtime's exp of float32 is not always the nearest float32"},
}

func testModels(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.onnx")
	if err != nil || len(files) < 14 {
		t.Fatalf("%d models, %v", len(files), err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".onnx")
	}
	return files
}

func readModel(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// readGolden gives a model's inputs, and ONNX Runtime's outputs.
func readGolden(t testing.TB, data []byte) (in, out, library []tensor.Tensor) {
	t.Helper()
	p, err := parseModel(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range p.graph.initializers {
		kind, name, _ := strings.Cut(v.name, "/")
		v.t.Name = name
		switch kind {
		case "in":
			in = append(in, v.t)
		case "out":
			out = append(out, v.t)
		default:
			library = append(library, v.t)
		}
	}
	return in, out, library
}

func TestModelsEqualONNXRuntime(t *testing.T) {
	for _, name := range testModels(t) {
		t.Run(name, func(t *testing.T) {
			golden, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
			if err != nil {
				t.Fatal(err)
			}
			m, err := Load(readModel(t, name))
			if err != nil {
				t.Fatal(err)
			}
			in, want, library := readGolden(t, golden)
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
				t.Logf("output %q %v: %d elements, at most %d ulp and %.3g apart", want[i].Name, want[i].Shape, elements(&want[i]), d.ulps, d.absolute)
				if allowed := bounds[name]; d.ulps > allowed.ulps && !(d.absolute <= allowed.absolute) {
					t.Errorf("output %q is %d ulp and %.3g apart; allowed are %d, or %g", want[i].Name, d.ulps, d.absolute, allowed.ulps, allowed.absolute)
				}
			}
			for i := range library {
				compareWithLibrary(t, &library[i], got, want)
			}
		})
	}
}

// compareWithLibrary holds an output to what the library that trained the model answers
// in float64: it is not farther from it than ONNX Runtime's answer, except for a few units
// in the last place of float32.
func compareWithLibrary(t *testing.T, exact *tensor.Tensor, got, want []tensor.Tensor) {
	t.Helper()
	for i := range want {
		if want[i].Name != exact.Name || want[i].Type != tensor.Float32 {
			continue
		}
		ours, theirs, scale := 0.0, 0.0, 1e-30
		a, b := tensor.Values[float32](&got[i]), tensor.Values[float32](&want[i])
		for j, x := range tensor.Values[float64](exact) {
			ours, theirs = max(ours, math.Abs(float64(a[j])-x)), max(theirs, math.Abs(float64(b[j])-x))
			scale = max(scale, math.Abs(x))
		}
		t.Logf("output %q: %.3g from the library in float64; ONNX Runtime %.3g", exact.Name, ours, theirs)
		if ours > theirs+4*scale/(1<<23) {
			t.Errorf("output %q is %g from the library's answer; ONNX Runtime's is %g from it", exact.Name, ours, theirs)
		}
	}
}

// difference is how far two tensors are apart at most.
type difference struct {
	ulps     int64
	absolute float64
}

func (d *difference) take(ulps int64, a, b float64) {
	d.ulps = max(d.ulps, ulps)
	if ulps > 0 {
		d.absolute = max(d.absolute, math.Abs(a-b)) // NaN, and so above any bound, where one is none
	}
}

// distance is the largest difference between two tensors.
func distance(got, want *tensor.Tensor) (d difference, err error) {
	if got.Name != want.Name || got.Type != want.Type || fmt.Sprint(got.Shape) != fmt.Sprint(want.Shape) {
		return d, fmt.Errorf("%s %v %v, not %s %v %v", got.Name, got.Type, got.Shape, want.Name, want.Type, want.Shape)
	}
	switch want.Type {
	case tensor.Float32:
		a, b := tensor.Values[float32](got), tensor.Values[float32](want)
		for i := range b {
			d.take(apart(int64(ordered32(a[i])), int64(ordered32(b[i])), a[i] != a[i], b[i] != b[i]), float64(a[i]), float64(b[i]))
		}
	case tensor.Float64:
		a, b := tensor.Values[float64](got), tensor.Values[float64](want)
		for i := range b {
			d.take(apart(ordered64(a[i]), ordered64(b[i]), a[i] != a[i], b[i] != b[i]), a[i], b[i])
		}
	case tensor.Float16:
		a, b := tensor.Values[uint16](got), tensor.Values[uint16](want)
		for i := range b {
			x, y := vector.F16ToF32(a[i]), vector.F16ToF32(b[i])
			d.take(apart(int64(ordered32(x))>>13, int64(ordered32(y))>>13, x != x, y != y), float64(x), float64(y))
		}
	case tensor.Bytes:
		for i := range want.Strings {
			if string(got.Strings[i]) != string(want.Strings[i]) {
				return d, fmt.Errorf("element %d is %q, not %q", i, got.Strings[i], want.Strings[i])
			}
		}
	default:
		if string(got.Data) != string(want.Data) {
			return d, fmt.Errorf("% x, not % x", got.Data, want.Data)
		}
	}
	return d, nil
}

func apart(a, b int64, aNaN, bNaN bool) int64 {
	switch {
	case aNaN && bNaN:
		return 0
	case aNaN != bNaN, a < 0 && b > math.MaxInt64+a, b < 0 && a > math.MaxInt64+b:
		return math.MaxInt64
	case a > b:
		return a - b
	}
	return b - a
}

// ordered32 numbers the floats in their order; both zeros are 0.
func ordered32(x float32) int32 {
	bits := int32(math.Float32bits(x))
	if bits < 0 {
		return math.MinInt32 - bits
	}
	return bits
}

func ordered64(x float64) int64 {
	bits := int64(math.Float64bits(x))
	if bits < 0 {
		return math.MinInt64 - bits
	}
	return bits
}
