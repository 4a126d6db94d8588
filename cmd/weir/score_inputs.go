package main

import (
	"errors"
	"fmt"
	"math"

	"weir/engine/classic"
	"weir/internal/console"
	"weir/internal/table"
	"weir/internal/tensor"
)

// scoreInputs makes a model's inputs of rows of a table.
type scoreInputs struct {
	v       *classic.Version
	columns []table.Column
	list    []matchedInput
}

// inputsOf finds the columns of a table that are a model's inputs, and checks that they can be. ordered tells that they are taken in
// their order, since the model's file has no names.
func inputsOf(v *classic.Version, columns []table.Column, chosen []string) (s scoreInputs, ordered bool, err error) {
	list, ordered, err := matchInputs(v, featureNames(namesOfColumns(columns)), chosen)
	if err != nil {
		return s, false, err
	}
	s = scoreInputs{v, columns, list}
	return s, ordered, s.check()
}

func namesOfColumns(columns []table.Column) []string {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].Name
	}
	return names
}

// orderedNote tells of columns that are taken in their order.
func orderedNote(columns []table.Column) string {
	return "note: the model's file does not name its features; it takes the columns in their order: " + console.Printable(console.ShortList(namesOfColumns(columns)))
}

// selected are the columns that the model reads, of all.
func (s *scoreInputs) selected() []bool {
	list := make([]bool, len(s.columns))
	for at := range s.columnsRead() {
		list[at] = true
	}
	return list
}

// check says which columns cannot be what the model takes.
func (s *scoreInputs) check() error {
	for _, in := range s.list {
		switch in.spec.Type {
		case tensor.Float32, tensor.Float64, tensor.Int64, tensor.Int32, tensor.Bool, tensor.Bytes:
		default:
			return fmt.Errorf("the model's input %q is %v, which no column of a table fills", in.spec.Name, in.spec.Type)
		}
		for i, at := range in.columns {
			c := &s.columns[at]
			text := in.spec.Type == tensor.Bytes
			switch {
			case c.Kind == table.Nested:
				return fmt.Errorf("column %q is nested (a list, a map or a struct); the model takes one value", c.Name)
			case c.Kind == table.Other:
				return fmt.Errorf("column %q holds values of the type %s; the model takes numbers: convert them as its training did", c.Name, c.Type)
			case c.Kind == table.Text && !text && !s.v.HasCategories(i):
				return fmt.Errorf("column %q holds text; the model takes numbers: encode it as its training did", c.Name)
			case c.Kind == table.Number && text:
				return fmt.Errorf("column %q holds numbers (%s); the model takes text", c.Name, c.Type)
			}
		}
	}
	return nil
}

// columnsRead are those that the model reads, and whether they are texts of CSV that it reads as numbers.
func (s *scoreInputs) columnsRead() map[int]bool {
	read := make(map[int]bool)
	for _, in := range s.list {
		for i, at := range in.columns {
			read[at] = s.columns[at].Kind == table.Untyped && in.spec.Type != tensor.Bytes && !s.v.HasCategories(i)
		}
	}
	return read
}

// builder is one input that grows by rows.
type builder struct {
	matchedInput
	floats []float64
	wholes []int64
	texts  [][]byte
}

// make builds the inputs of some rows of a chunk. Rows that the model cannot take are told, and left out.
func (s *scoreInputs) make(c *table.Chunk, rows []int) (in []tensor.Tensor, taken []int, wrong []table.RowError) {
	builders := make([]builder, len(s.list))
	for i := range builders {
		builders[i].matchedInput = s.list[i]
		if t := s.list[i].spec.Type; t == tensor.Float32 || t == tensor.Float64 {
			builders[i].floats = make([]float64, 0, len(rows)*len(s.list[i].columns))
		}
	}
	taken = make([]int, 0, len(rows))
	for _, row := range rows {
		column, err := -1, error(nil)
		for i := range builders {
			if column, err = s.add(&builders[i], c, row); err != nil {
				break
			}
		}
		if err == nil {
			taken = append(taken, row)
			continue
		}
		for i := range builders {
			builders[i].cut(len(taken))
		}
		wrong = append(wrong, table.RowError{Row: row, Column: s.columns[column].Name, Err: err})
	}
	for i := range builders {
		in = append(in, builders[i].tensor(len(taken)))
	}
	return in, taken, wrong
}

