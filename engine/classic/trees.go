package classic

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"weir/engine/gbdt"
	"weir/internal/inference"
	"weir/internal/tensor"
)

// trees is a tree ensemble. It takes rows as one input of shape [-1, features], or as one
// column per feature under the feature's name. Numbers of any type are converted to the
// model's own. It gives one output of shape [-1, outputs], or [-1] where there is one value.
type trees struct {
	m      *gbdt.Model
	index  map[string]int // of features, by name; empty where the file has no names
	memory int64
	finite bool // rows with infinite values are refused, as the library that trained it refuses them
}

// newTrees wraps a model. Its memory is about that of its file, and its kernels'.
func newTrees(m *gbdt.Model, fileBytes int) *trees {
	t := &trees{m: m, index: make(map[string]int, len(m.FeatureNames())), memory: int64(fileBytes + m.Choice().Bytes)}
	t.finite = strings.HasPrefix(m.Ensemble().Format, "xgboost")
	for i, name := range m.FeatureNames() {
		t.index[name] = i
	}
	return t
}

// The names of a tree model's input and output.
const (
	treesInput  = "input"
	treesOutput = "output"
)

func (m *trees) about() inference.Description {
	typ, shape := tensor.Float32, []int64{tensor.Any}
	if m.m.Double() {
		typ = tensor.Float64
	}
	if n := m.m.Outputs(); n > 1 {
		shape = append(shape, int64(n))
	}
	d := inference.Description{
		Platform: "weir_gbdt",
		Inputs:   []tensor.Spec{{Name: treesInput, Type: typ, Shape: []int64{tensor.Any, int64(m.m.Features())}}},
		Outputs:  []tensor.Spec{{Name: treesOutput, Type: typ, Shape: shape}},
	}
	for i, names := range m.m.Ensemble().Categories {
		if names != nil && i < len(m.m.FeatureNames()) {
			d.Optional = append(d.Optional, tensor.Spec{Name: m.m.FeatureNames()[i], Type: tensor.Bytes, Shape: []int64{tensor.Any}})
		}
	}
	if classes := m.m.Ensemble().Classes; classes != nil {
		d.Labels = map[string][]string{treesOutput: classes}
	}
	return d
}

func (m *trees) batches() bool { return true }
func (m *trees) bytes() int64  { return m.memory }

func (m *trees) kernel() string {
	c := m.m.Choice()
	if c.Block == "" || c.Block == c.Single {
		return c.Single
	}
	return fmt.Sprintf("%s, from %d rows on %s", c.Single, c.From, c.Block)
}

func (m *trees) details() []Detail {
	s := m.m.Summary()
	return []Detail{
		{"format", s.Format}, {"format_version", s.Version}, {"objective", s.Objective}, {"transform", s.Transform},
		{"trees", s.Trees}, {"nodes", s.Nodes}, {"leaves", s.Leaves}, {"depth_max", s.DepthMax}, {"depth_mean", math.Round(100*s.DepthMean) / 100},
		{"features", s.Features}, {"categorical_features", s.Categorical}, {"linear_leaves", s.Linear}, {"outputs", s.Outputs},
	}
}

func (m *trees) accept(in []tensor.Tensor) (taken []tensor.Tensor, own bool, err error) {
	if m.m.Double() {
		return accept[float64](m, in, tensor.Float64)
	}
	if taken, own, err = accept[float32](m, in, tensor.Float32); err == nil && m.finite {
		err = m.checkFinite(&taken[0])
	}
	return taken, own, err
}

// checkFinite refuses infinite values, and those that no float32 holds.
func (m *trees) checkFinite(t *tensor.Tensor) error {
	if !infinite(t.Data) {
		return nil
	}
	for i, x := range tensor.Values[float32](t) {
		if math.IsInf(float64(x), 0) {
			n := m.m.Features()
			return &RowError{i / n, fmt.Errorf("has %v for feature %s: XGBoost refuses infinite values, and those beyond a float32; send NaN (null) for a missing one",
				x, m.featureName(i%n))}
		}
	}
	return nil
}

// infinite reports whether one of the float32 in data is infinite, two at a time: every request pays for it.
func infinite(data []byte) bool {
	const (
		magnitude = 0x7fffffff_7fffffff
		infinity  = 0x7f800000_7f800000
		ones      = 0x00000001_00000001
		tops      = 0x80000000_80000000
	)
	var found, second uint64 // have a top bit where half of a difference was zero
	for ; len(data) >= 32; data = data[32:] {
		four := data[:32]
		found |= ((binary.LittleEndian.Uint64(four)&magnitude ^ infinity) - ones) | ((binary.LittleEndian.Uint64(four[8:])&magnitude ^ infinity) - ones)
		second |= ((binary.LittleEndian.Uint64(four[16:])&magnitude ^ infinity) - ones) | ((binary.LittleEndian.Uint64(four[24:])&magnitude ^ infinity) - ones)
	}
	found |= second
	for ; len(data) >= 8; data = data[8:] {
		found |= (binary.LittleEndian.Uint64(data)&magnitude ^ infinity) - ones
	}
	if len(data) == 4 {
		found |= (uint64(binary.LittleEndian.Uint32(data))&magnitude ^ infinity) - ones
	}
	return found&tops != 0
}

