package feature

import (
	"context"
	"fmt"
	"math"
	"sync"

	"weir/internal/inference"
	"weir/internal/tensor"
	"weir/router"
)

// Predictor gives a model its features: it resolves a request's rows and hands the
// model's own inputs on.
type Predictor struct {
	inner   router.Predictor
	join    *Join
	about   router.Description
	specs   []tensor.Spec // the model's own inputs
	observe Observe
	matrix  bool      // the model takes one input with all features
	pool    sync.Pool // of *Rows
}

// Observe hears of each prediction after it, with the rows as the model got them; err
// is its error. rows and what they hold are only valid during the call.
type Observe func(p *router.Prediction, rows *Rows, err error)

// NewPredictor joins a model with its manifest. It fails where the manifest is not that
// of the model's inputs. observe may be nil.
func NewPredictor(inner router.Predictor, m *Manifest, online *Online, observe Observe) (*Predictor, error) {
	about := inner.Describe()
	matrix, err := m.fit(about)
	if err != nil {
		return nil, fmt.Errorf("the manifest does not fit the model %q: %w", about.Name, err)
	}
	join, err := NewJoin(m, online)
	if err != nil {
		return nil, err
	}
	p := &Predictor{inner: inner, join: join, about: *about, specs: about.Inputs, observe: observe, matrix: matrix}
	if matrix {
		if _, taken := join.index[about.Inputs[0].Name]; !taken {
			join.matrix = about.Inputs[0].Name
		}
	}
	p.about.Schema, p.about.Matrix = m.Schema(), join.matrix
	if len(m.Entities) > 0 {
		for _, k := range m.Entities[0].Keys {
			p.about.Entity = append(p.about.Entity, k.Input)
		}
	}
	p.about.Inputs, p.about.Optional = m.inputs(join.matrix, about.Inputs)
	p.pool.New = func() any { return new(Rows) }
	return p, nil
}

// Join is where the predictor's features come from.
func (p *Predictor) Join() *Join { return p.join }

// Describe implements router.Predictor: what a request must and may have.
func (p *Predictor) Describe() *router.Description { return &p.about }

// keptCells bounds rows that are kept: larger ones are not kept for the next request.
const keptCells = 1 << 16

// Predict implements router.Predictor.
func (p *Predictor) Predict(ctx context.Context, r *router.Prediction) error {
	m := p.join.manifest
	if r.Schema != "" && !m.sameSchema(r.Schema) {
		return fmt.Errorf("%w: the request was built for %.80q, the model %q version %q has %s; read the model's metadata again",
			inference.ErrSchema, r.Schema, p.about.Name, p.about.Version, m.Schema())
	}
	rows := p.pool.Get().(*Rows) //nolint:forcetypeassert // the pool's own
	defer func() {
		if cap(rows.values) <= keptCells {
			p.pool.Put(rows)
		}
	}()
	if err := p.join.Resolve(ctx, r, rows); err != nil {
		return err
	}
	rows.note(r)
	sent := r.Inputs
	r.Inputs = p.tensors(rows)
	err := p.inner.Predict(ctx, r)
	r.Inputs = sent
	if p.observe != nil {
		p.observe(r, rows, err)
	}
	return err
}

// note tells the client what its answer stands on.
func (r *Rows) note(p *router.Prediction) {
	for _, n := range []router.Note{
		{Name: "features-defaulted", Value: r.defaulted()}, {Name: "features-outdated", Value: r.outdated()},
		{Name: "features-out-of-range", Value: r.broken()},
	} {
		if n.Value != "" {
			p.Notes = append(p.Notes, n)
		}
	}
}

// tensors makes the model's inputs.
func (p *Predictor) tensors(r *Rows) []tensor.Tensor {
	features := r.manifest.Features
	if p.matrix {
		shape := []int64{int64(r.n), int64(len(features))}
		return []tensor.Tensor{fill(p.specs[0], shape, r, 0, len(features))}
	}
	list := make([]tensor.Tensor, len(p.specs))
	for i, spec := range p.specs {
		f := r.manifest.byInput(spec.Name)
		shape := []int64{int64(r.n)}
		if len(spec.Shape) == 2 {
			shape = append(shape, 1)
		}
		list[i] = fill(spec, shape, r, f, 1)
	}
	return list
}

// fill makes one input of width features, the first of them given.
func fill(spec tensor.Spec, shape []int64, r *Rows, first, width int) tensor.Tensor {
	switch spec.Type {
	case tensor.Float32:
		return numbers[float32](spec, shape, r, first, width)
	case tensor.Float64:
		return numbers[float64](spec, shape, r, first, width)
	case tensor.Int32:
		return numbers[int32](spec, shape, r, first, width)
	case tensor.Int64:
		values := make([]int64, 0, r.n*width)
		for row := range r.n {
			for f := first; f < first+width; f++ {
				if v := r.Value(row, f); v.Kind == Text {
					values = append(values, int64(r.manifest.Features[f].Code(v.text)))
				} else {
					values = append(values, v.Int()) // exactly, beyond 2^53 too
				}
			}
		}
		return tensor.Of(spec.Name, spec.Type, shape, values)
	case tensor.Bool:
		data := make([]byte, r.n)
		for row := range data {
			data[row] = byte(r.Value(row, first).bits)
		}
		return tensor.Tensor{Name: spec.Name, Type: spec.Type, Shape: shape, Data: data}
	default: // byte strings: fit saw to it
		values := make([][]byte, r.n)
		for row := range values {
			values[row] = []byte(r.Value(row, first).String())
		}
		return tensor.Tensor{Name: spec.Name, Type: spec.Type, Shape: shape, Strings: values}
	}
}

