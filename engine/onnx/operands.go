package onnx

import (
	"fmt"
	"slices"

	"weir/internal/tensor"
)

// operands are what a node takes.
type operands struct {
	b     *builder
	in    []int // values
	lists []int // the inputs that it takes as sequences or optional values
}

// has reports whether the node names input i.
func (o *operands) has(i int) bool { return i >= 0 && i < len(o.in) && o.in[i] != absent }

// typ is the type of input i.
func (o *operands) typ(i int) tensor.Type {
	if !o.has(i) {
		return tensor.Invalid
	}
	if v := &o.b.g.values[o.in[i]]; v.form == plain {
		return v.typ
	}
	return tensor.Invalid
}

// constant is input i where it is known at load, else nil.
func (o *operands) constant(i int) *tensor.Tensor {
	if !o.has(i) {
		return nil
	}
	return o.b.g.values[o.in[i]].constant
}

// constants reports whether the node's outputs are known at load.
func (o *operands) constants() bool {
	return !slices.ContainsFunc(o.in, func(id int) bool { return id != absent && o.b.g.values[id].constant == nil })
}

// takes checks how many inputs the node has.
func (o *operands) takes(least, most int) error {
	if len(o.in) < least || len(o.in) > most {
		return fmt.Errorf("%d inputs; %d to %d are expected", len(o.in), least, most)
	}
	for i := range least {
		if !o.has(i) {
			return fmt.Errorf("input %d is left out", i)
		}
	}
	return nil
}

// oneOf checks the type of input i.
func (o *operands) oneOf(i int, types ...tensor.Type) error {
	if !slices.Contains(types, o.typ(i)) {
		return fmt.Errorf("input %d is %v, which is not supported here; %s", i, o.typ(i), wayOut)
	}
	return nil
}

// variable is what is known of input i.
func (o *operands) variable(i int) variable {
	if !o.has(i) {
		return variable{}
	}
	v := &o.b.g.values[o.in[i]]
	return variable{v.form, v.typ}
}

// takesList checks that input i has one of the forms, and says that the node knows them.
func (o *operands) takesList(i int, forms ...form) error {
	v := o.variable(i)
	if slices.Contains(forms, v.form) {
		o.lists = append(o.lists, i)
		return nil
	}
	return fmt.Errorf("input %d is a %v, which is not taken here", i, v)
}

// checkForms refuses sequences where the operator takes tensors.
func (o *operands) checkForms() error {
	taken := make(map[int]bool)
	for _, i := range o.lists {
		taken[i] = true
	}
	for i := range o.in {
		if v := o.variable(i); v.form != plain && !taken[i] {
			return fmt.Errorf("input %d is a %v; a tensor is taken", i, v)
		}
	}
	return nil
}

// alike checks that the node has two inputs of one type.
func (o *operands) alike() error {
	if err := o.takes(2, 2); err != nil {
		return err
	}
	if o.typ(0) != o.typ(1) {
		return fmt.Errorf("the inputs are %v and %v", o.typ(0), o.typ(1))
	}
	return nil
}

func (o *operands) sameTypes() error {
	for i := range o.in {
		if o.typ(i) != o.typ(0) {
			return fmt.Errorf("input %d is %v, input 0 is %v", i, o.typ(i), o.typ(0))
		}
	}
	return nil
}
