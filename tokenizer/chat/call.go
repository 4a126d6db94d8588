package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// args are the evaluated arguments of a call, filter or test.
type args struct {
	pos   []Value
	names []string // one per item of named
	named []Value
}

// callable is what can be called: functions, macros, loops, joiners.
type callable interface {
	call(x *exec, a args) (Value, error)
}

// function is a builtin or a bound method.
type function struct {
	name string
	body func(x *exec, a args) (Value, error)
}

func (f *function) call(x *exec, a args) (Value, error) { return f.body(x, a) }

func functionOf(name string, body func(x *exec, a args) (Value, error)) Value {
	return Value{kind: kindFunction, ref: &function{name, body}}
}

// maxParameters is the most that a builtin takes.
const maxParameters = 4

// bind orders arguments by parameter names; the first required ones must be
// there, the others may stay absent.
func (a args) bind(fn string, required int, names ...string) (p [maxParameters]Value, err error) {
	if len(a.pos) > len(names) {
		return p, fmt.Errorf("%s() takes at most %d arguments (%d given)", fn, len(names), len(a.pos))
	}
	copy(p[:], a.pos)
	for i, name := range a.names {
		at := slices.Index(names, name)
		switch {
		case at < 0:
			return p, fmt.Errorf("%s() got an unexpected keyword argument %s", fn, quoted(name))
		case p[at].kind != kindAbsent:
			return p, fmt.Errorf("%s() got multiple values for argument %s", fn, quoted(name))
		}
		p[at] = a.named[i]
	}
	for i, name := range names[:required] {
		if p[i].kind == kindAbsent {
			return p, fmt.Errorf("%s() missing required argument %s", fn, quoted(name))
		}
	}
	return p, nil
}

// or gives a default for an absent argument.
func (v Value) or(fallback Value) Value {
	if v.kind == kindAbsent {
		return fallback
	}
	return v
}

// count reads an integer argument, clamped to what fits an int.
func (v Value) count(name string) (int, error) {
	if v.isUndefined() {
		return 0, errors.New(v.undefinedMessage())
	}
	if !v.isIntegral() {
		return 0, fmt.Errorf("%s must be an integer, not %s", name, quoted(v.typeName()))
	}
	n, ok := v.small()
	if !ok {
		n = 1<<62 - 1
		if v.big().Sign() < 0 {
			n = -n
		}
	}
	return int(n), nil
}

// text reads a string argument.
func (v Value) text(name string) (Value, error) {
	if !v.isString() {
		return Value{}, fmt.Errorf("%s must be str, not %s", name, v.typeName())
	}
	return v, nil
}

// evaluate computes the arguments as written, left to right.
func (a *arguments) evaluate(x *exec) (args, error) {
	var out args
	var err error
	if out.pos, err = x.evalAll(a.positional); err != nil {
		return out, err
	}
	if out.named, err = x.evalAll(a.named); err != nil {
		return out, err
	}
	out.names = slices.Clip(a.names)
	if a.star != nil {
		if err := out.addStar(x, a.star); err != nil {
			return out, err
		}
	}
	if a.starStar != nil {
		return out, out.addStarStar(x, a.starStar)
	}
	return out, nil
}

