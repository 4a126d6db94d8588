package feature

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"

	"weir/internal/tensor"
	"weir/router"
)

// Derive makes a manifest of a model that has none: all features come from the request, as
// the model itself takes them. names are those of the columns of its one matrix; nil
// numbers them.
func Derive(about *router.Description, names []string) (*Manifest, error) {
	m := &Manifest{Layout: Plain, Timeout: defaultTimeout, derived: true}
	add := func(name string, t Type) {
		m.Features = append(m.Features, Feature{Name: name, Input: name, Type: t, Min: math.NaN(), Max: math.NaN()})
	}
	for _, spec := range about.Inputs {
		t, width := Number, int64(1)
		if len(spec.Shape) == 2 {
			width = spec.Shape[1]
		}
		switch {
		case len(spec.Shape) == 0 || len(spec.Shape) > 2 || width < 1 || width > MaxFeatures:
			return nil, fmt.Errorf("input %q has shape %v: only a matrix of a known width, or an input per feature, can be watched without a manifest",
				spec.Name, spec.Shape)
		case spec.Type == tensor.Bytes:
			t = String
		case spec.Type == tensor.Bool:
			t = Boolean
		case isInteger(spec.Type):
			t = Integer
		}
		for i := range width {
			switch {
			case len(about.Inputs) == 1 && int64(len(names)) == width:
				add(names[i], t)
			case width == 1:
				add(spec.Name, t)
			default:
				add(spec.Name+"."+strconv.FormatInt(i, 10), t)
			}
		}
	}
	return m, m.validate()
}

// Watcher observes a model's predictions and leaves them as they are.
type Watcher struct {
	inner   router.Predictor
	join    *Join
	observe Observe
	pool    sync.Pool // of *Rows
}

// NewWatcher observes a model by a manifest that Derive made of it.
func NewWatcher(inner router.Predictor, m *Manifest, observe Observe) (*Watcher, error) {
	join, err := NewJoin(m, nil)
	if err != nil {
		return nil, err
	}
	if inputs := inner.Describe().Inputs; len(inputs) == 1 {
		if _, taken := join.index[inputs[0].Name]; !taken {
			join.matrix = inputs[0].Name
		}
	}
	w := &Watcher{inner: inner, join: join, observe: observe}
	w.pool.New = func() any { return new(Rows) }
	return w, nil
}

// Describe implements router.Predictor.
func (w *Watcher) Describe() *router.Description { return w.inner.Describe() }

// Predict implements router.Predictor.
func (w *Watcher) Predict(ctx context.Context, p *router.Prediction) error {
	err := w.inner.Predict(ctx, p)
	rows := w.pool.Get().(*Rows) //nolint:forcetypeassert // the pool's own
	// What the model took and the manifest cannot read is not observed.
	if w.join.Resolve(ctx, p, rows) == nil {
		w.observe(p, rows, err)
	}
	if cap(rows.values) <= keptCells {
		w.pool.Put(rows)
	}
	return err
}
