package chat

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// dict is an ordered map, as Python's dict: keys keep the place of their first
// insertion. Dicts of at most maxSearched entries are searched one by one, larger
// ones have an index.
type dict struct {
	entries []entry
	index   map[hashKey]int // nil up to maxSearched entries
}

type entry struct{ key, value Value }

const maxSearched = 8

// hashKey is equal for keys that are equal in Python (1, 1.0 and True are).
type hashKey struct {
	kind kind
	num  uint64
	str  string
}

func textKey(s string) hashKey { return hashKey{kind: kindString, str: s} }

// hash gives the key of a value, or an error for types without a hash.
func (v Value) hash() (hashKey, error) {
	switch v.kind {
	case kindString:
		return textKey(v.str), nil
	case kindBool, kindInt:
		if v.ref != nil {
			return hashKey{kind: kindInt, str: v.big().String()}, nil
		}
		return hashKey{kind: kindInt, num: v.num}, nil
	case kindFloat:
		f := v.float64()
		if f == math.Trunc(f) && math.Abs(f) < 1<<63 {
			return hashKey{kind: kindInt, num: uint64(int64(f))}, nil
		}
		return hashKey{kind: kindFloat, num: v.num}, nil
	case kindNone, kindUndefined:
		return hashKey{kind: v.kind}, nil
	case kindTuple:
		return v.hashTuple()
	}
	return hashKey{}, fmt.Errorf("unhashable type: %s", quoted(v.typeName()))
}

// maxKeyItems bounds tuples as keys, nested ones included.
const maxKeyItems = 64

func (v Value) hashTuple() (hashKey, error) {
	var b strings.Builder
	n := 0
	if err := v.appendTupleKey(&b, &n); err != nil {
		return hashKey{}, err
	}
	return hashKey{kind: kindTuple, str: b.String()}, nil
}

func (v Value) appendTupleKey(b *strings.Builder, n *int) error {
	for _, item := range v.items() {
		if *n++; *n > maxKeyItems {
			return errors.New("tuple is too long for a key")
		}
		if item.kind == kindTuple {
			b.WriteString("(")
			if err := item.appendTupleKey(b, n); err != nil {
				return err
			}
			b.WriteString(")")
			continue
		}
		h, err := item.hash()
		if err != nil {
			return err
		}
		b.WriteString(strconv.Itoa(int(h.kind)) + ":" + strconv.FormatUint(h.num, 16) + ":" + strconv.Quote(h.str) + ",")
	}
	return nil
}

func (d *dict) len() int { return len(d.entries) }

func (d *dict) find(h hashKey) int {
	if d.index != nil {
		if i, ok := d.index[h]; ok {
			return i
		}
		return -1
	}
	if h.kind == kindString {
		return d.findText(h.str)
	}
	for i := range d.entries {
		if k, err := d.entries[i].key.hash(); err == nil && k == h {
			return i
		}
	}
	return -1
}

func (d *dict) findText(s string) int {
	for i := range d.entries {
		if k := &d.entries[i].key; k.kind == kindString && k.str == s {
			return i
		}
	}
	return -1
}

// text looks a string key up.
func (d *dict) text(key string) (Value, bool) {
	if i := d.find(textKey(key)); i >= 0 {
		return d.entries[i].value, true
	}
	return Value{}, false
}

// lookup looks any key up; the error is for keys without a hash.
func (d *dict) lookup(key Value) (Value, bool, error) {
	h, err := key.hash()
	if err != nil {
		return Value{}, false, err
	}
	if i := d.find(h); i >= 0 {
		return d.entries[i].value, true, nil
	}
	return Value{}, false, nil
}

// put sets a key; the first key of equal ones stays, as in Python.
func (d *dict) put(key, value Value) error {
	h, err := key.hash()
	if err != nil {
		return err
	}
	if i := d.find(h); i >= 0 {
		d.entries[i].value = value
		return nil
	}
	d.entries = append(d.entries, entry{key, value})
	switch {
	case d.index != nil:
		d.index[h] = len(d.entries) - 1
	case len(d.entries) > maxSearched:
		d.buildIndex()
	}
	return nil
}

// putText sets a key written by the template.
func (d *dict) putText(key string, value Value) { _ = d.put(literal(key), value) }

func (d *dict) buildIndex() {
	d.index = make(map[hashKey]int, 2*len(d.entries))
	for i := range d.entries {
		if h, err := d.entries[i].key.hash(); err == nil {
			d.index[h] = i
		}
	}
}

// clone copies the entries, not the values.
func (d *dict) clone() *dict {
	c := &dict{entries: slices.Clone(d.entries)}
	if d.index != nil {
		c.buildIndex()
	}
	return c
}

// view is what keys(), values() and items() of a dict give.
type view struct {
	d    *dict
	part viewPart
}

type viewPart uint8

const (
	viewKeys viewPart = iota
	viewValues
	viewItems
)

func (p viewPart) typeName() string {
	return [...]string{"dict_keys", "dict_values", "dict_items"}[p]
}

func (w *view) at(i int) Value {
	e := w.d.entries[i]
	switch w.part {
	case viewKeys:
		return e.key
	case viewValues:
		return e.value
	}
	return tupleOf(e.key, e.value)
}
