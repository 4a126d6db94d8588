package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// sortKey is what a value is ordered by.
type sortKey func(x *exec, v Value) (Value, error)

// keyOf looks an attribute up and, unless caseSensitive, makes text lower case.
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

// sortedBy gives the items in order; equal ones keep theirs.
func sortedBy(x *exec, items []Value, key sortKey, reverse bool) ([]Value, error) {
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
		c, err := orderValues(x.budget, "<", a.key, b.key)
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
	items, err := valuesOf(x.budget, v)
	if err != nil {
		return Value{}, err
	}
	items, err = sortedBy(x, items, keysOf(p[2], p[1].truth()), p[0].truth())
	return listOf(items), err
}

func filterDictSort(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("dictsort", 0, "case_sensitive", "by", "reverse")
	if err != nil {
		return Value{}, err
	}
	if v.kind != kindDict {
		return Value{}, fmt.Errorf("dictsort requires a mapping, not %s", v.typeName())
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
	items, err = sortedBy(x, items, keyOf(integer(pos), p[0].truth()), p[2].truth())
	return listOf(items).from(v), err
}

func filterUnique(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("unique", 0, "case_sensitive", "attribute")
	if err != nil {
		return Value{}, err
	}
	key := keyOf(p[1], p[0].truth())
	seen := map[hashKey]bool{}
	return lazily(x.budget, v, func(item Value) (Value, bool, error) {
		k, err := key(x, item)
		if err != nil {
			return Value{}, false, err
		}
		if err := x.key(k); err != nil {
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

// filterExtreme makes min and max; op says when an item replaces the best.
func filterExtreme(name, op string) filter {
	return func(x *exec, v Value, a args) (Value, error) {
		p, err := a.bind(name, 0, "case_sensitive", "attribute")
		if err != nil {
			return Value{}, err
		}
		items, err := valuesOf(x.budget, v)
		if err != nil {
			return Value{}, err
		}
		if len(items) == 0 {
			return undefinedBecause("No aggregated item, sequence was empty."), nil
		}
		return extremeOf(x, items, keyOf(p[1], p[0].truth()), op)
	}
}

func extremeOf(x *exec, items []Value, key sortKey, op string) (Value, error) {
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
		if better, err = compareValues(x.budget, op, k, bestKey); better {
			best, bestKey = item, k
		}
	}
	return best, err
}

func filterGroupBy(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("groupby", 1, "attribute", "default", "case_sensitive")
	if err != nil {
		return Value{}, err
	}
	items, err := valuesOf(x.budget, v)
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
	if items, err = sortedBy(x, items, key, false); err != nil {
		return Value{}, err
	}
	return groupsOf(x, items, key, func(v Value) (Value, error) { return where.find(x, v, p[1]) })
}

// groupsOf cuts sorted items where the key changes; the group is named after its
// first item.
func groupsOf(x *exec, items []Value, key sortKey, name func(Value) (Value, error)) (Value, error) {
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
			if same, err := equalValues(x.budget, first, k); err != nil || !same {
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
