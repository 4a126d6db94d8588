package chat

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxJSONDepth bounds the nesting of client data.
const maxJSONDepth = 128

// FromJSON reads one JSON value as client data: objects keep their key order
// (of equal keys the last value counts), integers stay integers of any size,
// every string, keys too, is client text. Invalid UTF-8 and lone surrogates
// become U+FFFD. The value does not refer to data afterwards.
func FromJSON(data []byte) (Value, error) { return fromJSON(data, true) }

// With is an object with a field more, or with another value of one. A field with the zero Value is none, and changes nothing.
func (v Value) With(name string, field Value) Value {
	if v.kind != kindDict || field.kind == kindAbsent {
		return v
	}
	d := v.dict().clone()
	d.putText(name, field)
	v.ref = d
	return v
}

func fromJSON(data []byte, client bool) (Value, error) {
	if !json.Valid(data) {
		var raw json.RawMessage
		return Value{}, fmt.Errorf("parse chat JSON: %w", json.Unmarshal(data, &raw))
	}
	d := jsonDecoder{s: string(data), client: client}
	v, err := d.value(0)
	if err != nil {
		return Value{}, fmt.Errorf("parse chat JSON: %w", err)
	}
	return v, nil
}

// jsonDecoder walks text that json.Valid has accepted, so it checks no syntax.
type jsonDecoder struct {
	s      string
	pos    int
	client bool
}

func (d *jsonDecoder) value(depth int) (Value, error) {
	if depth > maxJSONDepth {
		return Value{}, fmt.Errorf("nesting deeper than %d levels", maxJSONDepth)
	}
	switch d.peek() {
	case '{':
		return d.object(depth)
	case '[':
		return d.array(depth)
	case '"':
		return Value{kind: kindString, str: d.text(), client: d.client}, nil
	case 't':
		d.pos += len("true")
		return Value{kind: kindBool, num: 1, client: d.client}, nil
	case 'f':
		d.pos += len("false")
		return Value{kind: kindBool, client: d.client}, nil
	case 'n':
		d.pos += len("null")
		return Value{kind: kindNone, client: d.client}, nil
	}
	return d.number()
}

// peek skips white space and gives the next byte.
func (d *jsonDecoder) peek() byte {
	for d.pos < len(d.s) {
		switch c := d.s[d.pos]; c {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return c
		}
	}
	return 0
}

func (d *jsonDecoder) object(depth int) (Value, error) {
	out := &dict{}
	d.pos++
	for d.peek() != '}' {
		key := Value{kind: kindString, str: d.text(), client: d.client}
		d.peek() // the colon
		d.pos++
		v, err := d.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		if err := out.put(key, v); err != nil {
			return Value{}, err
		}
		if d.peek() == ',' {
			d.pos++
			d.peek()
		}
	}
	d.pos++
	return Value{kind: kindDict, ref: out, client: d.client}, nil
}

func (d *jsonDecoder) array(depth int) (Value, error) {
	out := &list{}
	d.pos++
	for d.peek() != ']' {
		v, err := d.value(depth + 1)
		if err != nil {
			return Value{}, err
		}
		out.items = append(out.items, v)
		if d.peek() == ',' {
			d.pos++
		}
	}
	d.pos++
	return Value{kind: kindList, ref: out, client: d.client}, nil
}

func (d *jsonDecoder) number() (Value, error) {
	start := d.pos
	for d.pos < len(d.s) && strings.IndexByte("+-.eE0123456789", d.s[d.pos]) >= 0 {
		d.pos++
	}
	v, err := parseNumber(d.s[start:d.pos])
	v.client = d.client
	return v, err
}

// maxDigits bounds integers, as Python bounds their conversion to text.
const maxDigits = 4300

func parseNumber(s string) (Value, error) {
	if strings.ContainsAny(s, ".eE") {
		f, _ := strconv.ParseFloat(s, 64) // out of range gives an infinity, as in Python
		return float(f), nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return integer64(n), nil
	}
	if len(s) > maxDigits {
		return Value{}, fmt.Errorf("integer of more than %d digits", maxDigits)
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return Value{}, fmt.Errorf("invalid number %q", s)
	}
	return bigInteger(n), nil
}

// text reads a string. Those without escapes share the input's memory.
func (d *jsonDecoder) text() string {
	d.pos++
	start := d.pos
	for d.s[d.pos] != '"' && d.s[d.pos] != '\\' {
		d.pos++
	}
	if d.s[d.pos] == '"' {
		d.pos++
		return strings.ToValidUTF8(d.s[start:d.pos-1], "\uFFFD")
	}
	buf := []byte(d.s[start:d.pos])
	for d.s[d.pos] != '"' {
		if d.s[d.pos] == '\\' {
			buf = d.appendEscape(buf)
			continue
		}
		buf = append(buf, d.s[d.pos])
		d.pos++
	}
	d.pos++
	return strings.ToValidUTF8(string(buf), "\uFFFD")
}

func (d *jsonDecoder) appendEscape(buf []byte) []byte {
	c := d.s[d.pos+1]
	d.pos += 2
	switch c {
	case 'n':
		return append(buf, '\n')
	case 't':
		return append(buf, '\t')
	case 'r':
		return append(buf, '\r')
	case 'b':
		return append(buf, '\b')
	case 'f':
		return append(buf, '\f')
	case 'u':
		return utf8.AppendRune(buf, d.escapedRune())
	}
	return append(buf, c)
}

// escapedRune reads the digits after \u, and a second escape that completes a
// surrogate pair.
func (d *jsonDecoder) escapedRune() rune {
	r := d.hex4()
	if utf16.IsSurrogate(r) && strings.HasPrefix(d.s[d.pos:], `\u`) {
		rest := d.pos
		d.pos += 2
		if pair := utf16.DecodeRune(r, d.hex4()); pair != utf8.RuneError {
			return pair
		}
		d.pos = rest
	}
	return r // AppendRune writes U+FFFD for a lone surrogate
}

func (d *jsonDecoder) hex4() rune {
	n, _ := strconv.ParseUint(d.s[d.pos:d.pos+4], 16, 32)
	d.pos += 4
	return rune(n)
}
