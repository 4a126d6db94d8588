package onnx

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/internal/tensor"
)

// cast converts elements.
func cast(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	n.ignore("saturate", "round_mode") // of eight-bit floats
	to, err := elementType(n.integer("to", 0))
	if err != nil {
		return nil, err
	}
	return castTo(n, to)
}

func castLike(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	n.ignore("saturate", "round_mode")
	return castTo(n, n.typ(1))
}

func castTo(n *node, to tensor.Type) (kernel, error) {
	from := n.typ(0)
	n.gives(to)
	n.labelsOf(0)
	switch {
	case from == to:
		n.alias = true
		return func(c *call) error { return c.share(c.in(0).Shape) }, n.oneOf(0, slices.Concat(anything, []tensor.Type{tensor.Float16})...)
	case (from == tensor.Float16 || to == tensor.Float16) && n.variable(0).form == plain:
		return castHalf(n, from, to)
	case !slices.Contains(anything, to) || !slices.Contains(anything, from):
		return nil, fmt.Errorf("from %v to %v is not supported; %s", from, to, wayOut)
	case from == tensor.Bytes:
		return parsing(to), nil
	case to == tensor.Bytes:
		return printing(from), nil
	}
	switch from {
	case tensor.Float32:
		return castFrom[float32](to), nil
	case tensor.Float64:
		return castFrom[float64](to), nil
	case tensor.Int8:
		return castFrom[int8](to), nil
	case tensor.Int16:
		return castFrom[int16](to), nil
	case tensor.Int32:
		return castFrom[int32](to), nil
	case tensor.Int64:
		return castFrom[int64](to), nil
	case tensor.Uint16:
		return castFrom[uint16](to), nil
	case tensor.Uint32:
		return castFrom[uint32](to), nil
	case tensor.Uint64:
		return castFrom[uint64](to), nil
	}
	return castFrom[uint8](to), nil // and Bool, whose elements are 0 and 1
}

func castFrom[T number](to tensor.Type) kernel {
	switch to {
	case tensor.Bool:
		return each(func(x T) uint8 { return bit(x != 0) })
	case tensor.Float32:
		return each(func(x T) float32 { return float32(x) })
	case tensor.Float64:
		return each(func(x T) float64 { return float64(x) })
	case tensor.Int8:
		return each(func(x T) int8 { return int8(whole(x)) })
	case tensor.Int16:
		return each(func(x T) int16 { return int16(whole(x)) })
	case tensor.Int32:
		return each(func(x T) int32 { return int32(whole(x)) })
	case tensor.Int64:
		return each(whole[T])
	case tensor.Uint8:
		return each(func(x T) uint8 { return uint8(whole(x)) })
	case tensor.Uint16:
		return each(func(x T) uint16 { return uint16(whole(x)) })
	case tensor.Uint32:
		return each(func(x T) uint32 { return uint32(whole(x)) })
	}
	return each(func(x T) uint64 { return uint64(whole(x)) })
}

// whole is the integer part. What does not fit is the least integer, as x86 has it,
// on every machine.
func whole[T number](x T) int64 {
	if f := float64(x); f != f || f >= 1<<63 || f < -1<<63 {
		if y := T(0); y-1 > 0 && x > 0 { // an unsigned integer above the middle
			return int64(x)
		}
		if T(1)/2 == 0 {
			return int64(x)
		}
		return math.MinInt64
	}
	return int64(x)
}

// parsing reads numbers from strings.
func parsing(to tensor.Type) kernel {
	return func(c *call) error {
		in := c.in(0)
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		for i, s := range in.Strings {
			if err := parseElement(out, i, strings.TrimSpace(string(s))); err != nil {
				return fmt.Errorf("%q is no %v", text(s), to)
			}
		}
		return nil
	}
}

func parseElement(out *tensor.Tensor, i int, s string) error {
	switch out.Type {
	case tensor.Float32:
		v, err := strconv.ParseFloat(s, 32)
		if err != nil && !math.IsInf(v, 0) {
			return err
		}
		tensor.Values[float32](out)[i] = float32(v)
	case tensor.Float64:
		v, err := strconv.ParseFloat(s, 64)
		if err != nil && !math.IsInf(v, 0) {
			return err
		}
		tensor.Values[float64](out)[i] = v
	case tensor.Int64:
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return err
		}
		tensor.Values[int64](out)[i] = v
	case tensor.Int32:
		v, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return err
		}
		tensor.Values[int32](out)[i] = int32(v)
	default:
		return strconv.ErrSyntax
	}
	return nil
}

// printing writes numbers as strings.
func printing(from tensor.Type) kernel {
	switch from {
	case tensor.Float32:
		return printed(func(x float32) []byte { return printFloat(float64(x)) })
	case tensor.Float64:
		return printed(func(x float64) []byte { return printFloat(x) })
	case tensor.Int8:
		return printed(decimal[int8])
	case tensor.Int16:
		return printed(decimal[int16])
	case tensor.Int32:
		return printed(decimal[int32])
	case tensor.Int64:
		return printed(decimal[int64])
	case tensor.Uint16:
		return printed(decimal[uint16])
	case tensor.Uint32:
		return printed(decimal[uint32])
	case tensor.Uint64:
		return printed(func(x uint64) []byte { return strconv.AppendUint(nil, x, 10) })
	}
	return printed(decimal[uint8])
}

func decimal[T number](x T) []byte { return strconv.AppendInt(nil, int64(x), 10) }

// printFloat writes eight significant digits at most, as ONNX has it for every type, with the names that ONNX gives what is no number.
func printFloat(x float64) []byte {
	switch {
	case x != x:
		return []byte("NaN")
	case math.IsInf(x, 1):
		return []byte("INF")
	case math.IsInf(x, -1):
		return []byte("-INF")
	}
	return significant(x, 8)
}

// significant is C's %.*g: the shorter notation of that many significant digits, without
// trailing zeros.
func significant(x float64, digits int) []byte {
	e := strconv.AppendFloat(nil, x, 'e', digits-1, 64)
	at := slices.Index(e, 'e')
	exponent, err := strconv.Atoi(string(e[at+1:]))
	if err == nil && exponent >= -4 && exponent < digits {
		return trimmed(strconv.AppendFloat(nil, x, 'f', digits-1-exponent, 64))
	}
	return append(trimmed(e[:at:at]), e[at:]...)
}

// trimmed cuts the zeros that end a fraction.
func trimmed(s []byte) []byte {
	if !slices.Contains(s, '.') {
		return s
	}
	for s[len(s)-1] == '0' {
		s = s[:len(s)-1]
	}
	if s[len(s)-1] == '.' {
		s = s[:len(s)-1]
	}
	return s
}

func printed[T number](f func(x T) []byte) kernel {
	return func(c *call) error {
		in := c.in(0)
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		for i, x := range tensor.Values[T](in) {
			out.Strings[i] = f(x)
		}
		return nil
	}
}
