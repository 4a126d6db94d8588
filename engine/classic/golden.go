package classic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"weir/internal/tensor"
)

// Golden is rows with the outputs that are expected of them, stored beside a model: a
// version that gives others is not published. In a file it is a V2 request and its
// answer in one object:
//
//	{"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 2], "data": [[1, null]]}],
//	 "outputs": [{"name": "output", "datatype": "FP32", "shape": [1], "data": [0.25]}],
//	 "tolerance": 1e-6}
//
// Data may be nested or flat; null and "NaN" are missing values, "Infinity" and "-Infinity"
// have no other spelling. Outputs that are not listed are not compared.
type Golden struct {
	Inputs, Outputs []tensor.Tensor
	// Tolerance is how far a number may be from the expected one, as a share of that,
	// or absolutely where that is below 1.
	Tolerance float64
}

// DefaultTolerance is that of golden rows that do not say.
const DefaultTolerance = 1e-5

// maxGoldenBytes bounds a file of golden rows.
const maxGoldenBytes = 64 << 20

// goldenJSON is the file.
type goldenJSON struct {
	Inputs    []tensorJSON `json:"inputs"`
	Outputs   []tensorJSON `json:"outputs"`
	Tolerance *float64     `json:"tolerance"`
}

type tensorJSON struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
	Data     any     `json:"data"`
}

// ReadGolden reads a file of golden rows.
func ReadGolden(data []byte) (*Golden, error) {
	g, err := readGolden(data)
	if err == nil && len(g.Outputs) == 0 {
		err = errors.New("golden rows: outputs are needed; weir golden MODEL --rows FILE writes them")
	}
	return g, err
}

// ReadRows reads the inputs of golden rows, or of a V2 request: outputs may be missing.
func ReadRows(data []byte) ([]tensor.Tensor, error) {
	g, err := readGolden(data)
	if err != nil {
		return nil, err
	}
	return g.Inputs, nil
}

func readGolden(data []byte) (*Golden, error) {
	if len(data) > maxGoldenBytes {
		return nil, fmt.Errorf("golden rows: the file has %d bytes, limit %d; a few hundred rows are enough", len(data), maxGoldenBytes)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	d.DisallowUnknownFields()
	var file goldenJSON
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("golden rows: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("golden rows: something follows the object; keep one")
	}
	g := &Golden{Tolerance: DefaultTolerance}
	if t := file.Tolerance; t != nil {
		if !(*t >= 0 && *t < 1) {
			return nil, fmt.Errorf("golden rows: the tolerance is %v; it must be from 0 to below 1", *t)
		}
		g.Tolerance = *t
	}
	if len(file.Inputs) == 0 {
		return nil, errors.New("golden rows: inputs are needed")
	}
	for _, part := range []struct {
		what string
		from []tensorJSON
		to   *[]tensor.Tensor
	}{{"input", file.Inputs, &g.Inputs}, {"output", file.Outputs, &g.Outputs}} {
		for i := range part.from {
			t, err := part.from[i].tensor()
			if err != nil {
				return nil, fmt.Errorf("golden rows: %s %q: %w", part.what, part.from[i].Name, err)
			}
			*part.to = append(*part.to, t)
		}
	}
	return g, nil
}

func (j *tensorJSON) tensor() (tensor.Tensor, error) {
	typ, err := tensor.ParseType(j.Datatype)
	if err != nil {
		return tensor.Tensor{}, err
	}
	n, err := tensor.Elements(j.Shape, maxGoldenBytes)
	if err != nil {
		return tensor.Tensor{}, err
	}
	flat, err := flatten(nil, j.Data)
	if err != nil {
		return tensor.Tensor{}, err
	}
	if int64(len(flat)) != n {
		return tensor.Tensor{}, fmt.Errorf("the data have %d values; shape %v has %d", len(flat), j.Shape, n)
	}
	t := tensor.Tensor{Name: j.Name, Type: typ, Shape: j.Shape}
	switch typ {
	case tensor.Bytes:
		t.Strings, err = stringsOf(flat)
	case tensor.Float64:
		return numbersOf(t, flat, 64, func(f float64) float64 { return f })
	case tensor.Float32:
		return numbersOf(t, flat, 32, func(f float64) float32 { return float32(f) })
	case tensor.Int64:
		return integersOf[int64](t, flat, 64)
	case tensor.Int32:
		return integersOf[int32](t, flat, 32)
	case tensor.Int16:
		return integersOf[int16](t, flat, 16)
	case tensor.Int8:
		return integersOf[int8](t, flat, 8)
	case tensor.Uint64:
		return wholesOf[uint64](t, flat, 64)
	case tensor.Uint32:
		return wholesOf[uint32](t, flat, 32)
	case tensor.Uint16:
		return wholesOf[uint16](t, flat, 16)
	case tensor.Uint8:
		return wholesOf[uint8](t, flat, 8)
	case tensor.Bool:
		return boolsOf(t, flat)
	default:
		err = errNotGolden(typ)
	}
	return t, err
}

// flatten lists the values of nested arrays in order.
func flatten(flat []any, v any) ([]any, error) {
	list, nested := v.([]any)
	if !nested {
		return append(flat, v), nil
	}
	var err error
	for _, item := range list {
		if flat, err = flatten(flat, item); err != nil {
			return nil, err
		}
	}
	return flat, nil
}

func stringsOf(flat []any) ([][]byte, error) {
	list := make([][]byte, len(flat))
	for i, v := range flat {
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("value %d is %v, want a string", i, v)
		}
		list[i] = []byte(s)
	}
	return list, nil
}

