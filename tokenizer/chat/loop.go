package chat

import (
	"errors"
)

// iteration gives the items of an iterable one by one; false after the last.
type iteration func() (Value, bool, error)

// iterator is a value that can be iterated once.
type iterator struct{ next iteration }

func iteratorOf(next iteration) Value { return Value{kind: kindIterator, ref: &iterator{next}} }

func iterateItems(items []Value) iteration {
	i := 0
	return func() (Value, bool, error) {
		if i >= len(items) {
			return Value{}, false, nil
		}
		i++
		return items[i-1], true, nil
	}
}

// iterateCount gives item(0) ... item(n-1).
func iterateCount(n int, item func(int) Value) iteration {
	i := 0
	return func() (Value, bool, error) {
		if i >= n {
			return Value{}, false, nil
		}
		i++
		return item(i - 1), true, nil
	}
}

// iterateText gives the characters of a string.
func iterateText(v Value) iteration {
	v.safe = false
	pos := 0
	return func() (Value, bool, error) {
		if pos >= len(v.str) {
			return Value{}, false, nil
		}
		start := pos
		pos += byteOffset(v.str[pos:], 1)
		return v.slice(start, pos), true, nil
	}
}

// iterate is Python's iter(). Every item costs a step.
func iterate(bud *budget, v Value) (iteration, error) {
	next, err := itemsOf(v)
	if err != nil {
		return nil, err
	}
	return func() (Value, bool, error) {
		if err := bud.step(1); err != nil {
			return Value{}, false, err
		}
		return next()
	}, nil
}

func itemsOf(v Value) (iteration, error) {
	switch v.kind {
	case kindUndefined, kindAbsent:
		return iterateItems(nil), nil
	case kindString:
		return iterateText(v), nil
	case kindList, kindTuple:
		return iterateItems(v.items()), nil
	case kindDict:
		d := v.dict()
		return iterateCount(d.len(), func(i int) Value { return d.entries[i].key }), nil
	}
	switch r := v.ref.(type) {
	case *interval:
		return iterateCount(int(r.count), r.at), nil
	case *view:
		return iterateCount(r.d.len(), r.at), nil
	case *iterator:
		return r.next, nil
	case *loop:
		return func() (Value, bool, error) {
			item, ok, err := r.advance()
			return tupleOf(item, Value{kind: kindLoop, ref: r}), ok, err
		}, nil
	}
	return nil, errors.New(quoted(v.typeName()) + " object is not iterable")
}

// valuesOf is Python's list(), but lists and tuples are shared, not copied.
func valuesOf(bud *budget, v Value) ([]Value, error) {
	if v.kind == kindList || v.kind == kindTuple {
		return v.items(), nil
	}
	next, err := iterate(bud, v)
	if err != nil {
		return nil, err
	}
	return collectAll(bud, next)
}

func collectAll(bud *budget, next iteration) ([]Value, error) {
	items := []Value{}
	for {
		v, ok, err := next()
		if err != nil || !ok {
			return items, err
		}
		if err := bud.list(1); err != nil {
			return nil, err
		}
		items = append(items, v)
	}
}

// loop is the variable of that name inside a for block.
type loop struct {
	x       *exec
	source  Value // absent where only reading all items gives the length
	next    iteration
	index0  int
	known   int // length, -1 before it is asked for
	ahead   bool
	after   Value // the next item, when ahead
	atEnd   bool  // ahead found no next item
	before  Value
	current Value
	changed []Value
	depth0  int
	recurse func(v Value, depth int) (Value, error) // nil unless recursive
}

// advance moves to the next item.
func (l *loop) advance() (Value, bool, error) {
	v, ok, err := l.peek()
	if err != nil || !ok {
		return Value{}, false, err
	}
	l.ahead = false
	l.index0++
	l.before, l.current = l.current, v
	return v, true, nil
}

// peek looks at the next item without moving.
func (l *loop) peek() (Value, bool, error) {
	if l.atEnd || l.ahead {
		return l.after, !l.atEnd, nil
	}
	v, ok, err := l.next()
	if err != nil {
		return Value{}, false, err
	}
	l.after, l.ahead, l.atEnd = v, ok, !ok
	return v, ok, nil
}

// length counts the items, reading an iterator to its end where nothing else gives
// their number.
func (l *loop) length() (int, error) {
	if l.known >= 0 {
		return l.known, nil
	}
	if n, ok := l.source.length(); ok && l.source.kind != kindAbsent {
		l.known = n
		return n, nil
	}
	rest, err := collectAll(l.x.budget, l.next)
	if err != nil {
		return 0, err
	}
	l.next = iterateItems(rest)
	l.known = len(rest) + l.index0 + 1
	if l.ahead {
		l.known++
	}
	return l.known, nil
}

