package chat

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// attribute is object.name: the object's own attributes and methods first,
// then its items.
func (x *exec) attribute(v Value, name string) (Value, error) {
	if own, ok, err := x.own(v, name); ok || err != nil {
		return own, err
	}
	if v.kind == kindDict {
		if item, ok := v.dict().text(name); ok {
			return item, nil
		}
	}
	return undefinedAttribute(v, name), nil
}

// own finds what Python's getattr would: a method or attribute that the type has,
// or false.
func (x *exec) own(v Value, name string) (Value, bool, error) {
	if v.isUndefined() {
		return Value{}, false, errors.New(v.undefinedMessage())
	}
	if m := x.lib.method(v, name); m != nil {
		return functionOf(name, func(x *exec, a args) (Value, error) {
			if err := x.touch(v); err != nil {
				return Value{}, err
			}
			return m(x, v, a)
		}), true, nil
	}
	if isUnsafe(v, name) {
		return undefinedBecause(fmt.Sprintf("access to attribute %s of %s object is unsafe", quoted(name), quoted(v.typeName()))),
			true, nil
	}
	switch r := v.ref.(type) {
	case *loop:
		return r.attribute(name)
	case *macro:
		if name == "name" {
			return literal(r.name), true, nil
		}
	case *cycler:
		if name == "current" {
			return r.items[r.pos], true, nil
		}
	case *list:
		if i := slices.Index(r.names, name); i >= 0 {
			return r.items[i], true, nil
		}
	case *dict:
		if v.kind == kindNamespace {
			item, ok := r.text(name)
			return item, ok, nil
		}
	}
	return Value{}, false, nil
}

// item is object[key]: items first, then attributes. A key that is neither
// gives an undefined value.
func (x *exec) item(v, key Value) (Value, error) {
	if v.isUndefined() {
		return Value{}, errors.New(v.undefinedMessage())
	}
	if err := x.key(key); err != nil {
		return Value{}, err
	}
	if item, ok := storedItem(x.budget, v, key); ok {
		return item, nil
	}
	if key.isString() {
		if own, ok, err := x.own(v, key.str); ok || err != nil {
			return own, err
		}
		return undefinedAttribute(v, key.str), nil
	}
	text := newBuilder(x.budget)
	text.repr(key)
	u := undefinedAttribute(v, string(text.buf))
	u.safe = true
	return u, text.err
}

// storedItem finds the item that v holds at a key or index.
func storedItem(bud *budget, v, key Value) (Value, bool) {
	if v.kind == kindDict {
		item, ok, _ := v.dict().lookup(key) // a key without a hash is in no dict
		return item, ok
	}
	if !key.isIntegral() {
		return Value{}, false
	}
	i, fits := key.small()
	if !fits {
		return Value{}, false
	}
	switch v.kind {
	case kindList, kindTuple:
		items := v.items()
		if i = wrap(i, len(items)); i >= 0 {
			return items[i], true
		}
	case kindRange:
		r := v.ref.(*interval)
		if i = wrap(i, int(r.count)); i >= 0 {
			return r.at(int(i)), true
		}
	case kindString:
		return characterAt(bud, v, i)
	}
	return Value{}, false
}

// wrap makes an index that counts from the end, as in Python, one from the
// beginning; -1 means out of range.
func wrap(i int64, n int) int64 {
	if i < 0 {
		i += int64(n)
	}
	if i < 0 || i >= int64(n) {
		return -1
	}
	return i
}

func characterAt(bud *budget, v Value, i int64) (Value, bool) {
	if i == -1 && v.str != "" {
		_, n := utf8.DecodeLastRuneInString(v.str)
		return v.slice(len(v.str)-n, len(v.str)), true
	}
	if bud.scan(2*len(v.str)) != nil { // the budget is spent: the next step returns the error
		return Value{}, false
	}
	if i = wrap(i, runeCount(v.str)); i < 0 {
		return Value{}, false
	}
	start := byteOffset(v.str, int(i))
	return v.slice(start, start+byteOffset(v.str[start:], 1)), true
}

// bounds are the positions that a slice takes, as Python computes them.
type bounds struct{ from, to, step, count int }

