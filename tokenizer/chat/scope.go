package chat

import (
	"errors"
	"fmt"
	"time"
)

// exec is one render: the variables, where output goes and what may still be
// spent.
type exec struct {
	*budget
	lib      *library
	context  []Value // by symbol id: the input's variables and Jinja's globals
	scope    *scope
	out      *builder
	captured Value // what capturedExpr gives
	now      time.Time
}

// scope holds the variables of a block. Lookup goes outwards to the context;
// assignment is always to the innermost scope.
type scope struct {
	parent   *scope
	vars     []binding
	captured bool // a macro refers to it: it must not be reused
}

type binding struct {
	id    int
	value Value
}

func (s *scope) set(sym symbol, v Value) {
	for i := range s.vars {
		if s.vars[i].id == sym.id {
			s.vars[i].value = v
			return
		}
	}
	s.vars = append(s.vars, binding{sym.id, v})
}

// lookup finds a variable; unknown ones are undefined.
func (x *exec) lookup(sym symbol) Value {
	for s := x.scope; s != nil; s = s.parent {
		for i := range s.vars {
			if s.vars[i].id == sym.id {
				return s.vars[i].value
			}
		}
	}
	if v := x.context[sym.id]; v.kind != kindAbsent {
		return v
	}
	return undefined(sym.name)
}

// at gives an error the line where it happened, unless it has one.
func at(line int, err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		return &Error{Reason: Runtime, Line: line, Message: err.Error()}
	}
	if e.Line == 0 {
		return &Error{Reason: e.Reason, Line: line, Message: e.Message}
	}
	return err
}

// eval evaluates an expression within the budget.
func (x *exec) eval(e expression) (Value, error) {
	if err := x.step(1); err != nil {
		return Value{}, err
	}
	if err := x.enter(); err != nil {
		return Value{}, err
	}
	v, err := e.eval(x)
	x.leave()
	return v, err
}

// run executes statements until one leaves the loop body.
func (x *exec) run(body []statement) (signal, error) {
	if err := x.enter(); err != nil {
		return signalNext, err
	}
	defer x.leave()
	for _, s := range body {
		if err := x.step(1); err != nil {
			return signalNext, err
		}
		if sig, err := s.exec(x); err != nil || sig != signalNext {
			return sig, err
		}
	}
	return signalNext, nil
}

// inner runs a body in a scope of its own.
func (x *exec) inner(body []statement) (signal, error) {
	outer := x.scope
	x.scope = &scope{parent: outer}
	sig, err := x.run(body)
	x.scope = outer
	return sig, err
}

// capture runs a body in a scope of its own and gives what it wrote.
func (x *exec) capture(body []statement) (Value, signal, error) {
	out := x.out
	x.out = newBuilder(x.budget)
	sig, err := x.inner(body)
	w := x.out
	x.out = out
	if err != nil {
		return Value{}, sig, err
	}
	v, err := w.value()
	return v, sig, err
}

// filterCaptured hands text to the filters of a filter or set block.
func (x *exec) filterCaptured(filter expression, text Value) (Value, error) {
	if filter == nil {
		return text, nil
	}
	outer := x.captured
	x.captured = text
	v, err := x.eval(filter)
	x.captured = outer
	return v, err
}

// assign gives a value to a name, a namespace attribute or a tuple of targets.
func (x *exec) assign(t target, v Value) error {
	switch {
	case t.tuple != nil:
		return x.unpack(t.tuple, v)
	case t.attribute != "":
		ns := x.lookup(t.symbol)
		if ns.kind != kindNamespace {
			return errNotNamespace
		}
		return setAttribute(ns, t.attribute, v)
	}
	x.scope.set(t.symbol, v)
	return nil
}

var errNotNamespace = errors.New("cannot assign attribute on non-namespace object")

// checkNamespaces finds a wrong target before the value is computed, as Jinja does.
func (x *exec) checkNamespaces(t target) error {
	if t.attribute != "" && x.lookup(t.symbol).kind != kindNamespace {
		return errNotNamespace
	}
	for _, part := range t.tuple {
		if err := x.checkNamespaces(part); err != nil {
			return err
		}
	}
	return nil
}

func setAttribute(ns Value, name string, v Value) error {
	if name[0] == '_' {
		return fmt.Errorf("namespace attribute %s must not begin with an underscore", quoted(name))
	}
	ns.dict().putText(name, v)
	return nil
}

func (x *exec) unpack(targets []target, v Value) error {
	if v.isUndefined() {
		return x.unpackItems(targets, nil)
	}
	items, err := valuesOf(x.budget, v)
	if err != nil {
		if _, ok := v.length(); !ok && v.kind != kindIterator {
			return fmt.Errorf("cannot unpack non-iterable %s object", v.typeName())
		}
		return err
	}
	return x.unpackItems(targets, items)
}

func (x *exec) unpackItems(targets []target, items []Value) error {
	switch {
	case len(items) > len(targets):
		return fmt.Errorf("too many values to unpack (expected %d)", len(targets))
	case len(items) < len(targets):
		return fmt.Errorf("not enough values to unpack (expected %d, got %d)", len(targets), len(items))
	}
	for i, t := range targets {
		if err := x.assign(t, items[i]); err != nil {
			return err
		}
	}
	return nil
}
