package predict

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"

	"weir/api"
	"weir/internal/tensor"
)

// array reads the values of one tensor out of arrays of arrays, all of one shape. It
// may read several values of that shape in a row: the instances of a request.
type array struct {
	name     string // of the tensor
	form     form
	row      int64 // of the instance that is read, where form is namedRow
	first    int   // where the value begins that is read
	elements elements
	dims     [maxDepth]int64 // sizes seen first, by level
	known    [maxDepth]bool
	rank     int // levels of arrays; -1 until an element was read
}

// form says where in a request a tensor's values stand.
type form uint8

const (
	dataV2      form = iota // "data" of a V2 input
	onlyRows                // V1's instances, of a model with one input
	namedRow                // a field of each of V1's instances
	onlyColumn              // V1's inputs, of a model with one input
	namedColumn             // a field of V1's inputs
)

// elements are a tensor's values in their type.
type elements interface {
	// one reads an element.
	one(s *scanner) *api.Error
	// run reads elements up to the end of an array, which has at least one, and returns
	// how many it read.
	run(s *scanner) (int64, *api.Error)
	// tensor is what was read.
	tensor(name string, shape []int64) tensor.Tensor
	// len is the number of elements.
	len() int64
}

// newFeature makes the array of a feature's values, of which null is a missing one whatever their type.
func newFeature(name string, f form, t tensor.Type, expected int64) (*array, *api.Error) {
	a, fault := newArray(name, f, t, expected)
	if fault != nil {
		return nil, fault
	}
	switch e := a.elements.(type) {
	case *numbers[int64]:
		a.elements = &wholeOrNull{*e, nil}
	case *flags:
		a.elements = &flagsOrNull{*e, nil}
	case *texts:
		a.elements = &textsOrNull{*e}
	}
	return a, nil
}

// newArray makes an array for about so many elements of a type.
func newArray(name string, f form, t tensor.Type, expected int64) (*array, *api.Error) {
	e := newElements(t, int(expected)) //nolint:gosec // bounded by the body's bytes
	if e == nil {
		return nil, api.Refuse("invalid_value", fmt.Sprintf("input %s is %v, which JSON cannot carry exactly; send it as binary data, or over gRPC", quote(name), t))
	}
	if f != dataV2 {
		switch e := e.(type) {
		case *numbers[float32]:
			e.truths = true
		case *numbers[float64]:
			e.truths = true
		}
	}
	return &array{name: name, form: f, elements: e, rank: -1}, nil
}

// read reads one value, an array of arrays or an element.
func (a *array) read(s *scanner) *api.Error {
	s.peek()
	s.reading, a.first = a, s.i
	return a.level(s, 0)
}

// place says where in the request the value at the scanner's place stands, as a path:
// instances[3].age[0], or data[7] of input "age".
func (a *array) place(s *scanner) string {
	at := path(s.b[a.first:s.i])
	switch a.form {
	case onlyRows:
		return "instances" + at
	case namedRow:
		return fmt.Sprintf("instances[%d].%s%s", a.row, shorten(a.name), at)
	case onlyColumn:
		return "inputs" + at
	case namedColumn:
		return "inputs." + shorten(a.name) + at
	case dataV2:
	}
	return fmt.Sprintf("data%s of input %s", at, quote(a.name))
}

// path is the place behind b, the beginning of an array of arrays: [2][0] in the first
// value of the third array.
func path(b []byte) string {
	var index [maxDepth + 1]int
	depth, braces := 0, 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{':
			braces++
		case '}':
			braces--
		case '[':
			if depth < maxDepth {
				depth++
			}
			index[depth] = 0
		case ']':
			depth--
		case ',':
			if braces == 0 {
				index[depth]++
			}
		}
	}
	var text []byte
	for _, i := range index[1 : depth+1] {
		text = append(strconv.AppendInt(append(text, '['), int64(i), 10), ']')
	}
	return string(text)
}

func (a *array) level(s *scanner, level int) *api.Error {
	if s.peek() != '[' {
		if fault := a.leaf(s, level); fault != nil {
			return fault
		}
		return a.elements.one(s)
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
			n, fault = a.elements.run(s)
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
		return s.wrongValue(fmt.Sprintf("inside of %d arrays, as the values before", a.rank))
	}
	return nil
}

