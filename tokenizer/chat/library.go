package chat

import (
	"errors"
	"fmt"
	"math"
	"sync"
)

// filter implements "| name"; methods have the same signature.
type filter func(x *exec, v Value, a args) (Value, error)

// test implements "is name".
type test func(x *exec, v Value, a args) (bool, error)

// library holds everything a template can name. It lives in a struct, not in
// package variables, because filters such as map look filters up again.
type library struct {
	filters map[string]filter
	tests   map[string]test
	methods map[kind]map[string]filter
	globals map[string]Value
}

var builtins = sync.OnceValue(func() *library {
	return &library{filters: filters(), tests: tests(), globals: globals(), methods: map[kind]map[string]filter{
		kindString: textMethods(),
		kindDict:   dictMethods(),
		kindList:   listMethods(),
		kindTuple:  {"index": listIndex, "count": listCount},
		kindFloat:  {"is_integer": floatIsInteger},
		kindLoop:   {"cycle": loopCycle, "changed": loopChanged},
		kindCycler: {"next": cyclerNext, "reset": cyclerReset},
	}}
})

// unsupported are Jinja's filters that chat templates have no use for.
var unsupported = []string{"random", "urlize", "xmlattr", "pprint", "wordwrap", "filesizeformat", "striptags"}

func (l *library) method(v Value, name string) filter { return l.methods[v.kind][name] }

// plain makes a filter of a function without arguments.
func plain(name string, f func(x *exec, v Value) (Value, error)) filter {
	return func(x *exec, v Value, a args) (Value, error) {
		if _, err := a.bind(name, 0); err != nil {
			return Value{}, err
		}
		return f(x, v)
	}
}

func globals() map[string]Value {
	return map[string]Value{
		"range":           functionOf("range", makeRange),
		"dict":            functionOf("dict", makeDict),
		"namespace":       functionOf("namespace", makeNamespace),
		"cycler":          functionOf("cycler", makeCycler),
		"joiner":          functionOf("joiner", makeJoiner),
		"raise_exception": functionOf("raise_exception", raise),
		"strftime_now":    functionOf("strftime_now", strftimeNow),
	}
}

// maxRange is the longest range that Jinja's sandbox allows.
const maxRange = 100_000

func makeRange(_ *exec, a args) (Value, error) {
	p, err := a.bind("range", 1, "start", "stop", "step")
	if err != nil {
		return Value{}, err
	}
	if p[1].kind == kindAbsent {
		p[0], p[1] = integer(0), p[0]
	}
	var n [3]int
	for i, v := range []Value{p[0], p[1], p[2].or(integer(1))} {
		if n[i], err = v.count("range argument"); err != nil {
			return Value{}, err
		}
	}
	start, stop, step := float64(n[0]), float64(n[1]), float64(n[2])
	if step == 0 {
		return Value{}, errors.New("range() step must not be zero")
	}
	count := max(0, math.Ceil((stop-start)/step))
	if count > maxRange {
		return Value{}, &Error{Reason: Limit, Message: fmt.Sprintf("range of more than %d numbers", maxRange)}
	}
	return Value{kind: kindRange, ref: &interval{int64(n[0]), int64(n[1]), int64(n[2]), int64(count)}}.from(a.pos...), nil
}

// makeDict is dict(mapping or pairs, **named).
func makeDict(x *exec, a args) (Value, error) {
	if len(a.pos) > 1 {
		return Value{}, errors.New("dict expected at most 1 argument")
	}
	d := &dict{}
	if len(a.pos) == 1 {
		var err error
		if d, err = toDict(x.budget, a.pos[0]); err != nil {
			return Value{}, err
		}
	}
	for i, name := range a.names {
		d.putText(name, a.named[i])
	}
	return dictOf(d), x.list(2 * d.len())
}

// toDict copies a mapping, or makes one of pairs.
func toDict(bud *budget, v Value) (*dict, error) {
	if v.kind == kindDict {
		return v.dict().clone(), bud.list(2 * v.dict().len())
	}
	next, err := iterate(bud, v)
	if err != nil {
		return nil, err
	}
	d := &dict{}
	for {
		item, ok, err := next()
		if err != nil || !ok {
			return d, err
		}
		pair, err := valuesOf(bud, item)
		if err != nil {
			return nil, err
		}
		if len(pair) != 2 {
			return nil, fmt.Errorf("dictionary update sequence element has length %d; 2 is required", len(pair))
		}
		if err := bud.key(pair[0]); err != nil {
			return nil, err
		}
		if err := d.put(pair[0], pair[1]); err != nil {
			return nil, err
		}
		if err := bud.list(2); err != nil {
			return nil, err
		}
	}
}

func makeNamespace(x *exec, a args) (Value, error) {
	v, err := makeDict(x, a)
	if err != nil {
		return Value{}, err
	}
	ns := Value{kind: kindNamespace, ref: &dict{}}
	for _, e := range v.dict().entries {
		if !e.key.isString() || e.key.str == "" {
			return Value{}, errors.New("namespace attributes must have names")
		}
		if err := setAttribute(ns, e.key.str, e.value); err != nil {
			return Value{}, err
		}
	}
	return ns, nil
}

func makeCycler(_ *exec, a args) (Value, error) {
	if len(a.pos) == 0 {
		return Value{}, errors.New("at least one item has to be provided")
	}
	return Value{kind: kindCycler, ref: &cycler{items: a.pos}}, nil
}

func makeJoiner(_ *exec, a args) (Value, error) {
	p, err := a.bind("joiner", 0, "sep")
	return Value{kind: kindJoiner, ref: &joiner{separator: p[0].or(literal(", "))}}, err
}

// raise ends the render: the template refuses the conversation.
func raise(x *exec, a args) (Value, error) {
	p, err := a.bind("raise_exception", 1, "message")
	if err != nil {
		return Value{}, err
	}
	text, err := x.str(p[0])
	if err != nil {
		return Value{}, err
	}
	return Value{}, &Error{Reason: Raised, Message: text.str}
}

func strftimeNow(x *exec, a args) (Value, error) {
	p, err := a.bind("strftime_now", 1, "format")
	if err != nil {
		return Value{}, err
	}
	format, err := p[0].text("format")
	if err != nil {
		return Value{}, err
	}
	if err := x.characters(4 * len(format.str)); err != nil {
		return Value{}, err
	}
	w := newBuilder(x.budget)
	w.strftime(format, x.now)
	return w.value()
}
