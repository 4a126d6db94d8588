package predict

import (
	"encoding/base64"
	"fmt"
	"math"

	"weir/api"
	"weir/internal/tensor"
)

// array reads the values of one tensor out of arrays of arrays, all of one shape. It
// may read several values of that shape in a row: the instances of a request.
type array struct {
	what     string // for errors: the tensor's name
	elements elements
	dims     [maxDepth]int64 // sizes seen first, by level
	known    [maxDepth]bool
	rank     int // levels of arrays; -1 until an element was read
}

// elements are a tensor's values in their type.
type elements interface {
	// one reads an element.
	one(s *scanner, what string) *api.Error
	// run reads elements up to the end of an array, which has at least one, and returns
	// how many it read.
	run(s *scanner, what string) (int64, *api.Error)
	// tensor is what was read.
	tensor(name string, shape []int64) tensor.Tensor
	// len is the number of elements.
	len() int64
}

// newArray makes an array for about so many elements of a type.
func newArray(what string, t tensor.Type, expected int64) (*array, *api.Error) {
	e := newElements(t, int(expected)) //nolint:gosec // bounded by the body's bytes
	if e == nil {
		return nil, api.Refuse("invalid_value", fmt.Sprintf("input %q is %v, which JSON cannot carry exactly; send it as binary data, or over gRPC", what, t))
	}
	return &array{what: what, elements: e, rank: -1}, nil
}

// read reads one value, an array of arrays or an element.
func (a *array) read(s *scanner) *api.Error { return a.level(s, 0) }

func (a *array) level(s *scanner, level int) *api.Error {
	if s.peek() != '[' {
		if fault := a.leaf(s, level); fault != nil {
			return fault
		}
		return a.elements.one(s, a.what)
	}
	if level == maxDepth {
		return s.fault(fmt.Sprintf("at most %d arrays inside of one another", maxDepth))
	}
	s.i++
	n := int64(0)
	switch s.peek() {
	case ']':
		s.i++
		if a.rank < 0 && a.elements.len() == 0 {
			return a.size(s, level, 0)
		}
	case '[':
		for {
			if fault := a.level(s, level+1); fault != nil {
				return fault
			}
			n++
			if s.take(']') {
				break
			}
			if !s.take(',') {
				return s.fault("a comma or ]")
			}
		}
	default:
		fault := a.leaf(s, level+1)
		if fault == nil {
			n, fault = a.elements.run(s, a.what)
		}
		if fault != nil {
			return fault
		}
	}
	return a.size(s, level, n)
}

// leaf notes that elements stand inside of so many arrays.
func (a *array) leaf(s *scanner, level int) *api.Error {
	if a.rank < 0 {
		a.rank = level
	}
	if a.rank != level {
		return s.wrong(a.what, fmt.Sprintf("elements inside of %d arrays each, as those before", a.rank))
	}
	return nil
}

// size notes the size of an array, which all of its level have.
func (a *array) size(s *scanner, level int, n int64) *api.Error {
	if !a.known[level] {
		a.known[level], a.dims[level] = true, n
	}
	if a.dims[level] != n {
		return api.Refuse("invalid_value", fmt.Sprintf("%s has an array of %d values before byte %d of the body, beside ones of %d; all must have one size",
			a.what, n, s.i, a.dims[level]))
	}
	return nil
}

// shape is that of one value.
func (a *array) shape() []int64 {
	n := 0
	for n < maxDepth && a.known[n] {
		n++
	}
	return append(make([]int64, 0, n+1), a.dims[:n]...)
}

// numbers are elements of a numeric type.
type numbers[T float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64] struct {
	kind   tensor.Type
	values []T
	parse  func(*decimal) (T, bool)
	float  bool // takes NaN, the infinities, and null as NaN
}

func newElements(t tensor.Type, expected int) elements {
	switch t {
	case tensor.Float32:
		return &numbers[float32]{t, make([]float32, 0, expected), (*decimal).float32, true}
	case tensor.Float64:
		return &numbers[float64]{t, make([]float64, 0, expected), (*decimal).float64, true}
	case tensor.Int8:
		return integers[int8](t, expected, math.MinInt8, math.MaxInt8)
	case tensor.Int16:
		return integers[int16](t, expected, math.MinInt16, math.MaxInt16)
	case tensor.Int32:
		return integers[int32](t, expected, math.MinInt32, math.MaxInt32)
	case tensor.Int64:
		return integers[int64](t, expected, math.MinInt64, math.MaxInt64)
	case tensor.Uint8:
		return integers[uint8](t, expected, 0, math.MaxUint8)
	case tensor.Uint16:
		return integers[uint16](t, expected, 0, math.MaxUint16)
	case tensor.Uint32:
		return integers[uint32](t, expected, 0, math.MaxUint32)
	case tensor.Uint64:
		return integers[uint64](t, expected, 0, math.MaxUint64)
	case tensor.Bool:
		return &flags{make([]uint8, 0, expected)}
	case tensor.Bytes:
		return &texts{make([][]byte, 0, expected)}
	case tensor.Invalid, tensor.Float16, tensor.BFloat16:
	}
	return nil
}