func numbers[T float32 | float64 | int32](spec tensor.Spec, shape []int64, r *Rows, first, width int) tensor.Tensor {
	values := make([]T, 0, r.n*width)
	for row := range r.n {
		for f := first; f < first+width; f++ {
			values = append(values, T(r.manifest.Features[f].number(r.Value(row, f))))
		}
	}
	return tensor.Of(spec.Name, spec.Type, shape, values)
}

// number is a value in a column of numbers: NaN where it is missing, a category by its
// index.
func (f *Feature) number(v Value) float64 {
	if v.Kind == Text {
		if code := f.Code(v.text); code >= 0 {
			return float64(code)
		}
		return math.NaN()
	}
	return v.Float()
}

func (m *Manifest) byInput(name string) int {
	for f := range m.Features {
		if m.Features[f].Input == name {
			return f
		}
	}
	return -1
}

// fit compares the manifest with the inputs of a model. matrix: the model takes one with
// all features.
func (m *Manifest) fit(about *router.Description) (matrix bool, err error) {
	specs := about.Inputs
	if len(specs) == 1 && len(specs[0].Shape) == 2 && (specs[0].Shape[1] != 1 || len(m.Features) == 1) {
		if width := specs[0].Shape[1]; width != tensor.Any && width != int64(len(m.Features)) {
			return false, fmt.Errorf("its input %q has %d features, the manifest %d", specs[0].Name, width, len(m.Features))
		}
		for f := range m.Features {
			if err := m.Features[f].fits(specs[0]); err != nil {
				return false, err
			}
		}
		return true, nil
	}
	if len(specs) != len(m.Features) {
		return false, fmt.Errorf("it has %d inputs, the manifest %d features", len(specs), len(m.Features))
	}
	for _, spec := range specs {
		f := m.byInput(spec.Name)
		if f < 0 {
			return false, fmt.Errorf("no feature has its input %q", spec.Name)
		}
		if len(spec.Shape) == 0 || len(spec.Shape) > 2 || len(spec.Shape) == 2 && spec.Shape[1] != 1 && spec.Shape[1] != tensor.Any {
			return false, fmt.Errorf("its input %q has shape %v; a feature fills [-1] or [-1, 1]", spec.Name, spec.Shape)
		}
		if err := m.Features[f].fits(spec); err != nil {
			return false, err
		}
	}
	return false, nil
}

// fits says whether values of the feature can stand in an input.
func (f *Feature) fits(spec tensor.Spec) error {
	never := f.Required || f.Default.Present() || f.Source == FromConstant // missing
	// Without a default an unknown category has no number.
	never = never && (f.Categories == nil || f.OnRange != Flag)
	switch spec.Type {
	case tensor.Float32, tensor.Float64:
		if f.Type == String && f.Categories == nil {
			return fmt.Errorf("feature %q is a string, and input %q takes numbers: list its categories, whose index is the number",
				f.Name, spec.Name)
		}
		return nil
	case tensor.Int32, tensor.Int64:
		if f.Type == Number || f.Type == String && f.Categories == nil {
			return fmt.Errorf("feature %q is a %v, and input %q takes %v", f.Name, f.Type, spec.Name, spec.Type)
		}
	case tensor.Bool:
		if f.Type != Boolean {
			return fmt.Errorf("feature %q is a %v, and input %q takes %v", f.Name, f.Type, spec.Name, spec.Type)
		}
	case tensor.Bytes:
		if f.Type != String {
			return fmt.Errorf("feature %q is a %v, and input %q takes %v", f.Name, f.Type, spec.Name, spec.Type)
		}
		never = never || f.Default.Present()
	default:
		return fmt.Errorf("input %q takes %v, which no feature fills", spec.Name, spec.Type)
	}
	if !never {
		return fmt.Errorf("feature %q may be missing, and %v of input %q has no value for that: give it a default or make it required",
			f.Name, spec.Type, spec.Name)
	}
	return nil
}

// inputs are what a request must and may have. The model's own matrix may stand for all
// features, required ones too.
func (m *Manifest) inputs(matrix string, own []tensor.Spec) (must, may []tensor.Spec) {
	if matrix != "" {
		may = append(may, own[0])
	}
	for e := range m.Entities {
		for _, k := range m.Entities[e].Keys {
			spec := tensor.Spec{Name: k.Input, Type: tensor.Int64, Shape: []int64{tensor.Any}}
			if k.Type == String {
				spec.Type = tensor.Bytes
			}
			must, may = add(must, may, spec, m.Entities[e].must)
		}
	}
	for f := range m.Features {
		feature := &m.Features[f]
		if feature.Source == FromConstant {
			continue
		}
		spec := tensor.Spec{Name: feature.Name, Type: wireTypes[feature.Type], Shape: []int64{tensor.Any}}
		must, may = add(must, may, spec, feature.Source == FromRequest && feature.Required)
	}
	return must, may
}

func add(must, may []tensor.Spec, spec tensor.Spec, needed bool) (a, b []tensor.Spec) {
	if needed {
		return append(must, spec), may
	}
	return must, append(may, spec)
}

// wireTypes are the types that metadata name; requests may use any that converts.
var wireTypes = [...]tensor.Type{Number: tensor.Float64, Integer: tensor.Int64, Boolean: tensor.Bool, String: tensor.Bytes}