func (x *exec) evalAll(list []expression) ([]Value, error) {
	if len(list) == 0 {
		return nil, nil
	}
	values := make([]Value, len(list), len(list)+1)
	for i, e := range list {
		v, err := x.eval(e)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

func (a *args) addStar(x *exec, e expression) error {
	v, err := x.eval(e)
	if err != nil {
		return err
	}
	items, err := valuesOf(x.budget, v)
	if err == nil {
		err = x.list(len(items))
	}
	a.pos = append(slices.Clip(a.pos), items...)
	return err
}

func (a *args) addStarStar(x *exec, e expression) error {
	v, err := x.eval(e)
	if err != nil {
		return err
	}
	if v.kind != kindDict {
		return fmt.Errorf("argument after ** must be a mapping, not %s", v.typeName())
	}
	for _, e := range v.dict().entries {
		if !e.key.isString() {
			return errors.New("keywords must be strings")
		}
		if slices.Contains(a.names, e.key.str) {
			return fmt.Errorf("got multiple values for keyword argument %s", quoted(e.key.str))
		}
		a.names, a.named = append(a.names, e.key.str), append(a.named, e.value)
	}
	return nil
}

// call calls a value.
func (x *exec) call(callee Value, a args) (Value, error) {
	if callee.isUndefined() {
		return Value{}, errors.New(callee.undefinedMessage())
	}
	c, ok := callee.ref.(callable)
	if !ok {
		return Value{}, errors.New(quoted(callee.typeName()) + " object is not callable")
	}
	return c.call(x, a)
}

// prepare evaluates the callee and the arguments.
func (e *callExpr) prepare(x *exec) (Value, args, error) {
	callee, err := x.eval(e.callee)
	if err != nil {
		return Value{}, args{}, err
	}
	a, err := e.args.evaluate(x)
	return callee, a, err
}

func (e *callExpr) eval(x *exec) (Value, error) {
	if attr, ok := e.callee.(*attrExpr); ok {
		v, done, err := e.callMethod(x, attr)
		if done || err != nil {
			return v, at(e.line, err)
		}
		a, err := e.args.evaluate(x)
		if err == nil {
			v, err = x.call(v, a)
		}
		return v, at(e.line, err)
	}
	callee, a, err := e.prepare(x)
	if err != nil {
		return Value{}, at(e.line, err)
	}
	v, err := x.call(callee, a)
	return v, at(e.line, err)
}

// callMethod calls a builtin method without making a value of it. Otherwise
// it gives the callee, and false.
func (e *callExpr) callMethod(x *exec, attr *attrExpr) (Value, bool, error) {
	object, err := x.eval(attr.object)
	if err != nil {
		return Value{}, false, err
	}
	m := x.lib.method(object, attr.name)
	if m == nil {
		v, err := x.attribute(object, attr.name)
		return v, false, err
	}
	a, err := e.args.evaluate(x)
	if err != nil {
		return Value{}, false, err
	}
	if err := x.touch(object); err != nil {
		return Value{}, false, err
	}
	v, err := m(x, object, a)
	return v, true, err
}

// macro is a macro or call block with the scope it was defined in.
type macro struct {
	*macroBody
	defined *scope
}

func (x *exec) closure(m *macroBody) *macro {
	for s := x.scope; s != nil && !s.captured; s = s.parent {
		s.captured = true
	}
	return &macro{m, x.scope}
}

func (m *macro) title() string {
	if m.name == "" {
		return "anonymous"
	}
	return quoted(m.name)
}

// call binds the arguments in a new scope and gives what the body writes.
func (m *macro) call(x *exec, a args) (Value, error) {
	if err := x.enter(); err != nil {
		return Value{}, err
	}
	defer x.leave()
	outer, out := x.scope, x.out
	x.scope, x.out = &scope{parent: m.defined}, newBuilder(x.budget)
	defer func() { x.scope, x.out = outer, out }()
	if err := m.bind(x, a); err != nil {
		return Value{}, err
	}
	if _, err := x.run(m.body); err != nil {
		return Value{}, err
	}
	return x.out.value()
}

// bind sets the parameters: positional, named, defaults, then the implicit
// caller, kwargs and varargs.
func (m *macro) bind(x *exec, a args) error {
	used := make([]bool, len(a.names))
	explicitCaller := false
	missing := []int{}
	for i, param := range m.params {
		explicitCaller = explicitCaller || param.name == "caller"
		if i < len(a.pos) {
			x.scope.set(param, a.pos[i])
			continue
		}
		if at := slices.Index(a.names, param.name); at >= 0 {
			used[at] = true
			x.scope.set(param, a.named[at])
			continue
		}
		missing = append(missing, i)
		x.scope.set(param, undefinedBecause("parameter "+quoted(param.name)+" was not provided"))
	}
	m.bindCaller(x, a, used, explicitCaller)
	if err := m.bindRest(x, a, used); err != nil {
		return err
	}
	return m.bindDefaults(x, missing)
}

func (m *macro) bindDefaults(x *exec, missing []int) error {
	for _, i := range missing {
		d := i - len(m.params) + len(m.defaults)
		if d < 0 {
			continue
		}
		v, err := x.eval(m.defaults[d])
		if err != nil {
			return err
		}
		x.scope.set(m.params[i], v)
	}
	return nil
}

func (m *macro) bindCaller(x *exec, a args, used []bool, explicit bool) {
	if !m.useCaller || explicit {
		return
	}
	caller := undefinedBecause("No caller defined")
	if at := slices.Index(a.names, "caller"); at >= 0 {
		used[at] = true
		caller = a.named[at]
	}
	x.scope.set(m.caller, caller)
}

func (m *macro) bindRest(x *exec, a args, used []bool) error {
	rest := &dict{}
	for i, name := range a.names {
		if used[i] {
			continue
		}
		if !m.useKwargs {
			return fmt.Errorf("macro %s takes no keyword argument %s", m.title(), quoted(name))
		}
		rest.putText(name, a.named[i])
	}
	if m.useKwargs {
		x.scope.set(m.kwargs, dictOf(rest))
	}
	extra := a.pos[min(len(a.pos), len(m.params)):]
	if m.useVarargs {
		x.scope.set(m.varargs, tupleOf(slices.Clone(extra)...))
	} else if len(extra) > 0 {
		return fmt.Errorf("macro %s takes not more than %d argument(s)", m.title(), len(m.params))
	}
	return nil
}

// joiner gives the empty string at its first call, then its separator.
type joiner struct {
	separator Value
	used      bool
}

func (j *joiner) call(*exec, args) (Value, error) {
	if !j.used {
		j.used = true
		return literal(""), nil
	}
	return j.separator, nil
}

// cycler gives its items in turn, again and again.
type cycler struct {
	items []Value
	pos   int
}

func cyclerNext(_ *exec, v Value, _ args) (Value, error) {
	c := v.ref.(*cycler)
	item := c.items[c.pos]
	c.pos = (c.pos + 1) % len(c.items)
	return item, nil
}

func cyclerReset(_ *exec, v Value, _ args) (Value, error) {
	v.ref.(*cycler).pos = 0
	return None(), nil
}

// unsafe are the attributes that change lists and dicts, which the sandbox
// refuses.
var unsafe = map[kind]string{
	kindDict: " clear pop popitem setdefault update ",
	kindList: " append clear pop reverse insert sort extend remove ",
}

func isUnsafe(v Value, name string) bool {
	if len(name) > 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") {
		return true
	}
	return strings.Contains(unsafe[v.kind], " "+name+" ")
}
