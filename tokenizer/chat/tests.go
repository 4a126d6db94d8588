package chat

import (
	"errors"
	"fmt"
	"unicode"
)

// tests are Jinja's.
func tests() map[string]test {
	t := map[string]test{
		"odd":         divisible(2, 1),
		"even":        divisible(2, 0),
		"divisibleby": testDivisibleBy,
		"defined":     is(func(v Value) bool { return !v.isUndefined() }),
		"undefined":   is(Value.isUndefined),
		"none":        is(Value.isNone),
		"boolean":     is(func(v Value) bool { return v.kind == kindBool }),
		"true":        is(Value.isTrue),
		"false":       is(func(v Value) bool { return v.kind == kindBool && v.num == 0 }),
		"integer":     is(func(v Value) bool { return v.kind == kindInt }),
		"float":       is(func(v Value) bool { return v.kind == kindFloat }),
		"number":      is(Value.isNumber),
		"string":      is(Value.isString),
		"mapping":     is(func(v Value) bool { return v.kind == kindDict }),
		"sequence":    is(isSequence),
		"iterable":    is(isIterable),
		"callable":    is(isCallable),
		"escaped":     is(func(v Value) bool { return v.isString() && v.safe }),
		"lower":       testCase(unicode.IsLower),
		"upper":       testCase(unicode.IsUpper),
		"filter":      testKnown(func(x *exec, name string) bool { return x.lib.filters[name] != nil }),
		"test":        testKnown(func(x *exec, name string) bool { return x.lib.tests[name] != nil }),
		"sameas":      testSameAs,
	}
	for op, names := range map[string][]string{
		"==": {"eq", "equalto", "=="}, "!=": {"ne", "!="}, "<": {"lt", "lessthan", "<"}, "<=": {"le", "<="},
		">": {"gt", "greaterthan", ">"}, ">=": {"ge", ">="}, "in": {"in"},
	} {
		for _, name := range names {
			t[name] = comparing(name, op)
		}
	}
	return t
}

func is(f func(Value) bool) test {
	return func(_ *exec, v Value, a args) (bool, error) {
		if _, err := a.bind("test", 0); err != nil {
			return false, err
		}
		return f(v), nil
	}
}

func comparing(name, op string) test {
	return func(x *exec, v Value, a args) (bool, error) {
		p, err := a.bind(name, 1, "other")
		if err != nil {
			return false, err
		}
		return compareValues(x.budget, op, v, p[0])
	}
}

func divisible(by, rest int) test {
	return func(x *exec, v Value, a args) (bool, error) {
		if _, err := a.bind("test", 0); err != nil {
			return false, err
		}
		return leaves(x.budget, v, integer(by), rest)
	}
}

func testDivisibleBy(x *exec, v Value, a args) (bool, error) {
	p, err := a.bind("divisibleby", 1, "num")
	if err != nil {
		return false, err
	}
	return leaves(x.budget, v, p[0], 0)
}

// leaves reports whether v % by == rest.
func leaves(bud *budget, v, by Value, rest int) (bool, error) {
	if v.isString() {
		return false, errors.New("not all arguments converted during string formatting")
	}
	r, err := binary(bud, "%", v, by)
	if err != nil {
		return false, err
	}
	return compareNumbers(r, integer(rest)) == 0, nil
}

func isSequence(v Value) bool {
	switch v.kind {
	case kindString, kindList, kindTuple, kindDict, kindRange, kindUndefined:
		return true
	}
	return false
}

func isIterable(v Value) bool {
	switch v.kind {
	case kindView, kindIterator, kindLoop:
		return true
	}
	return isSequence(v)
}

func isCallable(v Value) bool {
	_, ok := v.ref.(callable)
	return ok || v.kind == kindUndefined
}

// testCase is islower and isupper: at least one cased letter, none of the
// other case.
func testCase(want func(rune) bool) test {
	return func(x *exec, v Value, _ args) (bool, error) {
		s, err := x.str(v)
		if err != nil {
			return false, err
		}
		return allCased(s.str, want), nil
	}
}

func allCased(s string, want func(rune) bool) bool {
	found := false
	for _, r := range s {
		if isCased(r) {
			if !want(r) {
				return false
			}
			found = true
		}
	}
	return found
}

func testKnown(known func(x *exec, name string) bool) test {
	return func(x *exec, v Value, _ args) (bool, error) {
		return v.isString() && known(x, v.str), nil
	}
}

// testSameAs is identity: the same container, or an equal constant.
func testSameAs(_ *exec, v Value, a args) (bool, error) {
	p, err := a.bind("sameas", 1, "other")
	if err != nil {
		return false, err
	}
	o := p[0]
	if v.kind != o.kind {
		return false, nil
	}
	switch v.kind {
	case kindNone:
		return true, nil
	case kindBool, kindInt, kindFloat:
		return v.num == o.num && fmt.Sprint(v.ref) == fmt.Sprint(o.ref), nil
	case kindString:
		return v.str == o.str, nil
	}
	return v.ref == o.ref, nil
}