func (l *loop) attribute(name string) (Value, bool, error) {
	switch name {
	case "index":
		return integer(l.index0 + 1), true, nil
	case "index0":
		return integer(l.index0), true, nil
	case "first":
		return boolean(l.index0 == 0), true, nil
	case "depth":
		return integer(l.depth0 + 1), true, nil
	case "depth0":
		return integer(l.depth0), true, nil
	case "length", "revindex", "revindex0":
		return l.counted(name)
	case "last", "nextitem":
		return l.following(name)
	case "previtem":
		if l.index0 == 0 {
			return undefinedBecause("there is no previous item"), true, nil
		}
		return l.before, true, nil
	}
	return Value{}, false, nil
}

func (l *loop) counted(name string) (Value, bool, error) {
	n, err := l.length()
	switch name {
	case "revindex":
		n -= l.index0
	case "revindex0":
		n -= l.index0 + 1
	}
	return integer(n), true, err
}

func (l *loop) following(name string) (Value, bool, error) {
	v, ok, err := l.peek()
	switch {
	case name == "last":
		return boolean(!ok), true, err
	case !ok:
		return undefinedBecause("there is no next item"), true, err
	}
	return v, true, err
}

// call renders a recursive loop's body with other items.
func (l *loop) call(_ *exec, a args) (Value, error) {
	p, err := a.bind("loop", 1, "iterable")
	if err != nil {
		return Value{}, err
	}
	if l.recurse == nil {
		return Value{}, errors.New("the loop must be marked 'recursive' to be called")
	}
	return l.recurse(p[0], l.depth0+1)
}

func loopCycle(_ *exec, v Value, a args) (Value, error) {
	if len(a.pos) == 0 {
		return Value{}, errors.New("no items for cycling given")
	}
	return a.pos[v.ref.(*loop).index0%len(a.pos)], nil
}

func loopChanged(x *exec, v Value, a args) (Value, error) {
	l := v.ref.(*loop)
	if l.changed != nil {
		same, err := equalValues(x.budget, tupleOf(l.changed...), tupleOf(a.pos...))
		if err != nil || same {
			return boolean(false), err
		}
	}
	l.changed = append([]Value{}, a.pos...)
	return boolean(true), nil
}

func (s *forStmt) exec(x *exec) (signal, error) {
	v, err := x.eval(s.iterable)
	if err != nil {
		return signalNext, at(s.line, err)
	}
	if !s.recursive {
		sig, err := s.loopOver(x, v, nil, 0)
		return sig, at(s.line, err)
	}
	text, err := s.render(x, x.scope, v, 0)
	if err == nil {
		x.out.str(text)
		err = x.out.err
	}
	return signalNext, at(s.line, err)
}

// render runs a recursive loop at one depth and gives its text.
func (s *forStmt) render(x *exec, defined *scope, v Value, depth int) (Value, error) {
	if err := x.enter(); err != nil {
		return Value{}, err
	}
	defer x.leave()
	out, outer := x.out, x.scope
	x.out, x.scope = newBuilder(x.budget), defined
	_, err := s.loopOver(x, v, func(v Value, depth int) (Value, error) {
		return s.render(x, defined, v, depth)
	}, depth)
	w := x.out
	x.out, x.scope = out, outer
	if err != nil {
		return Value{}, err
	}
	return w.value()
}

// loopOver runs the body for each item, then the else block unless an item's
// body ran to its end.
func (s *forStmt) loopOver(x *exec, v Value, recurse func(Value, int) (Value, error), depth int) (signal, error) {
	next, err := iterate(x.budget, v)
	if err != nil {
		return signalNext, err
	}
	l := &loop{x: x, source: v, next: next, index0: -1, known: -1, depth0: depth, recurse: recurse}
	if s.test != nil {
		l.source, l.next = Value{}, s.filtered(x, next)
	}
	outer := x.scope
	defer func() { x.scope = outer }()
	inner := &scope{parent: outer}
	finished := false
	for {
		item, ok, err := l.advance()
		if err != nil {
			return signalNext, err
		}
		if !ok {
			break
		}
		if inner.captured {
			inner = &scope{parent: outer}
		}
		sig, err := s.iterate(x, inner, l, item)
		if err != nil {
			return signalNext, err
		}
		finished = finished || sig == signalNext
		if sig == signalBreak {
			break
		}
	}
	x.scope = outer
	if finished || s.otherwise == nil {
		return signalNext, nil
	}
	return x.inner(s.otherwise)
}

func (s *forStmt) iterate(x *exec, inner *scope, l *loop, item Value) (signal, error) {
	inner.vars = inner.vars[:0]
	x.scope = inner
	inner.set(s.loop, Value{kind: kindLoop, ref: l})
	if err := x.assign(s.target, item); err != nil {
		return signalNext, err
	}
	return x.run(s.body)
}

// filtered keeps the items for which the inline if holds.
func (s *forStmt) filtered(x *exec, next iteration) iteration {
	defined := x.scope
	return func() (Value, bool, error) {
		for {
			v, ok, err := next()
			if err != nil || !ok {
				return Value{}, false, err
			}
			outer := x.scope
			x.scope = &scope{parent: defined}
			var keep Value
			if err = x.assign(s.target, v); err == nil {
				keep, err = x.eval(s.test)
			}
			x.scope = outer
			if err != nil || keep.truth() {
				return v, err == nil, err
			}
		}
	}
}
