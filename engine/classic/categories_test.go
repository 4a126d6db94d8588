package classic

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/internal/tensor"
)

// Names of categories give what the library gives for them in a data frame, unseen and missing ones too.
func TestCategoriesByName(t *testing.T) {
	data, err := os.ReadFile("testdata/categories.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		X          []float64
		City, Size []*string
		Models     []struct {
			Name    string
			Model   []byte
			Outputs []*float64 // nil: refused
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	texts := func(name string, values []*string) tensor.Tensor {
		column := tensor.Tensor{Name: name, Type: tensor.Bytes, Shape: []int64{int64(len(values))}}
		for _, v := range values {
			if v == nil {
				column.Strings = append(column.Strings, nil)
			} else {
				column.Strings = append(column.Strings, []byte(*v))
			}
		}
		return column
	}
	for _, m := range file.Models {
		v, err := Load(m.Model, m.Name, Options{})
		if err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		if got := v.Describe().Optional; len(got) != 2 || got[0].Name != "city" || got[1].Type != tensor.Bytes {
			t.Errorf("%s: inputs by name are %v", m.Name, got)
		}
		x, city, size := append([]float64{}, file.X...), append([]*string{}, file.City...), append([]*string{}, file.Size...)
		for i := range slices.Backward(file.X) {
			if m.Outputs[i] != nil {
				continue
			}
			one := tensor.Of("x", tensor.Float64, []int64{1}, x[i:i+1])
			_, _, err := v.model.accept([]tensor.Tensor{one, texts("city", city[i:i+1]), texts("size", size[i:i+1])})
			if err == nil || !strings.Contains(err.Error(), `"unseen" was no category`) {
				t.Errorf("%s: a category that training did not see: %v", m.Name, err)
			}
			x, city, size, m.Outputs = slices.Delete(x, i, i+1), slices.Delete(city, i, i+1), slices.Delete(size, i, i+1), slices.Delete(m.Outputs, i, i+1)
		}
		column := tensor.Of("x", tensor.Float64, []int64{int64(len(x))}, x)
		in, _, err := v.model.accept([]tensor.Tensor{column, texts("city", city), texts("size", size)})
		if err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		out, err := v.compute(in)
		if err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		for i, want := range m.Outputs {
			var got float64
			if out[0].Type == tensor.Float64 {
				got = tensor.Values[float64](&out[0])[i]
			} else {
				got = float64(tensor.Values[float32](&out[0])[i])
			}
			if math.Float64bits(got) != math.Float64bits(*want) {
				t.Fatalf("%s: row %d: %v, want %v", m.Name, i, got, *want)
			}
		}
		_, _, err = v.model.accept([]tensor.Tensor{texts("x", file.City), texts("city", file.City), texts("size", file.Size)})
		if err == nil || !strings.Contains(err.Error(), `"x" is a text in row 0: the model's file names no categories`) {
			t.Errorf("%s: a number as a text: %v", m.Name, err)
		}
	}
}
