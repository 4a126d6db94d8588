package onnx

import (
	"archive/zip"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/reference"
)

// operatorBounds are those of single operators, by name; what is not listed is equal
// bit by bit.
var operatorBounds = map[string]bound{
	"Exp": {ulps: 1, why: approximations}, "Log": {ulps: 1, why: approximations},
	"Sigmoid": {absolute: unit, why: approximations}, "Tanh": {absolute: unit, why: approximations},
	"Sin": {absolute: unit, why: approximations}, "Cos": {absolute: unit, why: approximations},
	"Softplus": {ulps: 1, why: approximations}, "Erf": {ulps: 1, why: approximations},
	"Elu": {absolute: unit, why: approximations}, "Selu": {absolute: 2 * unit, why: approximations},
	"Gelu": {absolute: 2 * unit, why: approximations}, "Softmax": {ulps: 3, why: approximations},
	"LogSoftmax": {absolute: 4 * unit, why: approximations},
	"Pow":        {ulps: 9, why: "of float64, to the power of 1.5 of 1e20, where Go's math.Pow is not the nearest"},
	"Mean":       {ulps: 1, why: sums}, "ReduceSum": {absolute: 4 * unit, why: sums}, "ReduceMean": {absolute: unit, why: sums},
	"ReduceL1": {ulps: 1, why: sums}, "ReduceL2": {ulps: 1, why: sums}, "ReduceSumSquare": {ulps: 1, why: sums},
	"ReduceProd": {ulps: 3, why: sums}, "ReduceLogSum": {ulps: 2, why: sums}, "ReduceLogSumExp": {ulps: 2, why: sums},
	"MatMul": {absolute: 1.6e-5, why: "ONNX Runtime adds products of single rows, and of more than 128 columns, in parts; " +
		"the sums are of 200 products of up to 9"},
	"LinearClassifier.LOGISTIC": {absolute: unit, why: approximations},
	"LinearRegressor.LOGISTIC":  {absolute: unit, why: approximations},
	"LinearClassifier.SOFTMAX":  {ulps: 3, why: approximations}, "LinearRegressor.SOFTMAX": {ulps: 3, why: approximations},
	"LinearClassifier.PROBIT":       {absolute: 16 * unit, why: quantile},
	"LinearRegressor.PROBIT":        {absolute: 16 * unit, why: quantile},
	"TreeEnsembleClassifier.PROBIT": {absolute: 16 * unit, why: quantile},
	"TreeEnsembleRegressor.PROBIT":  {absolute: 16 * unit, why: quantile},
	"TreeEnsembleRegressor":         {ulps: 1, why: "softmax of float64 rows, whose exp ONNX Runtime rounds to float32"},
	"SVMRegressor":                  {absolute: unit, why: approximations + ", here of tanh"},
	"SVMClassifier":                 {absolute: unit, why: approximations + ", here of tanh"},
}

const quantile = "the approximation of the quantile cancels digits of its float32 logarithm"

func TestOperatorsEqualONNXRuntime(t *testing.T) {
	reference.Slow(t)
	archive, err := zip.OpenReader(filepath.Join("testdata", "operators.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	count, worst := 0, make(map[string]difference)
	for _, f := range archive.File {
		name, isModel := strings.CutSuffix(f.Name, ".onnx")
		if !isModel {
			continue
		}
		count++
		t.Run(name, func(t *testing.T) {
			op, _, _ := strings.Cut(name, "_")
			m, err := Load(unpacked(t, &archive.Reader, f.Name))
			if err != nil {
				t.Fatal(err)
			}
			in, want, _ := readGolden(t, unpacked(t, &archive.Reader, name+".golden"))
			got, err := m.Run(in)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				d, err := distance(&got[i], &want[i])
				if err != nil {
					t.Errorf("output %d of %v: %v", i, in, err)
					continue
				}
				w := worst[op]
				worst[op] = difference{max(w.ulps, d.ulps), max(w.absolute, d.absolute)}
				if allowed := operatorBounds[op]; d.ulps > allowed.ulps && !(d.absolute <= allowed.absolute) {
					t.Errorf("output %d is %d ulp and %.3g apart", i, d.ulps, d.absolute)
				}
			}
		})
	}
	if count < 700 {
		t.Errorf("%d cases", count)
	}
	for op, d := range worst {
		if d.ulps > 0 {
			t.Logf("%s: at most %d ulp and %.3g apart", op, d.ulps, d.absolute)
		}
	}
}

// operatorModels are the models of single operators, and of small networks.
func operatorModels(t testing.TB) [][]byte {
	t.Helper()
	var all [][]byte
	for _, name := range []string{"operators.zip", "neural.zip"} {
		archive, err := zip.OpenReader(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		defer archive.Close()
		for _, f := range archive.File {
			if strings.HasSuffix(f.Name, ".onnx") && f.UncompressedSize64 < 12<<10 {
				all = append(all, unpacked(t, &archive.Reader, f.Name))
			}
		}
	}
	return all
}

func unpacked(t testing.TB, archive *zip.Reader, name string) []byte {
	t.Helper()
	f, err := archive.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestExp32IsTheNearest compares with the rounded exponential of float64.
func TestExp32IsTheNearest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	wrong := 0
	const count = 500_000
	for i := range count {
		x := float32(r.Float64()*200 - 110)
		if i%4 == 0 {
			x = float32(r.NormFloat64())
		}
		got, want := exp32(x), float32(math.Exp(float64(x)))
		if d := apart(int64(ordered32(got)), int64(ordered32(want)), got != got, want != want); d > 1 {
			t.Fatalf("exp32(%g) is %g, not %g", x, got, want)
		} else if d == 1 {
			wrong++
		}
	}
	if wrong > count/10_000 {
		t.Errorf("%d of %d are not the nearest float32", wrong, count)
	}
	for _, x := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), 0, -104, 89} {
		if got, want := exp32(x), float32(math.Exp(float64(x))); got != want {
			t.Errorf("exp32(%g) is %g, not %g", x, got, want)
		}
	}
}
