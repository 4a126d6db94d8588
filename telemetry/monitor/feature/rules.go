package feature

import (
	"fmt"
	"math"
	"strconv"

	"weir/internal/inference"
)

func (f *Feature) category(v Value) Value {
	if i := v.Convert(Integer); i.Kind == Int && i.Int() >= 0 && i.Int() < int64(len(f.Categories)) {
		return TextOf(f.Categories[i.Int()])
	}
	return Value{Kind: WrongType}
}

func (f *Feature) rejects(v Value, row int) error {
	if v.Kind == Text {
		return fmt.Errorf("%w: feature %q of row %d is %.40q, which is none of its %d categories", inference.ErrInvalid,
			f.Name, row, v.text, len(f.Categories))
	}
	bounds := "above its min " + strconv.FormatFloat(f.Min, 'g', -1, 64)
	switch {
	case math.IsNaN(f.Min):
		bounds = "at most " + strconv.FormatFloat(f.Max, 'g', -1, 64)
	case !math.IsNaN(f.Max):
		bounds = fmt.Sprintf("from %v to %v", f.Min, f.Max)
	}
	return fmt.Errorf("%w: feature %q of row %d is %s; it must be %s", inference.ErrInvalid, f.Name, row, v.String(), bounds)
}

// clip moves a number to the bound that it passes; an unknown category is missing from
// then on.
func (f *Feature) clip(v Value) Value {
	if v.Kind == Text {
		return Value{}
	}
	x := v.Float()
	if x < f.Min {
		x = f.Min
		if v.Kind == Int {
			x = math.Ceil(x)
		}
	} else {
		x = f.Max
		if v.Kind == Int {
			x = math.Floor(x)
		}
	}
	return FloatOf(x).Convert(f.Type)
}

// lost is the error of a required feature that no source gave.
func (f *Feature) lost(row int, why Outcome) error {
	switch why {
	case Timeout, Unavailable:
		return fmt.Errorf("%w: feature %q is required, and the online store does not answer (%v); send it in the request",
			inference.ErrUnavailable, f.Name, why)
	case NoEntity:
		return fmt.Errorf("%w: feature %q of row %d is required; send it, or the key of its entity", inference.ErrInvalid, f.Name, row)
	default:
		return fmt.Errorf("%w: feature %q of row %d is required and missing (%v); send it in the request", inference.ErrInvalid, f.Name, row, why)
	}
}
