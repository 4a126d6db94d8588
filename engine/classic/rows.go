package classic

import (
	"fmt"
	"slices"

	"weir/internal/tensor"
)

// Rows of a tensor are the slices along its first size.

// part is rows [from, to) of a tensor, in the same memory.
func part(t *tensor.Tensor, from, to int) tensor.Tensor {
	p := tensor.Tensor{Name: t.Name, Type: t.Type, Shape: slices.Clone(t.Shape)}
	rows := int(t.Shape[0])
	p.Shape[0] = int64(to - from)
	if t.Strings != nil {
		n := len(t.Strings) / rows
		p.Strings = t.Strings[from*n : to*n : to*n]
		return p
	}
	n := len(t.Data) / rows
	p.Data = t.Data[from*n : to*n : to*n]
	return p
}

func parts(ts []tensor.Tensor, from, to int) []tensor.Tensor {
	list := make([]tensor.Tensor, len(ts))
	for i := range ts {
		list[i] = part(&ts[i], from, to)
	}
	return list
}

// join puts rows of several sets of tensors together in new memory. The sets have the
// same tensors, and these differ in nothing but their rows.
func join(sets [][]tensor.Tensor) []tensor.Tensor {
	joined := make([]tensor.Tensor, len(sets[0]))
	for i := range joined {
		first := &sets[0][i]
		t := tensor.Tensor{Name: first.Name, Type: first.Type, Shape: slices.Clone(first.Shape)}
		t.Shape[0] = 0
		size := 0
		for _, set := range sets {
			t.Shape[0] += set[i].Shape[0]
			size += len(set[i].Data)
		}
		if first.Type == tensor.Bytes {
			for _, set := range sets {
				for _, s := range set[i].Strings {
					t.Strings = append(t.Strings, slices.Clone(s))
				}
			}
		} else {
			t.Data = make([]byte, 0, size)
			for _, set := range sets {
				t.Data = append(t.Data, set[i].Data...)
			}
		}
		joined[i] = t
	}
	return joined
}

// checkRows says why tensors cannot be told apart by rows.
func checkRows(ts []tensor.Tensor, rows int) error {
	for i := range ts {
		if t := &ts[i]; len(t.Shape) == 0 || t.Shape[0] != int64(rows) {
			return fmt.Errorf("output %q has shape %v for %d rows", t.Name, t.Shape, rows)
		}
	}
	return nil
}