// add adds a row; column is the one that has no fitting value.
func (s *scoreInputs) add(b *builder, c *table.Chunk, row int) (column int, err error) {
	for i, at := range b.columns {
		v := c.Columns[at][row]
		switch b.spec.Type {
		case tensor.Float32, tensor.Float64:
			var x float64
			if x, err = s.number(i, at, v); err == nil {
				b.floats = append(b.floats, x)
			}
		case tensor.Bytes:
			if v.IsNull() && s.columns[at].Kind != table.Untyped {
				return at, errors.New("it is missing, and the model takes text")
			}
			b.texts = append(b.texts, v.ByteArray())
		default:
			var n int64
			if n, err = s.whole(b.spec.Type, at, v); err == nil {
				b.wholes = append(b.wholes, n)
			}
		}
		if err != nil {
			return at, err
		}
	}
	return -1, nil
}

// number is a value of the model's column i: a number, or that of a category.
func (s *scoreInputs) number(i, at int, v table.Value) (float64, error) {
	c := &s.columns[at]
	if c.Kind != table.Number && s.v.HasCategories(i) {
		if v.IsNull() {
			return math.NaN(), nil
		}
		return s.v.Category(i, string(v.ByteArray()))
	}
	x, ok := c.Float(v)
	if !ok {
		return 0, fmt.Errorf("%.40q is no number", v.ByteArray())
	}
	return x, nil
}

// whole is a value of an input of whole numbers, or of truth values.
func (s *scoreInputs) whole(t tensor.Type, at int, v table.Value) (int64, error) {
	c := &s.columns[at]
	n, ok := c.Whole(v)
	switch {
	case v.IsNull():
		return 0, fmt.Errorf("it is missing, and the model takes %v, which has no missing values", t)
	case !ok, t == tensor.Int32 && n != int64(int32(n)), t == tensor.Bool && n != 0 && n != 1: //nolint:gosec // compared
		text, err := c.Format(v)
		return 0, errors.Join(err, fmt.Errorf("%.40q is no %v", text, t))
	}
	return n, nil
}

// cut leaves so many rows.
func (b *builder) cut(rows int) {
	n := rows * len(b.columns)
	b.floats, b.wholes, b.texts = b.floats[:min(n, len(b.floats))], b.wholes[:min(n, len(b.wholes))], b.texts[:min(n, len(b.texts))]
}

// tensor is the input, with so many rows.
func (b *builder) tensor(rows int) tensor.Tensor {
	shape := []int64{int64(rows)}
	if len(b.spec.Shape) == 2 {
		shape = append(shape, int64(len(b.columns)))
	}
	name := b.spec.Name
	switch b.spec.Type {
	case tensor.Bytes:
		return tensor.Tensor{Name: name, Type: tensor.Bytes, Shape: shape, Strings: b.texts}
	case tensor.Int64:
		return tensor.Of(name, tensor.Int64, shape, b.wholes)
	case tensor.Int32:
		list := make([]int32, len(b.wholes))
		for i, n := range b.wholes {
			list[i] = int32(n) //nolint:gosec // whole saw to it
		}
		return tensor.Of(name, tensor.Int32, shape, list)
	case tensor.Bool:
		list := make([]uint8, len(b.wholes))
		for i, n := range b.wholes {
			list[i] = uint8(n) //nolint:gosec // 0 or 1
		}
		return tensor.Of(name, tensor.Bool, shape, list)
	default:
		return tensor.Of(name, tensor.Float64, shape, b.floats)
	}
}
