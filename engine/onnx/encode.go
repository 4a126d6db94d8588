package onnx

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weir/internal/tensor"
)

// scaler is (x-offset)*scale, by column or the same for all.
func scaler(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	s := offsets{n.floats("offset"), n.floats("scale")}
	if len(s.offset) == 0 || len(s.offset) != len(s.scale) {
		return nil, fmt.Errorf("%d offsets and %d scales", len(s.offset), len(s.scale))
	}
	n.gives(tensor.Float32)
	switch n.typ(0) {
	case tensor.Float32:
		return columns(len(s.offset), func(x float32, i int) float32 { return (x - s.offset[i]) * s.scale[i] }), nil
	case tensor.Float64:
		return columns(len(s.offset), func(x float64, i int) float32 {
			return float32((x - float64(s.offset[i])) * float64(s.scale[i]))
		}), nil
	case tensor.Int32:
		return columns(len(s.offset), func(x int32, i int) float32 { return (float32(x) - s.offset[i]) * s.scale[i] }), nil
	case tensor.Int64:
		return columns(len(s.offset), func(x int64, i int) float32 { return (float32(x) - s.offset[i]) * s.scale[i] }), nil
	}
	return nil, n.oneOf(0, numeric...)
}

type offsets struct{ offset, scale []float32 }

// columns applies f to every element and the index of its column, of width columns;
// 0 is every column's index where width is 1.
func columns[T, U number](width int, f func(x T, column int) U) kernel {
	return func(c *call) error {
		in := c.in(0)
		if size := in.Shape; width > 1 && (len(size) == 0 || size[len(size)-1] != int64(width)) {
			return fmt.Errorf("rows of shape %v; the model has %d columns", size, width)
		}
		out, err := c.out(0, in.Shape...)
		if err != nil {
			return err
		}
		to := tensor.Values[U](out)
		column := 0
		for i, x := range tensor.Values[T](in) {
			to[i] = f(x, column)
			if column++; column == width {
				column = 0
			}
		}
		return nil
	}
}

// imputer replaces a value that stands for a missing one, by column or the same for all.
func imputer(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	floats, missing := n.floats("imputed_value_floats"), n.float("replaced_value_float", 0)
	ints, missingInt := n.integers("imputed_value_int64s"), n.integer("replaced_value_int64", 0)
	switch n.typ(0) {
	case tensor.Float32:
		return imputing(floats, func(x float32) bool { return x == missing || x != x && missing != missing })
	case tensor.Float64:
		values := make([]float64, len(floats))
		for i, v := range floats {
			values[i] = float64(v)
		}
		return imputing(values, func(x float64) bool { return x == float64(missing) || x != x && missing != missing })
	case tensor.Int64:
		return imputing(ints, func(x int64) bool { return x == missingInt })
	}
	return nil, n.oneOf(0, tensor.Float32, tensor.Float64, tensor.Int64)
}

func imputing[T number](values []T, missing func(x T) bool) (kernel, error) {
	if len(values) == 0 {
		return nil, errors.New("no values to impute")
	}
	return columns(len(values), func(x T, column int) T {
		if missing(x) {
			return values[column]
		}
		return x
	}), nil
}

// normalizer divides each row by its norm, as float32.
func normalizer(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	norm := n.str("norm", "MAX")
	if !slices.Contains([]string{"MAX", "L1", "L2"}, norm) {
		return nil, fmt.Errorf("norm %q is unknown", norm)
	}
	n.gives(tensor.Float32)
	n.labelsOf(0)
	switch n.typ(0) {
	case tensor.Float32:
		return normalizing[float32](norm), nil
	case tensor.Float64:
		return normalizing[float64](norm), nil
	case tensor.Int32:
		return normalizing[int32](norm), nil
	case tensor.Int64:
		return normalizing[int64](norm), nil
	}
	return nil, n.oneOf(0, numeric...)
}

func normalizing[T float32 | float64 | int32 | int64](norm string) kernel {
	return func(c *call) error {
		in := c.in(0)
		_, width, err := table(in)
		if err != nil {
			return err
		}
		out, err := c.out(0, in.Shape...)
		if err != nil || width == 0 {
			return err
		}
		to, from := tensor.Values[float32](out), tensor.Values[T](in)
		for at := 0; at < len(to); at += int(width) {
			normalize(norm, to[at:at+int(width)], from[at:at+int(width)])
		}
		return nil
	}
}

func normalize[T float32 | float64 | int32 | int64](norm string, to []float32, from []T) {
	total := float32(0)
	if norm == "MAX" {
		total = -math.MaxFloat32
	}
	for _, x := range from {
		switch norm {
		case "MAX":
			if y := float32(x); y > total {
				total = y
			}
		case "L1":
			total += abs32(float32(x))
		default:
			total += float32(x * x)
		}
	}
	for i, x := range from {
		switch {
		case total == 0:
			to[i] = float32(x)
		case norm != "L2":
			to[i] = float32(x) / total
		default:
			to[i] = float32(math.Sqrt(float64(float32(x*x) / total)))
			if x < 0 {
				to[i] = -to[i]
			}
		}
	}
}

// binarizer is 1 above a threshold.
func binarizer(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	threshold := n.float("threshold", 0)
	n.gives(n.typ(0))
	return each(func(x float32) float32 { return float32(bit(x > threshold)) }), n.oneOf(0, tensor.Float32)
}