func (m *trees) featureName(i int) string {
	if names := m.m.FeatureNames(); i < len(names) {
		return strconv.Quote(names[i])
	}
	return strconv.Itoa(i)
}

// accept makes one input of type typ, whose elements are of type T.
func accept[T float](m *trees, in []tensor.Tensor, typ tensor.Type) (taken []tensor.Tensor, own bool, err error) {
	features := m.m.Features()
	_, column := m.index[treesInput] // a feature may have the input's name
	if column = column && features == 1 && len(in) == 1 && len(in[0].Shape) == 1; len(in) == 1 && in[0].Name == treesInput && !column {
		t := &in[0]
		if len(t.Shape) != 2 || t.Shape[1] != int64(features) {
			return nil, false, fmt.Errorf("input %q has shape %v; the model takes %q of shape [-1 %d], where -1 is the number of rows",
				t.Name, t.Shape, treesInput, features)
		}
		if err := whole(t); err != nil {
			return nil, false, err
		}
		if t.Type == typ {
			return in, false, nil
		}
		rows := make([]T, t.Shape[0]*t.Shape[1])
		if err := convert(rows, 1, t); err != nil {
			return nil, false, err
		}
		return []tensor.Tensor{tensor.Of(treesInput, typ, t.Shape, rows)}, true, nil
	}
	return acceptColumns[T](m, in, typ)
}

// acceptColumns makes rows of one column per feature.
func acceptColumns[T float](m *trees, in []tensor.Tensor, typ tensor.Type) (taken []tensor.Tensor, own bool, err error) {
	features := m.m.Features()
	if len(m.index) == 0 || len(in) != features {
		return nil, false, fmt.Errorf("%d inputs are given, the first is %q; the model takes one, %q of shape [-1 %d], or each of its %d named features as a column",
			len(in), firstName(in), treesInput, features, len(m.index))
	}
	n := in[0].Rows()
	rows := make([]T, n*int64(features))
	seen := make([]bool, features)
	for i := range in {
		t := &in[i]
		at, known := m.index[t.Name]
		switch {
		case !known:
			return nil, false, fmt.Errorf("the model has no feature %q", t.Name)
		case seen[at]:
			return nil, false, fmt.Errorf("the feature %q is given twice", t.Name)
		case len(t.Shape) == 0 || len(t.Shape) > 2 || t.Shape[0] != n || len(t.Shape) == 2 && t.Shape[1] != 1:
			return nil, false, fmt.Errorf("the feature %q has shape %v; the first one has %d rows, of one value each", t.Name, t.Shape, n)
		}
		if err := whole(t); err != nil {
			return nil, false, err
		}
		if seen[at] = true; n == 0 {
			continue
		}
		if t.Type == tensor.Bytes {
			if err := categories(m, rows[at:], at, t); err != nil {
				return nil, false, err
			}
			continue
		}
		if err := convert(rows[at:], features, t); err != nil {
			return nil, false, err
		}
	}
	return []tensor.Tensor{tensor.Of(treesInput, typ, []int64{n, int64(features)}, rows)}, true, nil
}

// categories makes numbers of the names of a feature's categories, one for each row.
func categories[T float](m *trees, rows []T, feature int, t *tensor.Tensor) error {
	for i, name := range t.Strings {
		x, err := m.m.Category(feature, string(name))
		switch {
		case name == nil:
			x = math.NaN()
		case err != nil:
			return fmt.Errorf("the feature %q is a text in row %d: %w", t.Name, i, err)
		}
		rows[i*m.m.Features()] = T(x)
	}
	return nil
}

func firstName(in []tensor.Tensor) string {
	if len(in) == 0 {
		return ""
	}
	return in[0].Name
}

func (m *trees) compute(in []tensor.Tensor) ([]tensor.Tensor, error) {
	rows, outputs := in[0].Rows(), int64(m.m.Outputs())
	shape := []int64{rows}
	if outputs > 1 {
		shape = []int64{rows, outputs}
	}
	if m.m.Double() {
		out := make([]float64, rows*outputs)
		m.m.Predict64(tensor.Values[float64](&in[0]), out)
		return []tensor.Tensor{tensor.Of(treesOutput, tensor.Float64, shape, out)}, nil
	}
	out := make([]float32, rows*outputs)
	m.m.Predict32(tensor.Values[float32](&in[0]), out)
	return []tensor.Tensor{tensor.Of(treesOutput, tensor.Float32, shape, out)}, nil
}
