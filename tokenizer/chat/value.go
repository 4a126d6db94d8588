package chat

import (
	"math"
	"math/big"
)

// kind is the Python type that a Value stands for.
type kind uint8

const (
	kindAbsent    kind = iota // the zero Value: an argument or field not given
	kindUndefined             // Jinja's Undefined; str and num say what was looked up
	kindNone
	kindBool
	kindInt   // num, or ref *big.Int outside int64
	kindFloat // num holds the bits
	kindString
	kindList
	kindTuple
	kindDict
	kindRange
	kindView      // dict.keys(), .values(), .items()
	kindIterator  // generators and iterators: one pass, no length
	kindNamespace // ref *dict, the only thing that changes
	kindFunction  // builtins, bound methods
	kindMacro
	kindLoop
	kindCycler
	kindJoiner
)

// Value is what a template computes with: none, booleans, numbers, strings
// whose bytes are marked as the client's or the template's, lists, ordered
// maps and the callables of Jinja. Apart from namespaces values are immutable
// and may be shared. The zero Value means "not given".
type Value struct {
	kind   kind
	client bool // strings: who wrote the first byte; else: came from the client
	safe   bool // strings: a Markup; undefined: the name is an index
	num    uint64
	str    string
	ref    any // strings: *marks or nil; else by kind
}

// list is the content of lists and tuples. names is set for the named tuples
// of groupby.
type list struct {
	items []Value
	names []string
}

// interval is the content of a range; count is its number of integers.
type interval struct{ start, stop, step, count int64 }

func (r *interval) at(i int) Value { return integer64(r.start + int64(i)*r.step) }

// None is Python's None, JSON's null.
func None() Value { return Value{kind: kindNone} }

func boolean(b bool) Value {
	v := Value{kind: kindBool}
	if b {
		v.num = 1
	}
	return v
}

func integer(n int) Value { return Value{kind: kindInt, num: uint64(n)} }

func integer64(n int64) Value { return Value{kind: kindInt, num: uint64(n)} }

// bigInteger normalises: numbers that fit int64 are never *big.Int.
func bigInteger(n *big.Int) Value {
	if n.IsInt64() {
		return integer64(n.Int64())
	}
	return Value{kind: kindInt, ref: n}
}

func float(f float64) Value { return Value{kind: kindFloat, num: math.Float64bits(f)} }

// literal is a string written by the template.
func literal(s string) Value { return Value{kind: kindString, str: s} }

// clientText is a string written by the client.
func clientText(s string) Value { return Value{kind: kindString, str: s, client: true} }

func listOf(items []Value) Value { return Value{kind: kindList, ref: &list{items: items}} }

func tupleOf(items ...Value) Value { return Value{kind: kindTuple, ref: &list{items: items}} }

func dictOf(d *dict) Value { return Value{kind: kindDict, ref: d} }

// from gives v the client mark when any of the sources has it. Strings carry
// their own marks and stay as they are.
func (v Value) from(sources ...Value) Value {
	if v.kind == kindString {
		return v
	}
	for _, s := range sources {
		v.client = v.client || s.isClient()
	}
	return v
}

// isClient reports whether any part of a scalar or string, or the making of a
// container, came from the client.
func (v Value) isClient() bool {
	if v.kind == kindString {
		return v.client && v.str != "" || v.ref != nil
	}
	return v.client
}

func (v Value) isUndefined() bool { return v.kind == kindUndefined || v.kind == kindAbsent }

func (v Value) isNone() bool { return v.kind == kindNone }

func (v Value) isString() bool { return v.kind == kindString }

// isNumber includes booleans, which are integers in Python.
func (v Value) isNumber() bool {
	return v.kind == kindInt || v.kind == kindFloat || v.kind == kindBool
}

// isIntegral is int and bool.
func (v Value) isIntegral() bool { return v.kind == kindInt || v.kind == kindBool }

func (v Value) isTrue() bool { return v.kind == kindBool && v.num == 1 }

