package table

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Value is one cell. Null is a missing one.
type Value = parquet.Value

// Kind says what the values of a column can stand for.
type Kind uint8

// The kinds.
const (
	Untyped Kind = iota // texts of CSV, which may be numbers
	Number              // floats, integers and truth values
	Text
	Other  // it can be copied: times, decimals, binary data
	Nested // lists, maps and structs, which are not read
)

// Column is a column of a table.
type Column struct {
	Name string
	Kind Kind
	Type string // for people: "text", "double", "timestamp"

	node     any // parquet.Node, its type in Parquet files; not said, so that importers do not compile the library's generic methods
	unsigned bool
	half     bool // float16
}

// nodeOf is the type of a column in Parquet files.
func nodeOf(c *Column) parquet.Node {
	node, _ := c.node.(parquet.Node)
	return node
}

// untyped is a column of a CSV file.
func untyped(name string) Column {
	c := TextColumn(name)
	c.Kind = Untyped
	return c
}

// IsNested reports whether the column is no flat one.
func (c *Column) IsNested() bool { return c.Kind == Nested }

// IsInt96 reports whether the values are timestamps of 96 bits.
func (c *Column) IsInt96() bool { return nodeOf(c).Type().Kind() == parquet.Int96 }

// IsBytes reports whether the values are strings of bytes: texts, and decimals and binary data in their own form.
func (c *Column) IsBytes() bool {
	kind := nodeOf(c).Type().Kind()
	return kind == parquet.ByteArray || kind == parquet.FixedLenByteArray
}

// columnOf describes a column of a Parquet file.
func columnOf(name string, node parquet.Node) Column {
	c := Column{Name: name, Kind: Nested, Type: "nested", node: node}
	if !node.Leaf() || node.Repeated() {
		return c
	}
	t := node.Type()
	c.Kind, c.node = Number, optional(t)
	if logical := t.LogicalType(); logical != nil && logical.Value != nil {
		return c.logical(logical)
	}
	c.Type = strings.ToLower(t.Kind().String())
	switch t.Kind() {
	case parquet.Int96:
		c.Kind, c.Type = Other, "timestamp"
	case parquet.ByteArray:
		c.Kind, c.Type = Text, "text"
	case parquet.FixedLenByteArray:
		c.Kind, c.Type = Other, "binary"
	default:
	}
	return c
}

func (c Column) logical(l *format.LogicalType) Column {
	switch t := l.Value.(type) {
	case *format.StringType, *format.EnumType, *format.JsonType:
		c.Kind, c.Type = Text, "text"
	case *format.IntType:
		c.Type, c.unsigned = "integer", !t.IsSigned
	case *format.NullType:
		c.Type, c.node = "null", parquet.Int(32)
	case *format.TimestampType:
		c.Kind, c.Type = Other, "timestamp"
	case *format.DecimalType:
		c.Kind, c.Type = Other, "decimal"
	default:
		c.Kind, c.Type = Other, strings.ToLower(strings.TrimSuffix(l.String(), "()"))
		c.Type, _, _ = strings.Cut(c.Type, "(")
	}
	return c
}

// optional is a node of a Parquet file without what the file says of its encoding.
func optional(t parquet.Type) parquet.Node { return parquet.Optional(parquet.Leaf(t)) }

// Float is a cell as a number: NaN where it is missing, 1 and 0 for truth values. false: it is none.
func (c *Column) Float(v Value) (float64, bool) {
	if v.IsNull() {
		return math.NaN(), true
	}
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			return 1, true
		}
		return 0, true
	case parquet.Int32:
		if c.unsigned {
			return float64(v.Uint32()), true
		}
		return float64(v.Int32()), true
	case parquet.Int64:
		if c.unsigned {
			return float64(v.Uint64()), true
		}
		return float64(v.Int64()), true
	case parquet.Float:
		return float64(v.Float()), true
	case parquet.Double:
		return v.Double(), true
	default:
		if c.Kind != Untyped {
			return 0, false
		}
		return ParseNumber(string(v.ByteArray()))
	}
}

// Whole is a cell as a whole number of 64 bits. false: it is none, or missing.
func (c *Column) Whole(v Value) (int64, bool) {
	switch {
	case v.IsNull():
		return 0, false
	case v.Kind() == parquet.Int64 && !c.unsigned:
		return v.Int64(), true
	case c.Kind == Untyped:
		if n, err := strconv.ParseInt(string(v.ByteArray()), 10, 64); err == nil {
			return n, true
		}
	}
	x, ok := c.Float(v)
	return int64(x), ok && x == math.Trunc(x) && math.Abs(x) < 1<<63
}

// ParseNumber reads a number of a text: missing values of CSV files ("", "nan", "null", "na") are NaN, true and false 1 and 0. false:
// it is none.
func ParseNumber(text string) (float64, bool) {
	if x, err := strconv.ParseFloat(text, 64); err == nil {
		return x, true
	}
	switch strings.ToLower(text) {
	case "", "nan", "null", "na":
		return math.NaN(), true
	case "true":
		return 1, true
	case "false":
		return 0, true
	}
	return 0, false
}

// asHalf makes a column of float16, as one of floats of 32 bits.
func (c *Column) asHalf() {
	c.Kind, c.Type, c.half, c.node = Number, "float16", true, optional(parquet.FloatType)
}

// halfValue is a float16 as a float of 32 bits.
func halfValue(v Value) Value {
	if b := v.ByteArray(); !v.IsNull() && len(b) == 2 {
		return parquet.FloatValue(float32(halfFloat(binary.LittleEndian.Uint16(b))))
	}
	return Value{}
}

func halfFloat(bits uint16) float64 {
	sign, exponent, fraction := 1-2*float64(bits>>15), int(bits>>10&0x1f), float64(bits&0x3ff)
	switch {
	case exponent == 0x1f && fraction > 0:
		return math.NaN()
	case exponent == 0x1f:
		return math.Inf(int(sign))
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}
