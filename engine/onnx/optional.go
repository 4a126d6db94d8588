package onnx

import (
	"errors"
	"fmt"

	"weir/internal/tensor"
)

// optional makes an optional value of its input, or nothing of the type that an attribute tells.
func optional(n *node) (kernel, error) {
	if err := n.takes(0, 1); err != nil {
		return nil, err
	}
	v, declared := n.variable(0), n.valueType("type")
	if !n.has(0) {
		if declared == nil {
			return nil, errors.New("neither an input nor a type is given")
		}
		v = variable{declared.form, declared.typ}
	}
	full := n.has(0)
	switch v.form {
	case plain:
		v.form = option
	case list:
		v.form, n.lists = optionalList, append(n.lists, 0)
	default:
		return nil, fmt.Errorf("input 0 is an %v", v)
	}
	n.outputIs(0, v)
	return func(c *call) error {
		if !full {
			c.give(0, datum{items: items{none: true}})
			return nil
		}
		d := c.datum(0)
		if v.form == option {
			t, err := c.copyOf(&d.t)
			if err != nil {
				return err
			}
			d = datum{items: items{list: []tensor.Tensor{t}}}
		}
		c.give(0, datum{items: d.items})
		return nil
	}, nil
}

func optionalHasElement(n *node) (kernel, error) {
	if err := n.takes(0, 1); err != nil {
		return nil, err
	}
	n.gives(tensor.Bool)
	has := n.has(0)
	n.lists = append(n.lists, 0)
	return func(c *call) error {
		out, err := c.out(0)
		if err != nil {
			return err
		}
		out.Data[0] = bit(has && !c.datum(0).none)
		return nil
	}, nil
}

// optionalGetElement is the value, which is there. A tensor or a sequence is itself.
func optionalGetElement(n *node) (kernel, error) {
	if err := n.takes(1, 1); err != nil {
		return nil, err
	}
	n.lists = append(n.lists, 0)
	v := n.variable(0)
	switch v.form {
	case plain, list:
		n.same = n.in
		return nil, nil
	case option:
		v.form = plain
	case optionalList:
		v.form = list
	}
	n.outputIs(0, v)
	return func(c *call) error {
		d := c.datum(0)
		switch {
		case d.none:
			return errors.New("the optional value is nothing")
		case v.form == list:
			c.give(0, datum{items: d.items})
			return nil
		}
		t, err := c.copyOf(&d.list[0])
		c.give(0, datum{t: t})
		return err
	}, nil
}