func (v Value) big() *big.Int {
	if b, ok := v.ref.(*big.Int); ok {
		return b
	}
	return big.NewInt(int64(v.num))
}

// small is the int64 of an integral value; false outside that range.
func (v Value) small() (int64, bool) { return int64(v.num), v.ref == nil }

// float64 converts a number; integers beyond float64 give infinities.
func (v Value) float64() float64 {
	switch {
	case v.kind == kindFloat:
		return math.Float64frombits(v.num)
	case v.ref != nil:
		f, _ := new(big.Float).SetInt(v.big()).Float64()
		return f
	}
	return float64(int64(v.num))
}

// items gives the content of a list or tuple, nil for everything else.
func (v Value) items() []Value {
	if l, ok := v.ref.(*list); ok {
		return l.items
	}
	return nil
}

func (v Value) dict() *dict {
	d, _ := v.ref.(*dict)
	return d
}

// truth is Python's bool().
func (v Value) truth() bool {
	switch v.kind {
	case kindAbsent, kindUndefined, kindNone:
		return false
	case kindBool, kindInt:
		return v.num != 0 || v.ref != nil
	case kindFloat:
		return v.float64() != 0
	case kindString:
		return v.str != ""
	}
	n, ok := v.length()
	return !ok || n != 0
}

// length is Python's len(), in characters for strings; false for values
// without one.
func (v Value) length() (int, bool) {
	switch v.kind {
	case kindAbsent, kindUndefined:
		return 0, true
	case kindString:
		return runeCount(v.str), true
	case kindList, kindTuple:
		return len(v.items()), true
	case kindDict:
		return v.dict().len(), true
	}
	switch r := v.ref.(type) {
	case *interval:
		return int(r.count), true
	case *view:
		return r.d.len(), true
	case *loop:
		n, err := r.length()
		return n, err == nil
	}
	return 0, false
}

// typeName is the name of the Python type, for messages.
func (v Value) typeName() string {
	switch v.kind {
	case kindString:
		if v.safe {
			return "Markup"
		}
		return "str"
	case kindView:
		return v.ref.(*view).part.typeName()
	}
	return kindNames[v.kind]
}

var kindNames = [...]string{
	kindAbsent: "Undefined", kindUndefined: "Undefined", kindNone: "NoneType", kindBool: "bool", kindInt: "int",
	kindFloat: "float", kindString: "str", kindList: "list", kindTuple: "tuple", kindDict: "dict", kindRange: "range",
	kindView: "dict_items", kindIterator: "generator", kindNamespace: "Namespace", kindFunction: "function",
	kindMacro: "Macro", kindLoop: "LoopContext", kindCycler: "Cycler", kindJoiner: "Joiner",
}

// Undefined values keep what was looked up, so that the message is made only
// when the value is used. num is the kind of the object the name was looked up
// on, or one of these.
const (
	undefinedVariable = uint64(kindAbsent) // str is the variable's name
	undefinedHint     = 1 << 8             // str is the whole message
)

func undefined(name string) Value { return Value{kind: kindUndefined, str: name} }

func undefinedBecause(message string) Value {
	return Value{kind: kindUndefined, num: undefinedHint, str: message}
}

func undefinedAttribute(obj Value, name string) Value {
	return Value{kind: kindUndefined, num: uint64(obj.kind), str: name}
}

// undefinedMessage says what an undefined value was meant to be.
func (v Value) undefinedMessage() string {
	switch {
	case v.kind == kindAbsent:
		return "a required argument is missing"
	case v.num == undefinedHint:
		return v.str
	case v.num == undefinedVariable:
		return quoted(v.str) + " is undefined"
	}
	owner := "None"
	if kind(v.num) != kindNone {
		owner = kindNames[v.num] + " object"
	}
	if v.safe {
		return owner + " has no element " + v.str
	}
	return quoted(owner) + " has no attribute " + quoted(v.str)
}

func quoted(s string) string { return "'" + s + "'" }
