package chat

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// path is an attribute argument: names and indices separated by dots.
type path []Value

func parsePath(v Value) path {
	if !v.isString() {
		if !isGiven(v) {
			return nil
		}
		return path{v}
	}
	var p path
	for part := range strings.SplitSeq(v.str, ".") {
		if n, err := strconv.Atoi(part); err == nil && n >= 0 {
			p = append(p, integer(n))
			continue
		}
		p = append(p, literal(part))
	}
	return p
}

// find follows the path; an undefined step gives fallback where there is one.
func (p path) find(x *exec, v, fallback Value) (Value, error) {
	for _, part := range p {
		var err error
		if v, err = x.item(v, part); err != nil {
			return Value{}, err
		}
		if isGiven(fallback) && v.isUndefined() {
			v = fallback
		}
	}
	return v, nil
}

// lazily is a generator over v: each item becomes another one, or none. As in
// Python nothing happens, and nothing fails, before it is read.
func lazily(bud *budget, v Value, each func(Value) (Value, bool, error)) Value {
	var next iteration
	return iteratorOf(func() (Value, bool, error) {
		if next == nil {
			var err error
			if next, err = iterate(bud, v); err != nil {
				return Value{}, false, err
			}
		}
		for {
			item, ok, err := next()
			if err != nil || !ok {
				return Value{}, false, err
			}
			if err := bud.step(1); err != nil {
				return Value{}, false, err
			}
			out, keep, err := each(item)
			if err != nil || keep {
				return out, err == nil, err
			}
		}
	})
}

func filterMap(x *exec, v Value, a args) (Value, error) {
	if !v.truth() {
		return lazily(x.budget, listOf(nil), nil), nil
	}
	var apply func(Value) (Value, error)
	return lazily(x.budget, v, func(item Value) (Value, bool, error) {
		if apply == nil {
			var err error
			if apply, err = mapping(x, a); err != nil {
				return Value{}, false, err
			}
		}
		out, err := apply(item)
		return out, true, err
	}), nil
}

// mapping is what map does to an item: look an attribute up, or apply a filter.
func mapping(x *exec, a args) (func(Value) (Value, error), error) {
	if len(a.pos) == 0 && slices.Contains(a.names, "attribute") {
		p, err := a.bind("map", 0, "attribute", "default")
		where := parsePath(p[0])
		return func(v Value) (Value, error) { return where.find(x, v, p[1]) }, err
	}
	if len(a.pos) == 0 {
		return nil, errors.New("map requires a filter argument")
	}
	name := a.pos[0].str
	f := x.lib.filters[name]
	if f == nil || !a.pos[0].isString() {
		return nil, errors.New(noSuch("filter", name))
	}
	rest := args{pos: a.pos[1:], names: a.names, named: a.named}
	return func(v Value) (Value, error) {
		if err := x.touch(v); err != nil {
			return Value{}, err
		}
		return f(x, v, rest)
	}, nil
}

// filterSelect makes select, reject, selectattr and rejectattr.
func filterSelect(keep, byAttribute bool) filter {
	return func(x *exec, v Value, a args) (Value, error) {
		if !v.truth() {
			return lazily(x.budget, listOf(nil), nil), nil
		}
		var holds func(Value) (bool, error)
		return lazily(x.budget, v, func(item Value) (Value, bool, error) {
			if holds == nil {
				var err error
				if holds, err = condition(x, a, byAttribute); err != nil {
					return Value{}, false, err
				}
			}
			ok, err := holds(item)
			return item, ok == keep, err
		}), nil
	}
}

// condition is what select tests: truth, or a test by name.
func condition(x *exec, a args, byAttribute bool) (func(Value) (bool, error), error) {
	where := path{}
	pos := a.pos
	if byAttribute {
		if len(pos) == 0 {
			return nil, errors.New("missing parameter for attribute name")
		}
		where, pos = parsePath(pos[0]), pos[1:]
	}
	holds := func(_ *exec, v Value, _ args) (bool, error) { return v.truth(), nil }
	rest := args{names: a.names, named: a.named}
	if len(pos) > 0 {
		named := x.lib.tests[pos[0].str]
		if named == nil || !pos[0].isString() {
			return nil, errors.New(noSuch("test", pos[0].str))
		}
		holds, rest.pos = named, pos[1:]
	}
	return func(v Value) (bool, error) {
		v, err := where.find(x, v, Value{})
		if err != nil {
			return false, err
		}
		if err := x.touch(v); err != nil {
			return false, err
		}
		return holds(x, v, rest)
	}, nil
}
