package chat

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

func absolute(_ *exec, v Value) (Value, error) {
	switch {
	case v.isUndefined():
		return Value{}, errors.New(v.undefinedMessage())
	case v.kind == kindFloat:
		return float(math.Abs(v.float64())).from(v), nil
	case v.isIntegral():
		return bigInteger(new(big.Int).Abs(v.big())).from(v), nil
	}
	return Value{}, fmt.Errorf("bad operand type for abs(): %s", quoted(v.typeName()))
}

func filterInt(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("int", 0, "default", "base")
	if err != nil {
		return Value{}, err
	}
	if v.isUndefined() {
		return Value{}, errors.New(v.undefinedMessage())
	}
	base, err := p[1].or(integer(10)).count("base")
	if err != nil {
		return Value{}, err
	}
	switch {
	case v.isIntegral():
		return bigInteger(v.big()).from(v), nil
	case v.kind == kindFloat:
		if math.IsInf(v.float64(), 0) {
			return Value{}, errors.New("cannot convert float infinity to integer")
		}
		if n, ok := truncated(v.float64()); ok {
			return n.from(v), nil
		}
	case v.isString():
		if err := x.number(v.str); err != nil {
			return Value{}, err
		}
		if n, ok := parseInteger(v.str, base); ok {
			return n.from(v), nil
		}
		if f, ok := parseFloat(v.str); ok {
			if n, ok := truncated(f); ok {
				return n.from(v), nil
			}
		}
	}
	return p[0].or(integer(0)), nil
}

func truncated(f float64) (Value, bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}, false
	}
	n, _ := big.NewFloat(f).Int(nil)
	return bigInteger(n), true
}

// parseInteger is int(text, base).
func parseInteger(s string, base int) (Value, bool) {
	s = strings.TrimFunc(s, isSpace)
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || len(s) > maxDigits || base < 0 || base == 1 || base > 36 {
		return Value{}, false
	}
	if prefix := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]; prefix != "" &&
		strings.HasPrefix(strings.ToLower(digits), prefix) {
		digits = strings.TrimPrefix(digits[2:], "_")
	}
	digits, ok := withoutUnderscores(digits)
	if !ok {
		return Value{}, false
	}
	n, ok := new(big.Int).SetString(digits, base)
	if !ok {
		return Value{}, false
	}
	if strings.HasPrefix(s, "-") {
		n.Neg(n)
	}
	return bigInteger(n), true
}

// number pays for reading s as a number.
func (b *budget) number(s string) error {
	n := min(len(s), maxDigits)
	if err := b.step(n * n / (1 << 14)); err != nil {
		return err
	}
	return b.characters(2 * len(s))
}

// withoutUnderscores drops single underscores between digits.
func withoutUnderscores(s string) (string, bool) {
	if s == "" || s[0] == '_' || s[0] == '+' || s[0] == '-' || s[len(s)-1] == '_' || strings.Contains(s, "__") {
		return "", false
	}
	return strings.ReplaceAll(s, "_", ""), true
}

// parseFloat is float(text).
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	for i := range len(s) {
		if s[i] == '_' && (i == 0 || i == len(s)-1 || !isDigit(s[i-1]) || !isDigit(s[i+1])) {
			return 0, false
		}
	}
	s = strings.ReplaceAll(s, "_", "")
	if strings.ContainsAny(s, "xXpP") {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

func filterFloat(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("float", 0, "default")
	if err != nil {
		return Value{}, err
	}
	switch {
	case v.isUndefined():
		return Value{}, errors.New(v.undefinedMessage())
	case v.isNumber():
		return float(v.float64()).from(v), nil
	case v.isString():
		if err := x.number(v.str); err != nil {
			return Value{}, err
		}
		if f, ok := parseFloat(v.str); ok {
			return float(f).from(v), nil
		}
	}
	return p[0].or(float(0)), nil
}

func filterRound(_ *exec, v Value, a args) (Value, error) {
	p, err := a.bind("round", 0, "precision", "method")
	if err != nil {
		return Value{}, err
	}
	precision, err := p[0].or(integer(0)).count("precision")
	if err != nil {
		return Value{}, err
	}
	precision = min(max(precision, -400), 400)
	switch method := p[1].or(literal("common")); {
	case v.isUndefined():
		return Value{}, errors.New(v.undefinedMessage())
	case !v.isNumber():
		return Value{}, fmt.Errorf("type %s doesn't define rounding", v.typeName())
	case method.str == "common" && v.isIntegral():
		return roundInteger(v, precision), nil
	case method.str == "common":
		return float(roundFloat(v.float64(), precision)).from(v), nil
	case method.str == "ceil" || method.str == "floor":
		return roundTowards(v, precision, method.str == "ceil"), nil
	}
	return Value{}, errors.New("method must be common, ceil or floor")
}

// roundFloat rounds the exact decimal value, halves to even.
func roundFloat(f float64, precision int) float64 {
	if precision >= 0 {
		r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
		return r
	}
	scale := math.Pow(10, float64(-precision))
	if math.IsInf(scale, 0) {
		return 0
	}
	return math.RoundToEven(f/scale) * scale
}

func roundInteger(v Value, precision int) Value {
	if precision >= 0 {
		return bigInteger(v.big()).from(v)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-precision)), nil)
	q, rest := new(big.Int).DivMod(v.big(), scale, new(big.Int))
	if c := rest.Lsh(rest, 1).Cmp(scale); c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	return bigInteger(q.Mul(q, scale)).from(v)
}

func roundTowards(v Value, precision int, up bool) Value {
	scale := math.Pow(10, float64(precision))
	f := v.float64() * scale
	if f = math.Floor(f); up {
		f = math.Ceil(v.float64() * scale)
	}
	return float(f / scale).from(v)
}

func floatIsInteger(_ *exec, v Value, _ args) (Value, error) {
	f := v.float64()
	return boolean(f == math.Trunc(f) && !math.IsInf(f, 0)), nil
}