func integers[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](t tensor.Type, expected int, least int64, most uint64) elements {
	return &numbers[T]{t, make([]T, 0, expected), func(d *decimal) (T, bool) {
		n, ok := d.whole(least, most)
		return T(n), ok
	}, false}
}

func (e *numbers[T]) one(s *scanner, what string) *api.Error {
	s.peek()
	d, rest, ok := readDecimal(s.b[s.i:])
	if !ok {
		return e.token(s, what)
	}
	v, ok := e.parse(&d)
	if !ok {
		return s.wrong(what, fmt.Sprintf("a number that %v holds", e.kind))
	}
	e.values = append(e.values, v)
	s.i = len(s.b) - len(rest)
	return nil
}

// token reads what stands for a number without digits.
func (e *numbers[T]) token(s *scanner, what string) *api.Error {
	var v float64
	switch {
	case !e.float:
		return s.wrong(what, fmt.Sprintf("a number that %v holds", e.kind))
	case s.word("NaN"), s.word("null"):
		v = math.NaN()
	case s.word("Infinity"):
		v = math.Inf(1)
	case s.word("-Infinity"):
		v = math.Inf(-1)
	default:
		return s.wrong(what, "a number, NaN, Infinity, -Infinity or null")
	}
	e.values = append(e.values, T(v))
	return nil
}

func (e *numbers[T]) run(s *scanner, what string) (int64, *api.Error) {
	before := len(e.values)
	for {
		if fault := e.one(s, what); fault != nil {
			return 0, fault
		}
		if s.take(',') {
			continue
		}
		if s.take(']') {
			return int64(len(e.values) - before), nil
		}
		return 0, s.fault("a comma or ]")
	}
}

func (e *numbers[T]) tensor(name string, shape []int64) tensor.Tensor {
	return tensor.Of(name, e.kind, shape, e.values)
}

func (e *numbers[T]) len() int64 { return int64(len(e.values)) }

// flags are elements of type BOOL.
type flags struct{ values []uint8 }

func (e *flags) one(s *scanner, what string) *api.Error {
	switch s.peek() {
	case '0', '1':
		e.values = append(e.values, s.b[s.i]-'0')
		s.i++
		return nil
	}
	on, fault := s.boolean(what)
	v := uint8(0)
	if on {
		v = 1
	}
	e.values = append(e.values, v)
	return fault
}

func (e *flags) run(s *scanner, what string) (int64, *api.Error) { return runOf(e, s, what) }

func (e *flags) tensor(name string, shape []int64) tensor.Tensor {
	return tensor.Of(name, tensor.Bool, shape, e.values)
}

func (e *flags) len() int64 { return int64(len(e.values)) }

// texts are elements of type BYTES: strings, or {"b64": …} as TensorFlow Serving
// writes bytes.
type texts struct{ values [][]byte }

func (e *texts) one(s *scanner, what string) *api.Error {
	var text []byte
	var fault *api.Error
	if s.peek() == '{' {
		text, fault = s.base64(what)
	} else {
		text, fault = s.text()
	}
	e.values = append(e.values, text)
	return fault
}

// base64 reads the object {"b64": "…"}.
func (s *scanner) base64(what string) (bytes []byte, fault *api.Error) {
	at := s.i
	fault = s.fields(func(name []byte) *api.Error {
		if string(name) != "b64" {
			s.i = at
			return s.wrong(what, `a string, or {"b64": "…"} for bytes`)
		}
		text, fault := s.text()
		if fault != nil {
			return fault
		}
		bytes = make([]byte, base64.StdEncoding.DecodedLen(len(text)))
		n, err := base64.StdEncoding.Decode(bytes, text)
		if bytes = bytes[:n]; err != nil {
			return api.Refuse("invalid_value", fmt.Sprintf("%s has a b64 that is no base64: %v", what, err))
		}
		return nil
	})
	return bytes, fault
}

func (e *texts) run(s *scanner, what string) (int64, *api.Error) { return runOf(e, s, what) }

func (e *texts) tensor(name string, shape []int64) tensor.Tensor {
	return tensor.Tensor{Name: name, Type: tensor.Bytes, Shape: shape, Strings: e.values}
}

func (e *texts) len() int64 { return int64(len(e.values)) }

func runOf(e elements, s *scanner, what string) (int64, *api.Error) {
	before := e.len()
	for {
		if fault := e.one(s, what); fault != nil {
			return 0, fault
		}
		if s.take(',') {
			continue
		}
		if s.take(']') {
			return e.len() - before, nil
		}
		return 0, s.fault("a comma or ]")
	}
}
