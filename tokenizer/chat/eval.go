package chat

import "errors"

func (e *constExpr) eval(*exec) (Value, error) { return e.value, nil }

func (e *nameExpr) eval(x *exec) (Value, error) { return x.lookup(e.symbol), nil }

func (capturedExpr) eval(x *exec) (Value, error) { return x.captured, nil }

func (e *tupleExpr) eval(x *exec) (Value, error) {
	items, err := x.literalItems(e.items)
	return tupleOf(items...), err
}

func (e *listExpr) eval(x *exec) (Value, error) {
	items, err := x.literalItems(e.items)
	return listOf(items), err
}

func (x *exec) literalItems(list []expression) ([]Value, error) {
	if err := x.list(len(list)); err != nil {
		return nil, err
	}
	return x.evalAll(list)
}

func (e *dictExpr) eval(x *exec) (Value, error) {
	if err := x.list(2 * len(e.keys)); err != nil {
		return Value{}, err
	}
	d := &dict{}
	for i := range e.keys {
		key, err := x.eval(e.keys[i])
		if err != nil {
			return Value{}, err
		}
		value, err := x.eval(e.values[i])
		if err != nil {
			return Value{}, err
		}
		if err := x.key(key); err != nil {
			return Value{}, err
		}
		if err := d.put(key, value); err != nil {
			return Value{}, err
		}
	}
	return dictOf(d), nil
}

func (e *attrExpr) eval(x *exec) (Value, error) {
	v, err := x.eval(e.object)
	if err != nil {
		return Value{}, err
	}
	return x.attribute(v, e.name)
}

func (e *indexExpr) eval(x *exec) (Value, error) {
	v, err := x.eval(e.object)
	if err != nil {
		return Value{}, err
	}
	key, err := x.eval(e.index)
	if err != nil {
		return Value{}, err
	}
	return x.item(v, key)
}

func (e *sliceExpr) eval(x *exec) (Value, error) {
	var parts [4]Value
	for i, part := range []expression{e.object, e.from, e.to, e.step} {
		if part == nil {
			continue
		}
		v, err := x.eval(part)
		if err != nil {
			return Value{}, err
		}
		parts[i] = v
	}
	return sliceValue(x.budget, parts[0], parts[1], parts[2], parts[3])
}

func (e *filterExpr) eval(x *exec) (Value, error) {
	v, err := x.eval(e.object)
	if err != nil {
		return Value{}, err
	}
	a, err := e.args.evaluate(x)
	if err != nil {
		return Value{}, err
	}
	if e.filter == nil {
		return Value{}, at(e.line, errors.New(noSuch("filter", e.name)))
	}
	if err := x.touch(v); err != nil {
		return Value{}, at(e.line, err)
	}
	v, err = e.filter(x, v, a)
	return v, at(e.line, err)
}

func (e *testExpr) eval(x *exec) (Value, error) {
	v, err := x.eval(e.object)
	if err != nil {
		return Value{}, err
	}
	a, err := e.args.evaluate(x)
	if err != nil {
		return Value{}, err
	}
	if e.test == nil {
		return Value{}, at(e.line, errors.New(noSuch("test", e.name)))
	}
	if err := x.touch(v); err != nil {
		return Value{}, at(e.line, err)
	}
	ok, err := e.test(x, v, a)
	return boolean(ok), at(e.line, err)
}

func (e *notExpr) eval(x *exec) (Value, error) {
	v, err := x.eval(e.operand)
	return boolean(!v.truth()), err
}

func (e *andExpr) eval(x *exec) (Value, error) {
	v, err := x.eval(e.left)
	if err != nil || !v.truth() {
		return v, err
	}
	return x.eval(e.right)
}

func (e *orExpr) eval(x *exec) (Value, error) {
	v, err := x.eval(e.left)
	if err != nil || v.truth() {
		return v, err
	}
	return x.eval(e.right)
}

func (e *condExpr) eval(x *exec) (Value, error) {
	v, err := x.eval(e.test)
	switch {
	case err != nil:
		return Value{}, err
	case v.truth():
		return x.eval(e.then)
	case e.otherwise != nil:
		return x.eval(e.otherwise)
	}
	return undefinedBecause("the inline if-expression evaluated to false and no else section was defined"), nil
}

func (e *compareExpr) eval(x *exec) (Value, error) {
	left, err := x.eval(e.first)
	if err != nil {
		return Value{}, err
	}
	for _, c := range e.rest {
		right, err := x.eval(c.operand)
		if err != nil {
			return Value{}, err
		}
		ok, err := compareValues(x.budget, c.op, left, right)
		if err != nil || !ok {
			return boolean(false), err
		}
		left = right
	}
	return boolean(true), nil
}

func (e *concatExpr) eval(x *exec) (Value, error) {
	w := newBuilder(x.budget)
	for _, item := range e.items {
		v, err := x.eval(item)
		if err != nil {
			return Value{}, err
		}
		w.str(v)
	}
	return w.value()
}

func (e *signExpr) eval(x *exec) (Value, error) {
	v, err := x.eval(e.operand)
	if err != nil {
		return Value{}, err
	}
	if err := x.touch(v); err != nil {
		return Value{}, err
	}
	return sign(v, e.minus)
}

func (e *binaryExpr) eval(x *exec) (Value, error) {
	left, err := x.eval(e.left)
	if err != nil {
		return Value{}, err
	}
	right, err := x.eval(e.right)
	if err != nil {
		return Value{}, err
	}
	return binary(x.budget, e.op, left, right)
}