// oneHotEncoder is a row with a 1 for each element, at the place of its category.
func oneHotEncoder(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	ints, strings := n.integers("cats_int64s"), n.strings("cats_strings")
	zeros := n.integer("zeros", 1) != 0
	n.gives(tensor.Float32)
	count := max(len(ints), len(strings))
	if count == 0 || len(ints) > 0 && len(strings) > 0 {
		return nil, fmt.Errorf("%d integers and %d strings as categories", len(ints), len(strings))
	}
	places := make(map[int64]int, len(ints))
	for i, v := range ints {
		places[v] = i
	}
	words := make(map[string]int, len(strings))
	for i, v := range strings {
		words[string(v)] = i
	}
	if (n.typ(0) == tensor.Bytes) != (len(strings) > 0) {
		return nil, fmt.Errorf("input 0 is %v, which the categories are not", n.typ(0))
	}
	switch n.typ(0) {
	case tensor.Bytes:
		return func(c *call) error {
			return placed(c, count, zeros, func(i int) (int, bool) { at, ok := words[string(c.in(0).Strings[i])]; return at, ok })
		}, nil
	case tensor.Float32:
		return hot[float32](places, count, zeros), nil
	case tensor.Float64:
		return hot[float64](places, count, zeros), nil
	case tensor.Int32:
		return hot[int32](places, count, zeros), nil
	case tensor.Int64:
		return hot[int64](places, count, zeros), nil
	}
	return nil, n.oneOf(0, numeric...)
}

func hot[T number](places map[int64]int, count int, zeros bool) kernel {
	return func(c *call) error {
		from := tensor.Values[T](c.in(0))
		return placed(c, count, zeros, func(i int) (int, bool) { at, ok := places[whole(from[i])]; return at, ok })
	}
}

func placed(c *call, count int, zeros bool, place func(i int) (int, bool)) error {
	in := c.in(0)
	out, err := c.out(0, append(slices.Clone(in.Shape), int64(count))...)
	if err != nil {
		return err
	}
	to := tensor.Values[float32](out)
	clear(to)
	for i := range elements(in) {
		at, ok := place(i)
		if ok {
			to[i*count+at] = 1
		} else if !zeros {
			return fmt.Errorf("element %d is none of the %d categories, and the model takes no others (zeros=0)", i, count)
		}
	}
	return nil
}

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

// featureVectorizer joins columns, as float32.
func featureVectorizer(n *node) (kernel, error) {
	if err := n.takes(1, maxNames); err != nil {
		return nil, err
	}
	widths := n.integers("inputdimensions")
	if widths != nil && len(widths) != len(n.in) {
		return nil, fmt.Errorf("%d inputdimensions of %d inputs", len(widths), len(n.in))
	}
	for i := range n.in {
		if err := n.oneOf(i, numeric...); err != nil {
			return nil, err
		}
	}
	n.gives(tensor.Float32)
	return func(c *call) error {
		var rows, total int64
		for i := range c.inputs() {
			r, width, err := table(c.in(i))
			if err != nil {
				return err
			}
			if i > 0 && r != rows || widths != nil && widths[i] != width {
				return fmt.Errorf("input %d has %d rows of %d columns, which the others or inputdimensions %v do not fit", i, r, width, widths)
			}
			rows = r
			total += width
		}
		out, err := c.out(0, rows, total)
		if err != nil {
			return err
		}
		to, done := tensor.Values[float32](out), 0
		for i := range c.inputs() {
			_, width, _ := table(c.in(i))
			x, err := c.floats(i)
			if err != nil {
				return err
			}
			for r := range int(rows) {
				copy(to[r*int(total)+done:], x[r*int(width):(r+1)*int(width)])
			}
			done += int(width)
		}
		return nil
	}, nil
}

// arrayFeatureExtractor picks elements of the last axis.
func arrayFeatureExtractor(n *node) (kernel, error) {
	if err := n.takes(2, 2); err != nil {
		return nil, err
	}
	n.gives(n.typ(0))
	if err := n.oneOf(1, tensor.Int64); err != nil {
		return nil, err
	}
	return func(c *call) error {
		in, list := c.in(0), tensor.Values[int64](c.in(1))
		if len(in.Shape) == 0 {
			return errors.New("the input is a single value")
		}
		lead := in.Shape[:len(in.Shape)-1]
		width := in.Shape[len(in.Shape)-1]
		shape := append(slices.Clone(lead), int64(len(list)))
		if len(lead) == 0 {
			shape = []int64{1, int64(len(list))}
		}
		for _, i := range list {
			if i < 0 || i >= width {
				return fmt.Errorf("index %d of an axis of %d", i, width)
			}
		}
		out, err := c.out(0, shape...)
		if err != nil {
			return err
		}
		for r := range int(product(lead)) {
			for k, i := range list {
				copyElements(out, r*len(list)+k, in, r*int(width)+int(i), 1)
			}
		}
		return nil
	}, n.oneOf(0, anything...)
}

// zipMap names the columns of a table of probabilities. Its output, a list of maps in
// ONNX, is the table itself here, and the names are the model's labels.
func zipMap(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	k := classesOf(&n.attributeReader, "classlabels_int64s", "classlabels_strings")
	if k.count() == 0 {
		return nil, errors.New("no class labels")
	}
	n.gives(tensor.Float32)
	n.labels, n.labelled = k.names(), 0
	n.alias = true
	return func(c *call) error {
		in := c.in(0)
		rows, width, err := table(in)
		if err == nil && width != int64(k.count()) {
			err = fmt.Errorf("%d columns for %d classes", width, k.count())
		}
		if err != nil {
			return err
		}
		return c.share([]int64{rows, width})
	}, n.oneOf(0, tensor.Float32)
}
