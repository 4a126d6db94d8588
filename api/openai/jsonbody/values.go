package jsonbody

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"weir/api"
)

// Interval is what a number may be.
type Interval struct {
	Low, High float64
	OpenLow   bool // low itself is refused
}

func (iv Interval) contains(v float64) bool {
	return v <= iv.High && (v > iv.Low || v == iv.Low && !iv.OpenLow)
}

func (iv Interval) String() string {
	if iv.OpenLow {
		return fmt.Sprintf("above %g and at most %g", iv.Low, iv.High)
	}
	return fmt.Sprintf("between %g and %g", iv.Low, iv.High)
}

// String reads a value that must be a string. path names it in errors.
func String(path string, raw []byte) (string, *api.Error) {
	var s string
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", WrongType(path, "a string", raw)
	}
	return s, nil
}

// Integer reads a value that must be a whole number in [low, high], in any spelling of JSON (4.0, 1e2).
func Integer(path string, raw []byte, low, high int64) (int64, *api.Error) {
	if !IsNumber(raw) {
		return 0, WrongType(path, "an integer", raw)
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil { // not the plain spelling, or too large
		digits, whole := wholeNumber(string(raw))
		if !whole {
			return 0, WrongType(path, "an integer", raw)
		}
		n, err = strconv.ParseInt(digits, 10, 64)
	}
	if err != nil || n < low || n > high {
		return 0, outOfRange(path, raw, fmt.Sprintf("between %d and %d", low, high))
	}
	return n, nil
}

const maxIntegerDigits = 20 // more than an int64 has

// wholeNumber writes a JSON number such as 4.0 or 1e2 as an integer; false
// where it is a fraction. An integer too large for an int64 comes back as one
// that is too large too.
func wholeNumber(text string) (digits string, whole bool) {
	mantissa, power := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		power, _ = strconv.Atoi(text[i+1:]) // out of range: the nearest int, which serves as well
		power = max(-maxJSONNumber, min(maxJSONNumber, power))
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	before, after, _ := strings.Cut(mantissa, ".")
	digits = strings.TrimLeft(before+after, "0")
	if digits == "" {
		return "0", true
	}
	zeros := power - len(after) // to append; to cut where it is negative
	if zeros < 0 {
		if rest := len(digits) + zeros; rest <= 0 || strings.Trim(digits[rest:], "0") != "" {
			return "", false
		}
		digits, zeros = digits[:len(digits)+zeros], 0
	}
	digits += strings.Repeat("0", min(zeros, maxIntegerDigits))
	if negative {
		digits = "-" + digits
	}
	return digits, true
}

// Number reads a value that must be a number of an interval.
func Number(path string, raw []byte, iv Interval) (float64, *api.Error) {
	if !IsNumber(raw) {
		return 0, WrongType(path, "a number", raw)
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(v, 0) || !iv.contains(v) {
		return 0, outOfRange(path, raw, iv.String())
	}
	return v, nil
}

// IsNumber reports whether a valid value is a number.
func IsNumber(raw []byte) bool { return raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' }

// IsNull reports whether a value is null.
func IsNull(raw []byte) bool { return string(raw) == "null" }
