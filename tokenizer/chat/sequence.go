package chat

import (
	"errors"
	"slices"
)

func filterFirst(x *exec, v Value) (Value, error) {
	next, err := iterate(x.budget, v)
	if err != nil {
		return Value{}, err
	}
	first, ok, err := next()
	if !ok {
		return undefinedBecause("No first item, sequence was empty."), err
	}
	return first, err
}

func filterLast(x *exec, v Value) (Value, error) {
	next, err := backwards(x.budget, v)
	if err != nil {
		return Value{}, err
	}
	last, ok, err := next()
	if !ok {
		return undefinedBecause("No last item, sequence was empty."), err
	}
	return last, err
}

// backwards is Python's reversed().
func backwards(bud *budget, v Value) (iteration, error) {
	var item func(i int) Value
	switch r := v.ref.(type) {
	case *list:
		item = func(i int) Value { return r.items[i] }
	case *dict:
		if v.kind == kindDict {
			item = func(i int) Value { return r.entries[i].key }
		}
	case *interval:
		item = r.at
	case *view:
		item = r.at
	}
	switch {
	case v.isUndefined():
		return iterateItems(nil), nil
	case v.isString():
		text, err := sliceText(bud, v, Value{}, Value{}, integer(-1))
		return iterateText(text), err
	}
	n, ok := v.length()
	if item == nil || !ok {
		return nil, errors.New(quoted(v.typeName()) + " object is not reversible")
	}
	return iterateCount(n, func(i int) Value { return item(n - 1 - i) }), nil
}

func filterReverse(x *exec, v Value) (Value, error) {
	if v.isString() {
		return sliceText(x.budget, v, Value{}, Value{}, integer(-1))
	}
	if next, err := backwards(x.budget, v); err == nil {
		return iteratorOf(next), nil
	}
	items, err := copyOf(x.budget, v)
	slices.Reverse(items)
	return listOf(items), err
}

// copyOf is list(): items that the caller may change.
func copyOf(bud *budget, v Value) ([]Value, error) {
	items, err := valuesOf(bud, v)
	if err != nil || v.kind != kindList && v.kind != kindTuple {
		return items, err
	}
	return slices.Clone(items), bud.list(len(items))
}

func filterList(x *exec, v Value) (Value, error) {
	items, err := valuesOf(x.budget, v)
	return listOf(items).from(v), err
}

func filterItems(x *exec, v Value) (Value, error) {
	var next iteration
	return iteratorOf(func() (Value, bool, error) {
		switch {
		case v.isUndefined():
			return Value{}, false, nil
		case v.kind != kindDict:
			return Value{}, false, errors.New("can only get item pairs from a mapping")
		case next == nil:
			next = iterateCount(v.dict().len(), (&view{v.dict(), viewItems}).at)
		}
		return next()
	}), nil
}

func filterJoin(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("join", 0, "d", "attribute")
	if err != nil {
		return Value{}, err
	}
	separator, err := x.str(p[0].or(literal("")))
	if err != nil {
		return Value{}, err
	}
	next, err := iterate(x.budget, v)
	if err != nil {
		return Value{}, err
	}
	where := parsePath(p[1])
	return joinTexts(x.budget, separator, next, func(item Value) (Value, error) {
		item, err := where.find(x, item, Value{})
		if err != nil {
			return Value{}, err
		}
		return x.str(item)
	})
}

func filterSum(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("sum", 0, "attribute", "start")
	if err != nil {
		return Value{}, err
	}
	total := p[1].or(integer(0))
	if total.isString() {
		return Value{}, errors.New("sum() can't sum strings")
	}
	next, err := iterate(x.budget, v)
	if err != nil {
		return Value{}, err
	}
	where := parsePath(p[0])
	for {
		item, ok, err := next()
		if err != nil || !ok {
			return total, err
		}
		if item, err = where.find(x, item, Value{}); err != nil {
			return Value{}, err
		}
		if total, err = binary(x.budget, "+", total, item); err != nil {
			return Value{}, err
		}
	}
}

// deferred is a generator whose items are computed when the first is read.
func deferred(compute func() ([]Value, error)) Value {
	var next iteration
	return iteratorOf(func() (Value, bool, error) {
		if next == nil {
			items, err := compute()
			if err != nil {
				return Value{}, false, err
			}
			next = iterateItems(items)
		}
		return next()
	})
}

func filterBatch(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("batch", 1, "linecount", "fill_with")
	if err != nil {
		return Value{}, err
	}
	return deferred(func() ([]Value, error) { return batches(x.budget, v, p[0], p[1]) }), nil
}

// batches cuts v into rows of a size; the last one is filled up.
func batches(bud *budget, v, size, fill Value) ([]Value, error) {
	items, err := copyOf(bud, v)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	n, err := size.count("linecount")
	if err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, errors.New("linecount must be positive")
	}
	var out []Value
	for len(items) > 0 {
		row := items[:min(n, len(items)):min(n, len(items))]
		items = items[len(row):]
		if missing := n - len(row); isGiven(fill) && missing > 0 {
			if err := bud.list(missing); err != nil {
				return nil, err
			}
			row = append(row, slices.Repeat([]Value{fill}, missing)...)
		}
		out = append(out, listOf(row))
	}
	return out, bud.list(len(out))
}

func filterSlice(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("slice", 1, "slices", "fill_with")
	if err != nil {
		return Value{}, err
	}
	return deferred(func() ([]Value, error) { return columns(x.budget, v, p[0], p[1]) }), nil
}

// columns cuts v into a number of parts, the first ones longer.
func columns(bud *budget, v, number, fill Value) ([]Value, error) {
	items, err := copyOf(bud, v)
	if err != nil {
		return nil, err
	}
	n, err := number.count("slices")
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errDivision
	}
	n = max(n, 0)
	if err := bud.list(min(n, 1<<40)); err != nil {
		return nil, err
	}
	out := make([]Value, n)
	longer := len(items) % max(n, 1) // the first parts have one item more
	size := len(items) / max(n, 1)
	for i := range out {
		length := size
		if i < longer {
			length++
		}
		row := items[:length:length]
		items = items[length:]
		if isGiven(fill) && i >= longer {
			row = append(row, fill)
		}
		out[i] = listOf(row)
	}
	return out, nil
}
