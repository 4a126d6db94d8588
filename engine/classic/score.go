package classic

import (
	"fmt"

	"weir/internal/inference"
	"weir/internal/tensor"
)

// RowError is what is wrong with one row of the inputs.
type RowError struct {
	Row int
	Err error // begins with a verb, or with the feature
}

func (e *RowError) Error() string { return fmt.Sprintf("row %d %v", e.Row, e.Err) }
func (e *RowError) Unwrap() error { return e.Err }

// Score computes rows on the caller's goroutine, outside of any lane: any number of them, without its order and bounds.
// Several goroutines may call it. A RowError says which row the model does not take.
func (v *Version) Score(in []tensor.Tensor) ([]tensor.Tensor, error) {
	taken, _, err := v.model.accept(in)
	if err != nil {
		return nil, fmt.Errorf("%w: model %q: %w", inference.ErrInvalid, v.desc.Name, err)
	}
	out, err := v.compute(taken)
	if err != nil {
		return nil, err
	}
	return out, checkRows(out, int(in[0].Rows()))
}

// RowsAtOnce is how many rows the model takes at once: 0 for any number, else the number that its inputs have fixed.
func (v *Version) RowsAtOnce() int {
	if v.model.batches() || len(v.desc.Inputs) == 0 || len(v.desc.Inputs[0].Shape) == 0 {
		return 0
	}
	return int(max(v.desc.Inputs[0].Shape[0], 0))
}

// HasCategories reports whether the file names the categories of a column, counted as Columns are.
func (v *Version) HasCategories(column int) bool {
	m, is := v.model.(*trees)
	if !is {
		return false
	}
	all := m.m.Ensemble().Categories
	return column < len(all) && all[column] != nil
}

// Category is the number that stands for a category's name in such a column.
func (v *Version) Category(column int, name string) (float64, error) {
	return v.model.(*trees).m.Category(column, name) //nolint:forcetypeassert // HasCategories saw to it
}