func sliceBounds(n int, from, to, step Value) (bounds, error) {
	b := bounds{step: 1}
	var err error
	if !isGiven(step) {
		step = integer(1)
	}
	if b.step, err = sliceIndex(step); err != nil {
		return b, err
	}
	if b.step == 0 {
		return b, errors.New("slice step cannot be zero")
	}
	low, high := 0, n
	b.from, b.to = 0, n
	if b.step < 0 {
		low, high = -1, n-1
		b.from, b.to = n-1, -1
	}
	if isGiven(from) {
		if b.from, err = clampIndex(from, n, low, high); err != nil {
			return b, err
		}
	}
	if isGiven(to) {
		if b.to, err = clampIndex(to, n, low, high); err != nil {
			return b, err
		}
	}
	switch {
	case b.step > 0 && b.from < b.to:
		b.count = (b.to-b.from-1)/b.step + 1
	case b.step < 0 && b.to < b.from:
		b.count = (b.from-b.to-1)/-max(b.step, -1<<62) + 1
	}
	return b, nil
}

func isGiven(v Value) bool { return v.kind != kindAbsent && v.kind != kindNone }

func sliceIndex(v Value) (int, error) {
	if v.kind == kindUndefined {
		return 0, errors.New("slice indices must be integers or None, not Undefined")
	}
	return v.count("slice index")
}

func clampIndex(v Value, n, low, high int) (int, error) {
	i, err := sliceIndex(v)
	if i < 0 {
		i += n
	}
	return min(max(i, low), high), err
}

// sliceValue is object[from:to:step]; absent bounds are the ends of the object.
func sliceValue(bud *budget, v, from, to, step Value) (Value, error) {
	switch v.kind {
	case kindUndefined, kindAbsent:
		return Value{}, errors.New(v.undefinedMessage())
	case kindString:
		return sliceText(bud, v, from, to, step)
	case kindList, kindTuple:
		return sliceList(bud, v, from, to, step)
	case kindRange:
		return sliceRange(bud, v, from, to, step)
	case kindDict:
		return Value{}, errors.New("unhashable type: 'slice'")
	}
	return Value{}, errors.New(quoted(v.typeName()) + " object is not subscriptable")
}

func sliceList(bud *budget, v, from, to, step Value) (Value, error) {
	items := v.items()
	b, err := sliceBounds(len(items), from, to, step)
	if err == nil {
		err = bud.list(b.count)
	}
	if err != nil {
		return Value{}, err
	}
	out := make([]Value, b.count)
	for i := range out {
		out[i] = items[b.from+i*b.step]
	}
	return Value{kind: v.kind, client: v.client, ref: &list{items: out}}, nil
}

func sliceRange(bud *budget, v, from, to, step Value) (Value, error) {
	r := v.ref.(*interval)
	b, err := sliceBounds(int(r.count), from, to, step)
	start := r.start + int64(b.from)*r.step
	by := r.step * int64(b.step)
	return Value{kind: kindRange, ref: &interval{start, r.start + int64(b.to)*r.step, by, int64(b.count)}}, err
}

func sliceText(bud *budget, v, from, to, step Value) (Value, error) {
	if err := bud.scan(len(v.str)); err != nil {
		return Value{}, err
	}
	n := runeCount(v.str)
	b, err := sliceBounds(n, from, to, step)
	if err != nil || b.count == 0 {
		return v.slice(0, 0), err
	}
	if b.step == 1 {
		start := byteOffset(v.str, b.from)
		return v.slice(start, start+byteOffset(v.str[start:], b.to-b.from)), nil
	}
	return pick(bud, v, n, b)
}

// pick makes a string of the characters of v at the positions b; n is the
// number of characters of v.
func pick(bud *budget, v Value, n int, b bounds) (Value, error) {
	if err := bud.alloc(8 * n); err != nil {
		return Value{}, err
	}
	if err := bud.characters(b.count); err != nil {
		return Value{}, err
	}
	offsets := make([]int, 0, n+1)
	for i := range v.str {
		offsets = append(offsets, i)
	}
	offsets = append(offsets, len(v.str))
	w := newBuilder(bud)
	w.safe = v.safe
	for i := range b.count {
		at := b.from + i*b.step
		w.write(v.str[offsets[at]:offsets[at+1]], v.clientAt(offsets[at]))
	}
	return w.value()
}
