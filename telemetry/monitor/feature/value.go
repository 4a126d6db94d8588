package feature

import (
	"fmt"
	"math"
	"strconv"
)

// Type is the type of a feature or of an entity's key.
type Type uint8

// The types by their names in a manifest.
const (
	Number  Type = iota // float64
	Integer             // int64
	Boolean
	String
)

var typeNames = [...]string{"number", "integer", "boolean", "string"}

func (t Type) String() string { return typeNames[t] }

func parseType(name string) (Type, error) {
	for i, known := range typeNames {
		if name == known {
			return Type(i), nil
		}
	}
	return 0, fmt.Errorf("type %q is unknown; known are number, integer, boolean and string", name)
}

// Kind says what a Value holds.
type Kind uint8

// The kinds. WrongType is a stored value that is not of the feature's type; it counts
// as missing.
const (
	Missing Kind = iota
	WrongType
	Float
	Int
	Bool
	Text
)

// Value is a feature of one row.
type Value struct {
	Kind Kind
	bits uint64
	text string
}

// FloatOf is a number, and a missing value where f is NaN.
func FloatOf(f float64) Value {
	if math.IsNaN(f) {
		return Value{}
	}
	return Value{Kind: Float, bits: math.Float64bits(f)}
}

// IntOf is an integer.
func IntOf(i int64) Value { return Value{Kind: Int, bits: uint64(i)} } //nolint:gosec // kept as bits

// BoolOf is a truth value.
func BoolOf(b bool) Value {
	if b {
		return Value{Kind: Bool, bits: 1}
	}
	return Value{Kind: Bool}
}

// TextOf is a string.
func TextOf(s string) Value { return Value{Kind: Text, text: s} }

// Present reports whether there is a value.
func (v Value) Present() bool { return v.Kind > WrongType }

// Float is the value as a number: NaN where it is missing or a string.
func (v Value) Float() float64 {
	switch v.Kind {
	case Float:
		return math.Float64frombits(v.bits)
	case Int, Bool:
		return float64(v.Int())
	default:
		return math.NaN()
	}
}

// Int is the value of an integer or of a truth value, 0 or 1.
func (v Value) Int() int64 { return int64(v.bits) } //nolint:gosec // kept as bits

// Text is the string.
func (v Value) Text() string { return v.text }

// String is the value in words; "" where it is missing.
func (v Value) String() string {
	switch v.Kind {
	case Float:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case Int:
		return strconv.FormatInt(v.Int(), 10)
	case Bool:
		return strconv.FormatBool(v.bits != 0)
	case Text:
		return v.text
	default:
		return ""
	}
}

// Parse reads a value of type t from text, as the online store and files hold it. What
// is not of that type is of kind WrongType; NaN is missing.
func Parse(t Type, text string) Value {
	switch t {
	case Number:
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return FloatOf(f)
		}
	case Integer:
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return IntOf(i)
		}
	case Boolean:
		switch text {
		case "1", "true", "True", "TRUE":
			return BoolOf(true)
		case "0", "false", "False", "FALSE":
			return BoolOf(false)
		}
	case String:
		return TextOf(text)
	}
	return Value{Kind: WrongType}
}

// Convert gives v as type t where that loses nothing: an integer is a number, a whole
// number an integer. Other values of another type are of kind WrongType.
func (v Value) Convert(t Type) Value {
	switch {
	case !v.Present(), t == Number && v.Kind == Float, t == Integer && v.Kind == Int, t == Boolean && v.Kind == Bool,
		t == String && v.Kind == Text:
		return v
	case t == Number && (v.Kind == Int || v.Kind == Bool):
		return FloatOf(v.Float())
	case t == Integer && v.Kind == Bool:
		return IntOf(v.Int())
	case t == Integer && v.Kind == Float:
		const limit = 1 << 53 // beyond it a float64 does not tell neighbours apart
		if f := v.Float(); f == math.Trunc(f) && math.Abs(f) <= limit {
			return IntOf(int64(f))
		}
	case t == Boolean && v.Kind == Int && v.bits <= 1:
		return BoolOf(v.bits == 1)
	case t == Boolean && v.Kind == Float && (v.Float() == 0 || v.Float() == 1):
		return BoolOf(v.Float() == 1)
	}
	return Value{Kind: WrongType}
}
