package chat

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
)

// binary applies an arithmetic operator as Python does.
func binary(bud *budget, op string, a, b Value) (Value, error) {
	for _, v := range []Value{a, b} {
		if v.isUndefined() && (op != "%" || !a.isString()) {
			return Value{}, errors.New(v.undefinedMessage())
		}
	}
	if a.isNumber() && b.isNumber() {
		if err := bud.arithmetic(op, a, b); err != nil {
			return Value{}, err
		}
		v, err := number(op, a, b)
		return v.from(a, b), err
	}
	switch op {
	case "+":
		return addValues(bud, a, b)
	case "*":
		return repeatValue(bud, a, b)
	case "%":
		if a.isString() {
			return printf(bud, a, b)
		}
	}
	return Value{}, unsupportedOperand(op, a, b)
}

// arithmetic pays for an operation on long integers.
func (b *budget) arithmetic(op string, v, w Value) error {
	if v.ref == nil && w.ref == nil && op != "**" {
		return nil
	}
	if op == "**" && v.isIntegral() && w.isIntegral() {
		words := maxBits / 64
		if n, ok := w.small(); ok && n >= 0 && n < maxBits {
			words = min(words, v.big().BitLen()*int(n)/64)
		}
		return b.step(words + words*words/32)
	}
	if err := b.digits(v); err != nil {
		return err
	}
	return b.digits(w)
}

func unsupportedOperand(op string, a, b Value) error {
	return fmt.Errorf("unsupported operand type(s) for %s: %s and %s", op, quoted(a.typeName()), quoted(b.typeName()))
}

// addValues joins strings, lists and tuples.
func addValues(bud *budget, a, b Value) (Value, error) {
	switch {
	case a.isString() && b.isString():
		return addText(bud, a, b)
	case a.kind == b.kind && (a.kind == kindList || a.kind == kindTuple):
		left, right := a.items(), b.items()
		if err := bud.list(len(left) + len(right)); err != nil {
			return Value{}, err
		}
		items := append(append(make([]Value, 0, len(left)+len(right)), left...), right...)
		return Value{kind: a.kind, ref: &list{items: items}}.from(a, b), nil
	case a.isString() || a.kind == kindList || a.kind == kindTuple:
		return Value{}, fmt.Errorf("can only concatenate %s (not %q) to %s", a.typeName(), b.typeName(), a.typeName())
	}
	return Value{}, unsupportedOperand("+", a, b)
}

// addText concatenates; a Markup on either side escapes the other.
func addText(bud *budget, a, b Value) (Value, error) {
	w := newBuilder(bud)
	w.safe = a.safe || b.safe
	for _, v := range []Value{a, b} {
		if w.safe && !v.safe {
			w.escape(v)
		} else {
			w.writeText(v)
		}
	}
	return w.value()
}

// repeatValue multiplies a string or list by an integer.
func repeatValue(bud *budget, a, b Value) (Value, error) {
	if a.isIntegral() {
		a, b = b, a
	}
	isList := a.kind == kindList || a.kind == kindTuple
	if !b.isIntegral() || !isList && !a.isString() {
		return Value{}, fmt.Errorf("can't multiply %s by %s", quoted(a.typeName()), quoted(b.typeName()))
	}
	n, err := b.count("factor")
	if err != nil {
		return Value{}, err
	}
	n = max(n, 0)
	if !isList {
		return repeatText(bud, a, n)
	}
	items := a.items()
	if len(items) == 0 {
		n = 0
	}
	if n > bud.o.MaxMemoryBytes/max(len(items), 1) {
		return Value{}, bud.alloc(bud.o.MaxMemoryBytes + 1)
	}
	if err := bud.list(len(items) * n); err != nil {
		return Value{}, err
	}
	out := make([]Value, 0, len(items)*n)
	for range n {
		out = append(out, items...)
	}
	return Value{kind: a.kind, ref: &list{items: out}}.from(a), nil
}

func repeatText(bud *budget, a Value, n int) (Value, error) {
	if a.str == "" {
		n = 0
	}
	if n > bud.o.MaxOutputBytes/max(len(a.str), 1) {
		return Value{}, bud.text(0, bud.o.MaxOutputBytes+1)
	}
	w := newBuilder(bud)
	w.safe = a.safe
	if a.ref == nil {
		if w.reserve(len(a.str) * n); w.err == nil {
			w.mark(a.client)
			w.buf = bytes.Repeat([]byte(a.str), n)
		}
		return w.value()
	}
	for i := 0; i < n && w.err == nil; i++ {
		w.writeText(a)
	}
	return w.value()
}

func sign(v Value, minus bool) (Value, error) {
	switch {
	case v.isUndefined():
		return Value{}, errors.New(v.undefinedMessage())
	case !v.isNumber():
		return Value{}, errors.New("bad operand type for a sign: " + quoted(v.typeName()))
	case minus && v.kind == kindFloat:
		return float(-v.float64()).from(v), nil
	case minus:
		return bigInteger(new(big.Int).Neg(v.big())).from(v), nil
	}
	v.kind = max(v.kind, kindInt) // + turns a bool into an int
	return v, nil
}