// size notes the size of an array, which all of its level have.
func (a *array) size(s *scanner, level int, n int64) *api.Error {
	if !a.known[level] {
		a.known[level], a.dims[level] = true, n
	}
	if a.dims[level] != n {
		return api.Refuse("invalid_value", fmt.Sprintf("%s is an array of %d values, beside ones of %d; all must have one size",
			a.place(s), n, a.dims[level]))
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

// number is what elements of a numeric type are in memory.
type number interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// numbers are elements of a numeric type.
type numbers[T number] struct {
	kind   tensor.Type
	values []T
	least  int64  // of a whole number
	most   uint64 // as above
	float  bool   // takes NaN, the infinities, and null as NaN
	truths bool   // takes true as 1 and false as 0, as libraries do and columns of tables
}

func newElements(t tensor.Type, expected int) elements {
	switch t {
	case tensor.Float32:
		return reals[float32](t, expected)
	case tensor.Float64:
		return reals[float64](t, expected)
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

func reals[T number](t tensor.Type, expected int) elements {
	return &numbers[T]{kind: t, values: make([]T, 0, expected), float: true}
}

func integers[T number](t tensor.Type, expected int, least int64, most uint64) elements {
	return &numbers[T]{kind: t, values: make([]T, 0, expected), least: least, most: most}
}

// parse is the element that a decimal stands for. A function value instead would move every decimal to the heap.
func (e *numbers[T]) parse(d *decimal) (T, bool) {
	switch {
	case !e.float:
		n, ok := d.whole(e.least, e.most)
		return T(n), ok
	case e.kind == tensor.Float32:
		f, ok := d.float32()
		return T(f), ok
	}
	f, ok := d.float64()
	return T(f), ok
}

func (e *numbers[T]) one(s *scanner) *api.Error {
	s.peek()
	var d decimal
	end, ok := d.read(s.b, s.i)
	if !ok {
		return e.token(s)
	}
	v, ok := e.parse(&d)
	if !ok {
		return s.wrongValue(fmt.Sprintf("a number that %v holds", e.kind))
	}
	e.values = append(e.values, v)
	s.i = end
	return nil
}

// token reads what stands for a number without digits.
func (e *numbers[T]) token(s *scanner) *api.Error {
	var v float64
	switch {
	case !e.float:
		return s.wrongValue(fmt.Sprintf("a number that %v holds", e.kind))
	case s.word("NaN"), s.word("null"):
		v = math.NaN()
	case s.word("Infinity"):
		v = math.Inf(1)
	case s.word("-Infinity"):
		v = math.Inf(-1)
	case e.truths && s.word("true"):
		v = 1
	case e.truths && s.word("false"): // v is 0
	case e.truths:
		return s.wrongValue("a number, true, false, NaN, Infinity, -Infinity or null")
	default:
		return s.wrongValue("a number, NaN, Infinity, -Infinity or null")
	}
	e.values = append(e.values, T(v))
	return nil
}

func (e *numbers[T]) run(s *scanner) (int64, *api.Error) {
	before := len(e.values)
	for {
		if fault := e.one(s); fault != nil {
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

func (e *flags) one(s *scanner) *api.Error {
	switch s.peek() {
	case '0', '1':
		e.values = append(e.values, s.b[s.i]-'0')
		s.i++
		return nil
	}
	switch {
	case s.word("true"):
		e.values = append(e.values, 1)
	case s.word("false"):
		e.values = append(e.values, 0)
	default:
		return s.wrongValue("true, false, 1 or 0")
	}
	return nil
}

func (e *flags) run(s *scanner) (int64, *api.Error) { return runOf(e, s) }

func (e *flags) tensor(name string, shape []int64) tensor.Tensor {
	return tensor.Of(name, tensor.Bool, shape, e.values)
}

func (e *flags) len() int64 { return int64(len(e.values)) }

// texts are elements of type BYTES: strings, or {"b64": …} as TensorFlow Serving
// writes bytes.
type texts struct{ values [][]byte }

func (e *texts) one(s *scanner) *api.Error {
	var text []byte
	var fault *api.Error
	switch s.peek() {
	case '{':
		text, fault = s.base64()
	case '"':
		text, fault = s.text()
	default:
		fault = s.wrongValue(wantText)
	}
	e.values = append(e.values, text)
	return fault
}

const wantText = `a string, or {"b64": "…"} for bytes`

// base64 reads the object {"b64": "…"}.
func (s *scanner) base64() (bytes []byte, fault *api.Error) {
	at := s.i
	fault = s.fields(func(name []byte) *api.Error {
		if string(name) != "b64" {
			s.i = at
			return s.wrongValue(wantText)
		}
		text, fault := s.text()
		if fault != nil {
			return fault
		}
		bytes = make([]byte, base64.StdEncoding.DecodedLen(len(text)))
		n, err := base64.StdEncoding.Decode(bytes, text)
		if bytes = bytes[:n]; err != nil {
			return api.Refuse("invalid_value", fmt.Sprintf("%s has a b64 that is no base64: %v", s.reading.place(s), err))
		}
		return nil
	})
	return bytes, fault
}

func (e *texts) run(s *scanner) (int64, *api.Error) { return runOf(e, s) }

func (e *texts) tensor(name string, shape []int64) tensor.Tensor {
	return tensor.Tensor{Name: name, Type: tensor.Bytes, Shape: shape, Strings: e.values}
}

func (e *texts) len() int64 { return int64(len(e.values)) }

func runOf(e elements, s *scanner) (int64, *api.Error) {
	before := e.len()
	for {
		if fault := e.one(s); fault != nil {
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
