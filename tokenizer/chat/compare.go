package chat

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
)

// compare applies one comparison operator.
func (x *exec) compare(op string, a, b Value) (bool, error) {
	switch op {
	case "==":
		return x.equal(a, b)
	case "!=":
		same, err := x.equal(a, b)
		return !same, err
	case "in":
		return x.contains(b, a)
	case "not in":
		found, err := x.contains(b, a)
		return !found, err
	}
	c, err := x.order(op, a, b)
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

// equal is Python's ==.
func (x *exec) equal(a, b Value) (bool, error) {
	if err := x.step(1); err != nil {
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
		return a.str == b.str, x.scan(min(len(a.str), len(b.str)))
	case a.kind == kindNone:
		return true, nil
	}
	if err := x.enter(); err != nil {
		return false, err
	}
	defer x.leave()
	return x.equalContent(a, b)
}

func (x *exec) equalContent(a, b Value) (bool, error) {
	switch a.kind {
	case kindList, kindTuple:
		return x.equalItems(a.items(), b.items())
	case kindDict:
		return x.equalDicts(a.dict(), b.dict())
	case kindRange:
		r, s := a.ref.(*interval), b.ref.(*interval)
		return r.count == s.count && (r.count == 0 || r.start == s.start && (r.count == 1 || r.step == s.step)), nil
	}
	return a.ref == b.ref, nil
}

func (x *exec) equalItems(a, b []Value) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if same, err := x.equal(a[i], b[i]); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (x *exec) equalDicts(a, b *dict) (bool, error) {
	if a.len() != b.len() {
		return false, nil
	}
	for _, e := range a.entries {
		if err := x.key(e.key); err != nil {
			return false, err
		}
		other, ok, err := b.lookup(e.key)
		if err != nil || !ok {
			return false, err
		}
		if same, err := x.equal(e.value, other); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// unordered is the result of comparing a NaN with any number.
const unordered = 2

// order gives -1, 0, 1 or unordered; op is for the message.
func (x *exec) order(op string, a, b Value) (int, error) {
	if err := x.step(1); err != nil {
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
		return strings.Compare(a.str, b.str), x.scan(min(len(a.str), len(b.str)))
	case a.kind == b.kind && (a.kind == kindList || a.kind == kindTuple):
		return x.orderItems(op, a.items(), b.items())
	}
	return 0, fmt.Errorf("%s not supported between instances of %s and %s", quoted(op), quoted(a.typeName()), quoted(b.typeName()))
}

func (x *exec) orderItems(op string, a, b []Value) (int, error) {
	if err := x.enter(); err != nil {
		return 0, err
	}
	defer x.leave()
	for i := range min(len(a), len(b)) {
		same, err := x.equal(a[i], b[i])
		if err != nil {
			return 0, err
		}
		if !same {
			return x.order(op, a[i], b[i])
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

// contains is Python's in.
func (x *exec) contains(container, v Value) (bool, error) {
	switch container.kind {
	case kindString:
		if !v.isString() {
			return false, errors.New("'in <string>' requires string as left operand, not " + v.typeName())
		}
		if err := x.scan(2 * len(container.str)); err != nil {
			return false, err
		}
		return strings.Contains(container.str, v.str), nil
	case kindDict:
		if err := x.key(v); err != nil {
			return false, err
		}
		_, found, err := container.dict().lookup(v)
		return found, err
	}
	next, err := x.iterate(container)
	if err != nil {
		return false, fmt.Errorf("argument of type %s is not iterable", quoted(container.typeName()))
	}
	for {
		item, ok, err := next()
		if err != nil || !ok {
			return false, err
		}
		if same, err := x.equal(item, v); err != nil || same {
			return same, err
		}
	}
}