// number is arithmetic on integers, booleans and floats.
func number(op string, a, b Value) (Value, error) {
	if a.kind == kindFloat || b.kind == kindFloat || op == "/" {
		return floatArithmetic(op, a.float64(), b.float64())
	}
	m, small1 := a.small()
	n, small2 := b.small()
	if small1 && small2 {
		if v, ok := smallArithmetic(op, m, n); ok {
			return v, nil
		}
	}
	return bigArithmetic(op, a, b)
}

// smallArithmetic computes on int64; false where the result may not fit.
func smallArithmetic(op string, m, n int64) (Value, bool) {
	const half = 1 << 31
	fits := -half < m && m < half && -half < n && n < half
	switch {
	case op == "+" && fits:
		return integer64(m + n), true
	case op == "-" && fits:
		return integer64(m - n), true
	case op == "*" && fits:
		return integer64(m * n), true
	case op == "//" && fits && n != 0:
		return integer64(floorDiv(m, n)), true
	case op == "%" && fits && n != 0:
		return integer64(m - floorDiv(m, n)*n), true
	}
	return Value{}, false
}

func floorDiv(m, n int64) int64 {
	q := m / n
	if m%n != 0 && (m < 0) != (n < 0) {
		q--
	}
	return q
}

var errDivision = errors.New("division by zero")

// maxBits bounds integers to about maxDigits digits.
const maxBits = maxDigits * 10 / 3

func bigArithmetic(op string, a, b Value) (Value, error) {
	m, n, out := a.big(), b.big(), new(big.Int)
	switch op {
	case "+":
		out.Add(m, n)
	case "-":
		out.Sub(m, n)
	case "*":
		out.Mul(m, n)
	case "//", "%":
		if n.Sign() == 0 {
			return Value{}, errDivision
		}
		rest := new(big.Int)
		out.QuoRem(m, n, rest)
		if rest.Sign() != 0 && rest.Sign() != n.Sign() {
			out.Sub(out, big.NewInt(1))
			rest.Add(rest, n)
		}
		if op == "%" {
			out = rest
		}
	case "**":
		return power(m, n)
	}
	return checkBits(out)
}

func checkBits(n *big.Int) (Value, error) {
	if n.BitLen() > maxBits {
		return Value{}, limitError("integer of more than %d digits", maxDigits)
	}
	return bigInteger(n), nil
}

func power(m, n *big.Int) (Value, error) {
	if n.Sign() < 0 {
		a, _ := new(big.Float).SetInt(m).Float64()
		b, _ := new(big.Float).SetInt(n).Float64()
		return floatArithmetic("**", a, b)
	}
	if m.BitLen() <= 1 { // -1, 0 and 1 stay small, whatever the exponent
		return tinyPower(m, n)
	}
	if !n.IsInt64() || n.Int64() > maxBits || int64(m.BitLen()-1)*n.Int64() > maxBits {
		return Value{}, limitError("integer of more than %d digits", maxDigits)
	}
	return checkBits(new(big.Int).Exp(m, n, nil))
}

// tinyPower is m**n for m in -1, 0, 1.
func tinyPower(m, n *big.Int) (Value, error) {
	switch {
	case n.Sign() == 0:
		return integer(1), nil
	case m.Sign() < 0 && n.Bit(0) == 0:
		return integer(1), nil
	}
	return bigInteger(m), nil
}

func floatArithmetic(op string, a, b float64) (Value, error) {
	switch op {
	case "+":
		return float(a + b), nil
	case "-":
		return float(a - b), nil
	case "*":
		return float(a * b), nil
	case "**":
		return floatPower(a, b)
	}
	if b == 0 {
		return Value{}, errDivision
	}
	switch op {
	case "/":
		return float(a / b), nil
	case "//":
		q, _ := floorMod(a, b)
		return float(q), nil
	}
	_, rest := floorMod(a, b)
	return float(rest), nil
}

// floorMod is divmod() of floats: the rest is exact and has the divisor's sign.
func floorMod(a, b float64) (quotient, rest float64) {
	rest = math.Mod(a, b)
	quotient = (a - rest) / b
	if rest == 0 {
		return math.Round(quotient), math.Copysign(0, b)
	}
	if (rest < 0) != (b < 0) {
		rest += b
		quotient--
	}
	return math.Round(quotient), rest
}

func floatPower(a, b float64) (Value, error) {
	switch f := math.Pow(a, b); {
	case a == 0 && b < 0:
		return Value{}, errors.New("0.0 cannot be raised to a negative power")
	case a < 0 && b != math.Trunc(b) && !math.IsInf(b, 0):
		return Value{}, errors.New("complex numbers are not supported")
	case math.IsInf(f, 0) && !math.IsInf(a, 0) && !math.IsInf(b, 0):
		return Value{}, errors.New("numerical result out of range")
	default:
		return float(f), nil
	}
}
