package predict

import (
	"context"
	"fmt"
	"math"
	"testing"

	"weir/internal/tensor"
	"weir/router"
)

// A column of categories takes their names or their numbers, whichever its first value is; null is missing.
func TestCategoriesInV1(t *testing.T) {
	f := sums()
	f.about.Optional = []tensor.Spec{{Name: "city", Type: tensor.Bytes, Shape: []int64{tensor.Any}}}
	var got string
	f.do = func(_ context.Context, p *router.Prediction) error {
		got = ""
		for i := range p.Inputs {
			in := &p.Inputs[i]
			got += in.Name + " " + in.Type.String()
			for _, s := range in.Strings {
				got += fmt.Sprintf(" %q %v", s, s == nil)
			}
			if in.Type == tensor.Float64 {
				for _, x := range tensor.Values[float64](in) {
					got += fmt.Sprint(" ", x, " ", math.IsNaN(x))
				}
			}
		}
		p.Outputs = []tensor.Tensor{tensor.Of("output", tensor.Float32, p.Inputs[0].Shape[:1], make([]float32, p.Inputs[0].Rows()))}
		return nil
	}
	r := newRig(t, config(t, newModels(f)))
	for body, want := range map[string]string{
		`{"inputs":{"city":["rome",null]}}`:           `city BYTES "rome" false "" true`,
		`{"inputs":{"city":[null,"rome"]}}`:           `city BYTES "" true "rome" false`,
		`{"inputs":{"city":[2,null]}}`:                `city FP64 2 false NaN true`,
		`{"instances":[{"city":null},{"city":2}]}`:    `city FP64 NaN true 2 false`,
		`{"instances":[{"city":null},{"city":null}]}`: `city FP64 NaN true NaN true`,
		`{"instances":[{"city":{"b64":"cm9tZQ=="}}]}`: `city BYTES "rome" false`,
	} {
		if res, answer := r.do("POST", "/v1/models/sums:predict", body); res.StatusCode != statusOK || got != want {
			t.Errorf("%s: %d %s: the model got %s, want %s", body, res.StatusCode, answer, got, want)
		}
	}
	if res, answer := r.do("POST", "/v1/models/sums:predict", `{"inputs":{"city":["rome",2]}}`); res.StatusCode != 400 {
		t.Errorf("names beside numbers: %d %s", res.StatusCode, answer)
	}
}
