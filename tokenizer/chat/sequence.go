package chat

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func filterFirst(x *exec, v Value) (Value, error) {
	next, err := x.iterate(v)
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
	next, err := x.backwards(v)
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
func (x *exec) backwards(v Value) (iteration, error) {
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
		text, err := x.cutText(v, Value{}, Value{}, integer(-1))
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
		return x.cutText(v, Value{}, Value{}, integer(-1))
	}
	if next, err := x.backwards(v); err == nil {
		return iteratorOf(next), nil
	}
	items, err := x.copied(v)
	slices.Reverse(items)
	return listOf(items), err
}

// copied is list(): items that the caller may change.
func (x *exec) copied(v Value) ([]Value, error) {
	items, err := x.values(v)
	if err != nil || v.kind != kindList && v.kind != kindTuple {
		return items, err
	}
	return slices.Clone(items), x.list(len(items))
}

func filterList(x *exec, v Value) (Value, error) {
	items, err := x.values(v)
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

// sortKey is what a value is ordered by.
type sortKey func(x *exec, v Value) (Value, error)

// keyOf follows an attribute and, unless case counts, lowers text.
func keyOf(attribute Value, caseSensitive bool) sortKey {
	p := parsePath(attribute)
	return func(x *exec, v Value) (Value, error) {
		v, err := p.find(x, v, Value{})
		if err == nil && !caseSensitive && v.isString() {
			return toLower(x, v)
		}
		return v, err
	}
}

// keysOf makes a list of the keys of several attributes, separated by commas.
func keysOf(attribute Value, caseSensitive bool) sortKey {
	var keys []sortKey
	if attribute.isString() {
		for name := range strings.SplitSeq(attribute.str, ",") {
			keys = append(keys, keyOf(literal(name), caseSensitive))
		}
	} else {
		keys = append(keys, keyOf(attribute, caseSensitive))
	}
	return func(x *exec, v Value) (Value, error) {
		out := make([]Value, len(keys))
		for i, key := range keys {
			k, err := key(x, v)
			if err != nil {
				return Value{}, err
			}
			out[i] = k
		}
		return listOf(out), x.list(len(out))
	}
}

// sorted gives the items in order; equal ones keep theirs.
func (x *exec) sorted(items []Value, key sortKey, reverse bool) ([]Value, error) {
	if err := x.list(3 * len(items)); err != nil {
		return nil, err
	}
	type keyed struct{ key, value Value }
	pairs := make([]keyed, len(items))
	for i, v := range items {
		k, err := key(x, v)
		if err != nil {
			return nil, err
		}
		pairs[i] = keyed{k, v}
	}
	var failed error
	slices.SortStableFunc(pairs, func(a, b keyed) int {
		if failed != nil {
			return 0
		}
		c, err := x.order("<", a.key, b.key)
		if failed = err; c == unordered {
			c = 0
		}
		if reverse {
			c = -c
		}
		return c
	})
	out := make([]Value, len(pairs))
	for i, p := range pairs {
		out[i] = p.value
	}
	return out, failed
}

func filterSort(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("sort", 0, "reverse", "case_sensitive", "attribute")
	if err != nil {
		return Value{}, err
	}
	items, err := x.values(v)
	if err != nil {
		return Value{}, err
	}
	items, err = x.sorted(items, keysOf(p[2], p[1].truth()), p[0].truth())
	return listOf(items), err
}

func filterDictSort(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("dictsort", 0, "case_sensitive", "by", "reverse")
	if err != nil {
		return Value{}, err
	}
	if v.kind != kindDict {
		return Value{}, fmt.Errorf("dictsort wants a mapping, not %s", v.typeName())
	}
	pos := 0
	switch by := p[1].or(literal("key")); by.str {
	case "key":
	case "value":
		pos = 1
	default:
		return Value{}, errors.New(`you can only sort by either "key" or "value"`)
	}
	w := &view{v.dict(), viewItems}
	if err := x.list(3 * w.d.len()); err != nil {
		return Value{}, err
	}
	items := make([]Value, w.d.len())
	for i := range items {
		items[i] = w.at(i)
	}
	items, err = x.sorted(items, keyOf(integer(pos), p[0].truth()), p[2].truth())
	return listOf(items).from(v), err
}

func filterUnique(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("unique", 0, "case_sensitive", "attribute")
	if err != nil {
		return Value{}, err
	}
	key := keyOf(p[1], p[0].truth())
	seen := map[hashKey]bool{}
	return x.lazily(v, func(item Value) (Value, bool, error) {
		k, err := key(x, item)
		if err != nil {
			return Value{}, false, err
		}
		h, err := k.hash()
		if err != nil || seen[h] {
			return Value{}, false, err
		}
		seen[h] = true
		return item, true, x.list(2)
	}), nil
}

// lazily is a generator over v: each item becomes another one, or none. As in
// Python nothing happens, and nothing fails, before it is read.
func (x *exec) lazily(v Value, each func(Value) (Value, bool, error)) Value {
	var next iteration
	return iteratorOf(func() (Value, bool, error) {
		if next == nil {
			var err error
			if next, err = x.iterate(v); err != nil {
				return Value{}, false, err
			}
		}
		for {
			item, ok, err := next()
			if err != nil || !ok {
				return Value{}, false, err
			}
			if err := x.step(1); err != nil {
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
		return x.lazily(listOf(nil), nil), nil
	}
	var apply func(Value) (Value, error)
	return x.lazily(v, func(item Value) (Value, bool, error) {
		if apply == nil {
			var err error
			if apply, err = x.mapping(a); err != nil {
				return Value{}, false, err
			}
		}
		out, err := apply(item)
		return out, true, err
	}), nil
}

// mapping is what map does to an item: look an attribute up, or apply a filter.
func (x *exec) mapping(a args) (func(Value) (Value, error), error) {
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
			return x.lazily(listOf(nil), nil), nil
		}
		var holds func(Value) (bool, error)
		return x.lazily(v, func(item Value) (Value, bool, error) {
			if holds == nil {
				var err error
				if holds, err = x.condition(a, byAttribute); err != nil {
					return Value{}, false, err
				}
			}
			ok, err := holds(item)
			return item, ok == keep, err
		}), nil
	}
}

// condition is what select tests: truth, or a test by name.
func (x *exec) condition(a args, byAttribute bool) (func(Value) (bool, error), error) {
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

func filterJoin(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("join", 0, "d", "attribute")
	if err != nil {
		return Value{}, err
	}
	separator, err := x.str(p[0].or(literal("")))
	if err != nil {
		return Value{}, err
	}
	next, err := x.iterate(v)
	if err != nil {
		return Value{}, err
	}
	where := parsePath(p[1])
	return x.join(separator, next, func(item Value) (Value, error) {
		item, err := where.find(x, item, Value{})
		if err != nil {
			return Value{}, err
		}
		return x.str(item)
	})
}

// filterExtreme makes min and max; op says when an item replaces the best.
func filterExtreme(name, op string) filter {
	return func(x *exec, v Value, a args) (Value, error) {
		p, err := a.bind(name, 0, "case_sensitive", "attribute")
		if err != nil {
			return Value{}, err
		}
		items, err := x.values(v)
		if err != nil {
			return Value{}, err
		}
		if len(items) == 0 {
			return undefinedBecause("No aggregated item, sequence was empty."), nil
		}
		return x.extreme(items, keyOf(p[1], p[0].truth()), op)
	}
}

func (x *exec) extreme(items []Value, key sortKey, op string) (Value, error) {
	best := items[0]
	bestKey, err := key(x, best)
	for _, item := range items[1:] {
		if err != nil {
			break
		}
		var k Value
		if k, err = key(x, item); err != nil {
			break
		}
		var better bool
		if better, err = x.compare(op, k, bestKey); better {
			best, bestKey = item, k
		}
	}
	return best, err
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
	next, err := x.iterate(v)
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
		if total, err = x.binary("+", total, item); err != nil {
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
	return deferred(func() ([]Value, error) { return x.batches(v, p[0], p[1]) }), nil
}

// batches cuts v into rows of a size; the last one is filled up.
func (x *exec) batches(v, size, fill Value) ([]Value, error) {
	items, err := x.copied(v)
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
			if err := x.list(missing); err != nil {
				return nil, err
			}
			row = append(row, slices.Repeat([]Value{fill}, missing)...)
		}
		out = append(out, listOf(row))
	}
	return out, x.list(len(out))
}

func filterSlice(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("slice", 1, "slices", "fill_with")
	if err != nil {
		return Value{}, err
	}
	return deferred(func() ([]Value, error) { return x.columns(v, p[0], p[1]) }), nil
}

// columns cuts v into a number of parts, the first ones longer.
func (x *exec) columns(v, number, fill Value) ([]Value, error) {
	items, err := x.copied(v)
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
	if err := x.list(min(n, 1<<40)); err != nil {
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

func filterGroupBy(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("groupby", 1, "attribute", "default", "case_sensitive")
	if err != nil {
		return Value{}, err
	}
	items, err := x.values(v)
	if err != nil {
		return Value{}, err
	}
	where := parsePath(p[0])
	key := func(x *exec, v Value) (Value, error) {
		v, err := where.find(x, v, p[1])
		if err == nil && !p[2].truth() && v.isString() {
			return toLower(x, v)
		}
		return v, err
	}
	if items, err = x.sorted(items, key, false); err != nil {
		return Value{}, err
	}
	return x.groups(items, key, func(v Value) (Value, error) { return where.find(x, v, p[1]) })
}

// groups cuts sorted items where the key changes; the group is named after its
// first item.
func (x *exec) groups(items []Value, key sortKey, name func(Value) (Value, error)) (Value, error) {
	var out []Value
	for from := 0; from < len(items); {
		first, err := key(x, items[from])
		if err != nil {
			return Value{}, err
		}
		to := from + 1
		for ; to < len(items); to++ {
			k, err := key(x, items[to])
			if err != nil {
				return Value{}, err
			}
			if same, err := x.equal(first, k); err != nil || !same {
				if err != nil {
					return Value{}, err
				}
				break
			}
		}
		title, err := name(items[from])
		if err != nil {
			return Value{}, err
		}
		pair := &list{items: []Value{title, listOf(items[from:to:to])}, names: []string{"grouper", "list"}}
		out = append(out, Value{kind: kindTuple, ref: pair})
		from = to
	}
	return listOf(out), x.list(3 * len(out))
}