func numbersOf[T float](t tensor.Tensor, flat []any, bits int, narrow func(float64) T) (tensor.Tensor, error) {
	values := make([]T, len(flat))
	for i, v := range flat {
		switch x := v.(type) {
		case nil:
			values[i] = T(math.NaN())
		case json.Number:
			f, err := strconv.ParseFloat(x.String(), bits)
			if err != nil {
				return t, fmt.Errorf("value %d: %w", i, err)
			}
			values[i] = narrow(f)
		case string:
			special := map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}
			f, ok := special[x]
			if !ok {
				return t, fmt.Errorf("value %d is %.40q; want a number, null, NaN, Infinity or -Infinity", i, x)
			}
			values[i] = narrow(f)
		default:
			return t, fmt.Errorf("value %d is %v, want a number", i, v)
		}
	}
	return tensor.Of(t.Name, t.Type, t.Shape, values), nil
}

func errNotGolden(t tensor.Type) error {
	return fmt.Errorf("the datatype %v has no golden rows; FP32, FP64, integers, BOOL and BYTES have", t)
}

func wholesOf[T uint8 | uint16 | uint32 | uint64](t tensor.Tensor, flat []any, bits int) (tensor.Tensor, error) {
	values := make([]T, len(flat))
	for i, v := range flat {
		x, ok := v.(json.Number)
		if !ok {
			return t, fmt.Errorf("value %d is %v, want a whole number", i, v)
		}
		n, err := strconv.ParseUint(x.String(), 10, bits)
		if err != nil {
			return t, fmt.Errorf("value %d: %w", i, err)
		}
		values[i] = T(n)
	}
	return tensor.Of(t.Name, t.Type, t.Shape, values), nil
}

func integersOf[T int8 | int16 | int32 | int64](t tensor.Tensor, flat []any, bits int) (tensor.Tensor, error) {
	values := make([]T, len(flat))
	for i, v := range flat {
		x, ok := v.(json.Number)
		if !ok {
			return t, fmt.Errorf("value %d is %v, want a whole number", i, v)
		}
		n, err := strconv.ParseInt(x.String(), 10, bits)
		if err != nil {
			return t, fmt.Errorf("value %d: %w", i, err)
		}
		values[i] = T(n)
	}
	return tensor.Of(t.Name, t.Type, t.Shape, values), nil
}

func boolsOf(t tensor.Tensor, flat []any) (tensor.Tensor, error) {
	values := make([]uint8, len(flat))
	for i, v := range flat {
		b, ok := v.(bool)
		if !ok {
			return t, fmt.Errorf("value %d is %v, want true or false", i, v)
		}
		if b {
			values[i] = 1
		}
	}
	return tensor.Of(t.Name, t.Type, t.Shape, values), nil
}

// check scores the golden rows and says where the outputs are not the expected ones.
func (g *Golden) check(v *Version) error {
	in, _, err := v.model.accept(g.Inputs)
	if err != nil {
		return fmt.Errorf("golden rows: %w", err)
	}
	out, err := v.compute(in)
	if err != nil {
		return fmt.Errorf("golden rows: %w", err)
	}
	for i := range g.Outputs {
		want := &g.Outputs[i]
		at := slices.IndexFunc(out, func(t tensor.Tensor) bool { return t.Name == want.Name })
		if at < 0 {
			return fmt.Errorf("golden rows: the model has no output %q; it has %s", want.Name, names(v.desc.Outputs))
		}
		if err := g.compare(&out[at], want); err != nil {
			return fmt.Errorf("golden rows: output %q: %w", want.Name, err)
		}
	}
	return nil
}

func (g *Golden) compare(got, want *tensor.Tensor) error {
	if !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("its shape is %v instead of %v", got.Shape, want.Shape)
	}
	if (want.Type == tensor.Bytes) != (got.Type == tensor.Bytes) {
		return fmt.Errorf("its type is %v instead of %v", got.Type, want.Type)
	}
	if want.Type == tensor.Bytes {
		if i := differs(got.Strings, want.Strings); i >= 0 {
			return fmt.Errorf("value %d is %q instead of %q", i, got.Strings[i], want.Strings[i])
		}
		return nil
	}
	n := len(want.Data) / max(want.Type.Size(), 1)
	a, b := make([]float64, n), make([]float64, n)
	if err := errors.Join(convert(a, 1, got), convert(b, 1, want)); err != nil {
		return err
	}
	for i := range a {
		if a[i] == b[i] || math.IsNaN(a[i]) && math.IsNaN(b[i]) {
			continue
		}
		if !(math.Abs(a[i]-b[i]) <= g.Tolerance*max(1, math.Abs(b[i]))) { // NaN is too far, too
			return fmt.Errorf("value %d is %v instead of %v, tolerance %v", i, a[i], b[i], g.Tolerance)
		}
	}
	return nil
}

// differs is the index of the first string that differs; -1 is none.
func differs(a, b [][]byte) int {
	for i := range min(len(a), len(b)) {
		if !bytes.Equal(a[i], b[i]) {
			return i
		}
	}
	return -1
}
