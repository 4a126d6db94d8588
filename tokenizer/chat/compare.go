package chat

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
)

// compareValues applies one comparison operator.
func compareValues(bud *budget, op string, a, b Value) (bool, error) {
	switch op {
	case "==":
		return equalValues(bud, a, b)
	case "!=":
		same, err := equalValues(bud, a, b)
		return !same, err
	case "in":
		return containsValue(bud, b, a)
	case "not in":
		found, err := containsValue(bud, b, a)
		return !found, err
	}
	c, err := orderValues(bud, op, a, b)
	if err != nil || c == unordered {
		return false, err
	}
	switch op {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}

// equalValues is Python's ==.
func equalValues(bud *budget, a, b Value) (bool, error) {
	if err := bud.step(1); err != nil {
		return false, err
	}
	switch {
	case a.isUndefined() || b.isUndefined():
		return a.isUndefined() && b.isUndefined(), nil
	case a.isNumber() && b.isNumber():
		return compareNumbers(a, b) == 0, nil
	case a.kind != b.kind:
		return false, nil
	case a.isString():
		return a.str == b.str, bud.scan(min(len(a.str), len(b.str)))
	case a.kind == kindNone:
		return true, nil
	}
	if err := bud.enter(); err != nil {
		return false, err
	}
	defer bud.leave()
	return equalContent(bud, a, b)
}

func equalContent(bud *budget, a, b Value) (bool, error) {
	switch a.kind {
	case kindList, kindTuple:
		return equalItems(bud, a.items(), b.items())
	case kindDict:
		return equalDicts(bud, a.dict(), b.dict())
	case kindRange:
		r, s := a.ref.(*interval), b.ref.(*interval)
		return r.count == s.count && (r.count == 0 || r.start == s.start && (r.count == 1 || r.step == s.step)), nil
	}
	return a.ref == b.ref, nil
}

func equalItems(bud *budget, a, b []Value) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if same, err := equalValues(bud, a[i], b[i]); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func equalDicts(bud *budget, a, b *dict) (bool, error) {
	if a.len() != b.len() {
		return false, nil
	}
	for _, e := range a.entries {
		if err := bud.key(e.key); err != nil {
			return false, err
		}
		other, ok, err := b.lookup(e.key)
		if err != nil || !ok {
			return false, err
		}
		if same, err := equalValues(bud, e.value, other); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// unordered is the result of comparing a NaN with any number.
const unordered = 2

// orderValues gives -1, 0, 1 or unordered; op is for the message.
func orderValues(bud *budget, op string, a, b Value) (int, error) {
	if err := bud.step(1); err != nil {
		return 0, err
	}
	switch {
	case a.isUndefined():
		return 0, errors.New(a.undefinedMessage())
	case b.isUndefined():
		return 0, errors.New(b.undefinedMessage())
	case a.isNumber() && b.isNumber():
		return compareNumbers(a, b), nil
	case a.isString() && b.isString():
		return strings.Compare(a.str, b.str), bud.scan(min(len(a.str), len(b.str)))
	case a.kind == b.kind && (a.kind == kindList || a.kind == kindTuple):
		return orderItems(bud, op, a.items(), b.items())
	}
	return 0, fmt.Errorf("%s not supported between instances of %s and %s", quoted(op), quoted(a.typeName()), quoted(b.typeName()))
}

func orderItems(bud *budget, op string, a, b []Value) (int, error) {
	if err := bud.enter(); err != nil {
		return 0, err
	}
	defer bud.leave()
	for i := range min(len(a), len(b)) {
		same, err := equalValues(bud, a[i], b[i])
		if err != nil {
			return 0, err
		}
		if !same {
			return orderValues(bud, op, a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b)), nil
}

func compareNumbers(a, b Value) int {
	if a.kind == kindFloat || b.kind == kindFloat {
		f, g := a.float64(), b.float64()
		if math.IsNaN(f) || math.IsNaN(g) {
			return unordered
		}
		return cmp.Compare(f, g)
	}
	if a.ref == nil && b.ref == nil {
		return cmp.Compare(int64(a.num), int64(b.num))
	}
	return a.big().Cmp(b.big())
}

// containsValue is Python's in.
func containsValue(bud *budget, container, v Value) (bool, error) {
	switch container.kind {
	case kindString:
		if !v.isString() {
			return false, errors.New("'in <string>' requires string as left operand, not " + v.typeName())
		}
		if err := bud.scan(2 * len(container.str)); err != nil {
			return false, err
		}
		return strings.Contains(container.str, v.str), nil
	case kindDict:
		if err := bud.key(v); err != nil {
			return false, err
		}
		_, found, err := container.dict().lookup(v)
		return found, err
	}
	next, err := iterate(bud, container)
	if err != nil {
		return false, fmt.Errorf("argument of type %s is not iterable", quoted(container.typeName()))
	}
	for {
		item, ok, err := next()
		if err != nil || !ok {
			return false, err
		}
		if same, err := equalValues(bud, item, v); err != nil || same {
			return same, err
		}
	}
}
