package predict

import (
	"math"

	"weir/api"
	"weir/internal/tensor"
)

// Values of features may be null: missing. Where one is, whole numbers and truth values become FP64 with NaN in its place, which the
// features' own types are read from again; the string of null is nil.

// wholeOrNull are elements of type INT64, or null.
type wholeOrNull struct {
	numbers[int64]
	missing []int
}

func (e *wholeOrNull) one(s *scanner) *api.Error {
	if s.peek() == 'n' && s.word("null") {
		e.missing, e.values = append(e.missing, len(e.values)), append(e.values, 0)
		return nil
	}
	return e.numbers.one(s)
}

func (e *wholeOrNull) run(s *scanner) (int64, *api.Error) { return runOf(e, s) }

func (e *wholeOrNull) tensor(name string, shape []int64) tensor.Tensor {
	return withGaps(e.numbers.tensor(name, shape), e.values, e.missing)
}

// flagsOrNull are elements of type BOOL, or null.
type flagsOrNull struct {
	flags
	missing []int
}

func (e *flagsOrNull) one(s *scanner) *api.Error {
	if s.peek() == 'n' && s.word("null") {
		e.missing, e.values = append(e.missing, len(e.values)), append(e.values, 0)
		return nil
	}
	return e.flags.one(s)
}

func (e *flagsOrNull) run(s *scanner) (int64, *api.Error) { return runOf(e, s) }

func (e *flagsOrNull) tensor(name string, shape []int64) tensor.Tensor {
	return withGaps(e.flags.tensor(name, shape), e.values, e.missing)
}

// withGaps is t, or where values are missing the same as FP64.
func withGaps[T int64 | uint8](t tensor.Tensor, values []T, missing []int) tensor.Tensor {
	if len(missing) == 0 {
		return t
	}
	floats := make([]float64, len(values))
	for i, v := range values {
		floats[i] = float64(v)
	}
	for _, i := range missing {
		floats[i] = math.NaN()
	}
	return tensor.Of(t.Name, tensor.Float64, t.Shape, floats)
}

// textsOrNull are elements of type BYTES, or null.
type textsOrNull struct{ texts }

func (e *textsOrNull) one(s *scanner) *api.Error {
	if s.peek() == 'n' && s.word("null") {
		e.values = append(e.values, nil)
		return nil
	}
	return e.texts.one(s)
}

func (e *textsOrNull) run(s *scanner) (int64, *api.Error) { return runOf(e, s) }

// categories are elements whose type the first value decides: names of categories as BYTES, or their numbers as FP64. null is missing.
type categories struct {
	elements     // nil until a value was read
	gaps     int // values before it, all of them null
}

func (e *categories) one(s *scanner) *api.Error {
	c := s.peek()
	switch {
	case e.elements != nil:
	case c == 'n' && s.word("null"):
		e.gaps++
		return nil
	case c == '"' || c == '{':
		e.elements = &textsOrNull{texts{make([][]byte, e.gaps)}}
	default:
		e.elements = e.numbers()
	}
	return e.elements.one(s)
}

// numbers are FP64, the values before missing.
func (e *categories) numbers() elements {
	n, _ := newElements(tensor.Float64, e.gaps+1).(*numbers[float64])
	for range e.gaps {
		n.values = append(n.values, math.NaN())
	}
	return n
}

func (e *categories) run(s *scanner) (int64, *api.Error) { return runOf(e, s) }

func (e *categories) len() int64 {
	if e.elements == nil {
		return int64(e.gaps)
	}
	return e.elements.len()
}

func (e *categories) tensor(name string, shape []int64) tensor.Tensor {
	if e.elements == nil {
		e.elements = e.numbers()
	}
	return e.elements.tensor(name, shape)
}
