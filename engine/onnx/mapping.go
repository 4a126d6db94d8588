package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

// categoryMapper exchanges strings for integers, or integers for strings.
func categoryMapper(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	ints, strings := n.integers("cats_int64s"), n.strings("cats_strings")
	if len(ints) != len(strings) {
		return nil, fmt.Errorf("%d integers and %d strings as categories", len(ints), len(strings))
	}
	otherInt, otherString := n.integer("default_int64", -1), []byte(n.str("default_string", "_Unused"))
	if n.typ(0) == tensor.Bytes {
		n.gives(tensor.Int64)
		return mapped(stringKeys(strings), intValues(ints, otherInt)), nil
	}
	n.gives(tensor.Bytes)
	return mapped(intKeys(ints), stringValues(strings, otherString)), n.oneOf(0, tensor.Int64)
}

// keys finds the place of an element of a tensor, -1 where it is none of them.
type keys func(t *tensor.Tensor, i int) int

// put writes the value of a place to an element, or the default for -1.
type put func(t *tensor.Tensor, i, place int)

func mapped(find keys, write put) kernel {
	return func(c *call) error {
		in := c.in(0)
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		for i := range elements(in) {
			write(out, i, find(in, i))
		}
		return nil
	}
}

func stringKeys(list [][]byte) keys {
	places := make(map[string]int, len(list))
	for i, s := range list {
		places[string(s)] = i
	}
	return func(t *tensor.Tensor, i int) int { return placeOf(places, string(t.Strings[i])) }
}

func intKeys(list []int64) keys { return numberKeys(list) }

func placeOf[K comparable](places map[K]int, key K) int {
	if i, ok := places[key]; ok {
		return i
	}
	return -1
}

// numberKeys finds numbers; what is no number is one key.
func numberKeys[T number](list []T) keys {
	places := make(map[T]int, len(list))
	nan := -1
	for i, v := range list {
		if v != v {
			nan = i
		} else {
			places[v] = i
		}
	}
	return func(t *tensor.Tensor, i int) int {
		v := tensor.Values[T](t)[i]
		if v != v {
			return nan
		}
		return placeOf(places, v)
	}
}

func numbersOnly(find keys) keys {
	return func(t *tensor.Tensor, i int) int {
		if v := tensor.Values[float32](t)[i]; v != v {
			return -1
		}
		return find(t, i)
	}
}

func stringValues(list [][]byte, other []byte) put {
	return func(t *tensor.Tensor, i, place int) {
		t.Strings[i] = other
		if place >= 0 {
			t.Strings[i] = list[place]
		}
	}
}

func intValues(list []int64, other int64) put { return numberValues(list, other) }

func numberValues[T number](list []T, other T) put {
	return func(t *tensor.Tensor, i, place int) {
		v := other
		if place >= 0 {
			v = list[place]
		}
		tensor.Values[T](t)[i] = v
	}
}

// labelEncoder maps keys to values, each of one of several types.
func labelEncoder(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	if n.version < 2 {
		return oldLabelEncoder(n)
	}
	find, count, err := encoderKeys(n)
	if err != nil {
		return nil, err
	}
	write, have, err := encoderValues(n)
	if err != nil {
		return nil, err
	}
	if count != have {
		return nil, fmt.Errorf("%d keys and %d values", count, have)
	}
	return mapped(find, write), nil
}

// oldLabelEncoder knows the classes' names, whose places are their numbers.
func oldLabelEncoder(n *node) (kernel, error) {
	names := n.strings("classes_strings")
	other, otherInt := []byte(n.str("default_string", "_Unused")), n.integer("default_int64", -1)
	if n.typ(0) == tensor.Bytes {
		n.gives(tensor.Int64)
		places := make([]int64, len(names))
		for i := range places {
			places[i] = int64(i)
		}
		return mapped(stringKeys(names), intValues(places, otherInt)), nil
	}
	n.gives(tensor.Bytes)
	return func(c *call) error {
		write := stringValues(names, other)
		return mapped(func(t *tensor.Tensor, i int) int {
			if v := tensor.Values[int64](t)[i]; v >= 0 && v < int64(len(names)) {
				return int(v)
			}
			return -1
		}, write)(c)
	}, n.oneOf(0, tensor.Int64)
}

