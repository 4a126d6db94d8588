package classic

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"unicode/utf8"

	"weir/internal/inference"
	"weir/internal/tensor"
)

// Record scores rows and returns the file that ReadGolden reads: the rows and the outputs
// that the version gives today.
func (v *Version) Record(rows []tensor.Tensor, tolerance float64) ([]byte, error) {
	if !(tolerance >= 0 && tolerance < 1) {
		return nil, fmt.Errorf("the tolerance is %v; it must be from 0 to below 1", tolerance)
	}
	in, _, err := v.model.accept(rows)
	if err != nil {
		return nil, fmt.Errorf("%w: model %q: %w", inference.ErrInvalid, v.desc.Name, err)
	}
	out, err := v.compute(in)
	if err != nil {
		return nil, err
	}
	file := []byte(`{"inputs": [`)
	for _, part := range []struct {
		list []tensor.Tensor
		end  string
	}{{in, "],\n \"outputs\": ["}, {out, "],\n \"tolerance\": "}} {
		for i := range part.list {
			if i > 0 {
				file = append(file, ",\n"...)
			}
			if file, err = appendTensor(file, &part.list[i]); err != nil {
				return nil, err
			}
		}
		file = append(file, part.end...)
	}
	file = append(strconv.AppendFloat(file, tolerance, 'g', -1, 64), "}\n"...)
	g, err := ReadGolden(file)
	if err != nil {
		return nil, err
	}
	return file, g.check(v)
}

// Sample makes up rows for Record: those of a tree model have values of its thresholds, and
// some missing ones. It fails for models with inputs of which made-up values say little.
func (v *Version) Sample(rows int, seed uint64) ([]tensor.Tensor, error) {
	random := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // any values will do
	if m, is := v.model.(*trees); is {
		return []tensor.Tensor{m.sample(rows, random)}, nil
	}
	for _, in := range v.desc.Inputs {
		if in.Type != tensor.Float32 && in.Type != tensor.Float64 {
			return nil, fmt.Errorf("the input %q is %v, of which made-up values say little; give rows with --rows", in.Name, in.Type)
		}
	}
	list := v.invent(rows, random)
	if list == nil {
		return nil, errors.New("the model leaves the shape of its inputs open; give rows with --rows")
	}
	return list, nil
}

// sample makes rows of thresholds, of which one value in 16 is missing.
func (m *trees) sample(rows int, random *rand.Rand) tensor.Tensor {
	values := m.m.Ensemble().Sample(rows, random)
	for i := range values {
		if random.IntN(16) == 0 {
			values[i] = math.NaN()
		}
	}
	return tensor.Of(treesInput, tensor.Float64, []int64{int64(rows), int64(m.m.Features())}, values)
}

// appendTensor writes a tensor as golden rows have it, each slice along the first size on a
// line of its own.
func appendTensor(dst []byte, t *tensor.Tensor) ([]byte, error) {
	one, err := valueWriter(t)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", t.Name, err)
	}
	head, err := json.Marshal(t.Name)
	if err != nil {
		return nil, err
	}
	dst = append(append(append(dst, `{"name": `...), head...), `, "datatype": "`+t.Type.String()+`", "shape": `...)
	if head, err = json.Marshal(t.Shape); err != nil {
		return nil, err
	}
	dst = append(append(dst, head...), `, "data": [`...)
	n, err := tensor.Elements(t.Shape, maxElements)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", t.Name, err)
	}
	row := int64(1)
	if len(t.Shape) > 0 && t.Shape[0] > 0 {
		row = n / t.Shape[0]
	}
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		if row > 1 && i%row == 0 {
			dst = append(dst, "\n  "...)
		} else if i > 0 {
			dst = append(dst, ' ')
		}
		if dst, err = one(dst, int(i)); err != nil {
			return nil, fmt.Errorf("%q, value %d: %w", t.Name, i, err)
		}
	}
	return append(dst, "]}"...), nil
}

// valueWriter writes a tensor's value i as JSON; NaN and the infinities are strings.
func valueWriter(t *tensor.Tensor) (func(dst []byte, i int) ([]byte, error), error) {
	switch t.Type {
	case tensor.Bytes:
		return func(dst []byte, i int) ([]byte, error) {
			if !utf8.Valid(t.Strings[i]) {
				return nil, errors.New("the bytes are no UTF-8, which JSON cannot carry")
			}
			text, err := json.Marshal(string(t.Strings[i]))
			return append(dst, text...), err
		}, nil
	case tensor.Bool:
		return func(dst []byte, i int) ([]byte, error) { return strconv.AppendBool(dst, t.Data[i] != 0), nil }, nil
	case tensor.Float32:
		return floatWriter(tensor.Values[float32](t), 32), nil
	case tensor.Float64:
		return floatWriter(tensor.Values[float64](t), 64), nil
	case tensor.Int64:
		return wholeWriter(tensor.Values[int64](t)), nil
	case tensor.Int32:
		return wholeWriter(tensor.Values[int32](t)), nil
	case tensor.Int16:
		return wholeWriter(tensor.Values[int16](t)), nil
	case tensor.Int8:
		return wholeWriter(tensor.Values[int8](t)), nil
	case tensor.Uint64:
		return wholeWriter(tensor.Values[uint64](t)), nil
	case tensor.Uint32:
		return wholeWriter(tensor.Values[uint32](t)), nil
	case tensor.Uint16:
		return wholeWriter(tensor.Values[uint16](t)), nil
	case tensor.Uint8:
		return wholeWriter(tensor.Values[uint8](t)), nil
	case tensor.Invalid, tensor.Float16, tensor.BFloat16:
	}
	return nil, errNotGolden(t.Type)
}

func floatWriter[T float](values []T, bits int) func([]byte, int) ([]byte, error) {
	return func(dst []byte, i int) ([]byte, error) {
		switch x := float64(values[i]); {
		case math.IsNaN(x):
			return append(dst, `"NaN"`...), nil
		case math.IsInf(x, 1):
			return append(dst, `"Infinity"`...), nil
		case math.IsInf(x, -1):
			return append(dst, `"-Infinity"`...), nil
		default:
			return strconv.AppendFloat(dst, x, 'g', -1, bits), nil
		}
	}
}

func wholeWriter[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](values []T) func([]byte, int) ([]byte, error) {
	return func(dst []byte, i int) ([]byte, error) { return fmt.Append(dst, values[i]), nil }
}
