package main

import (
	"fmt"
	"strconv"

	"weir/engine/classic"
	"weir/internal/table"
	"weir/internal/tensor"
)

// predictedColumns are the columns of one output of a model: one, or one for each value in a row.
type predictedColumns struct {
	spec    tensor.Spec
	columns []table.Column
}

// predictedBy are the columns of a model's outputs, with a prefix before their names: NAME of one value, else NAME.0, NAME.1 … as the
// prediction log has them. width looks for the values of a row where the model's description leaves them open.
func predictedBy(v *classic.Version, prefix string, width func(output string) (int, error)) ([]predictedColumns, error) {
	var list []predictedColumns
	for _, spec := range v.Describe().Outputs {
		n, open := 1, len(spec.Shape) == 0
		for _, size := range spec.Shape[min(1, len(spec.Shape)):] {
			if open = open || size < 0; !open {
				n *= int(size)
			}
		}
		if open {
			var err error
			if n, err = width(spec.Name); err != nil {
				return nil, err
			}
		}
		p := predictedColumns{spec: spec}
		for i := range n {
			name := prefix + spec.Name
			if n > 1 {
				name += "." + strconv.Itoa(i)
			}
			c, err := table.TensorColumn(name, spec.Type)
			if err != nil {
				return nil, err
			}
			p.columns = append(p.columns, c)
		}
		list = append(list, p)
	}
	return list, nil
}

// spread writes an output's values to the rows that they are of. into has a list of all rows for each column.
func (p *predictedColumns) spread(out []tensor.Tensor, rows []int, into [][]table.Value) error {
	for i := range out {
		if out[i].Name != p.spec.Name {
			continue
		}
		values, width := table.TensorValues(&out[i]), len(p.columns)
		if len(values) != width*len(rows) {
			return fmt.Errorf("the output %q has %d values for %d rows, and %d are expected", p.spec.Name, len(values), len(rows), width*len(rows))
		}
		for j, row := range rows {
			for k := range width {
				into[k][row] = values[j*width+k]
			}
		}
		return nil
	}
	return fmt.Errorf("the model gave no output %q", p.spec.Name)
}