func encoderKeys(n *node) (keys, int, error) {
	strings, ints, floats, t := n.strings("keys_strings"), n.integers("keys_int64s"), n.floats("keys_floats"), n.tensor("keys_tensor")
	switch typ := n.typ(0); {
	case typ == tensor.Bytes && strings != nil:
		return stringKeys(strings), len(strings), nil
	case typ == tensor.Int64 && ints != nil:
		return intKeys(ints), len(ints), nil
	case typ == tensor.Float32 && floats != nil:
		find := numberKeys(floats)
		if n.version < 4 { // what is no number was no key
			find = numbersOnly(find)
		}
		return find, len(floats), nil
	case t == nil || t.Type != typ:
		return nil, 0, fmt.Errorf("the node has no keys of its input's type, %v", typ)
	case typ == tensor.Bytes:
		return stringKeys(t.Strings), len(t.Strings), nil
	case typ == tensor.Int64:
		return numberKeys(slices.Clone(tensor.Values[int64](t))), elements(t), nil
	case typ == tensor.Int32:
		return numberKeys(slices.Clone(tensor.Values[int32](t))), elements(t), nil
	case typ == tensor.Int16:
		return numberKeys(slices.Clone(tensor.Values[int16](t))), elements(t), nil
	case typ == tensor.Float32:
		return numberKeys(slices.Clone(tensor.Values[float32](t))), elements(t), nil
	case typ == tensor.Float64:
		return numberKeys(slices.Clone(tensor.Values[float64](t))), elements(t), nil
	}
	return nil, 0, n.oneOf(0, numeric...)
}

func encoderValues(n *node) (put, int, error) {
	strings, ints, floats, t := n.strings("values_strings"), n.integers("values_int64s"), n.floats("values_floats"), n.tensor("values_tensor")
	otherString, otherInt, otherFloat := []byte(n.str("default_string", "_Unused")), n.integer("default_int64", -1), n.float("default_float", float32(math.Copysign(0, -1)))
	other := n.tensor("default_tensor")
	switch {
	case strings != nil:
		n.gives(tensor.Bytes)
		return stringValues(strings, otherString), len(strings), nil
	case ints != nil:
		n.gives(tensor.Int64)
		return intValues(ints, otherInt), len(ints), nil
	case floats != nil:
		n.gives(tensor.Float32)
		return numberValues(floats, otherFloat), len(floats), nil
	case t == nil:
		return nil, 0, errors.New("the node has no values")
	case other != nil && (other.Type != t.Type || elements(other) != 1):
		return nil, 0, fmt.Errorf("the default of type %v for values of %v", other.Type, t.Type)
	}
	n.gives(t.Type)
	switch t.Type {
	case tensor.Bytes:
		if other != nil {
			otherString = slices.Clone(other.Strings[0])
		}
		return stringValues(clones(t.Strings), otherString), len(t.Strings), nil
	case tensor.Int64:
		return tensorValues(t, other, otherInt), elements(t), nil
	case tensor.Int32:
		return tensorValues(t, other, int32(-1)), elements(t), nil
	case tensor.Int16:
		return tensorValues(t, other, int16(-1)), elements(t), nil
	case tensor.Float32:
		return tensorValues(t, other, otherFloat), elements(t), nil
	case tensor.Float64:
		return tensorValues(t, other, math.Copysign(0, -1)), elements(t), nil
	}
	return nil, 0, fmt.Errorf("values of type %v are not supported; %s", t.Type, wayOut)
}

func tensorValues[T number](t, other *tensor.Tensor, otherwise T) put {
	if other != nil {
		otherwise = tensor.Values[T](other)[0]
	}
	return numberValues(slices.Clone(tensor.Values[T](t)), otherwise)
}
