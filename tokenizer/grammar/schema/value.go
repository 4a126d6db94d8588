package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	array
	object
)

// maxExponent bounds the exponent of a number in a schema, so that its exact value stays small.
const maxExponent = 400

// value is a JSON value with the order of its members kept and its numbers exact. A schema is a value, too.
type value struct {
	kind   kind
	truth  bool     // of a boolean
	text   string   // of a text: the decoded one; of a number: as it was written
	amount *big.Rat // of a number
	keys   []string // of an object
	items  []*value // elements of an array, values of an object's keys
	index  map[string]int

	// id numbers the values in the order of their beginnings; sets of schemas are sorted by it.
	id     int
	parent *value
	name   string // the last step of the value's JSON pointer
}

// get is the value of an object's key, nil where there is none.
func (v *value) get(key string) *value {
	if v.kind != object {
		return nil
	}
	if i, ok := v.index[key]; ok {
		return v.items[i]
	}
	return nil
}

// before reports whether an object has a key in front of another one, or has it alone.
func (v *value) before(key, other string) bool {
	i, ok := v.index[key]
	j, there := v.index[other]
	return ok && (!there || i < j)
}

// What RFC 6901 writes for the two characters that mean something in a pointer, and the other way.
var (
	pointerEscaper   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// pointer is where the value stands, as an RFC 6901 pointer; the document is "".
func (v *value) pointer() string {
	var steps []string
	for ; v.parent != nil; v = v.parent {
		steps = append(steps, v.name)
	}
	var b strings.Builder
	for _, step := range slices.Backward(steps) {
		b.WriteByte('/')
		b.WriteString(pointerEscaper.Replace(step))
	}
	return b.String()
}

// decoder reads one document and counts what it has read.
type decoder struct {
	tokens *json.Decoder
	limits Limits
	next   int
}

// decode reads a schema and, where there are some, the documents given with it: an object of them by address.
func decode(schema, given []byte, limits Limits) (root, documents *value, err error) {
	if n := len(schema) + len(given); n > limits.Bytes {
		return nil, nil, &Error{Reason: fmt.Sprintf("the schema has %d bytes, more than the limit of %d; shorten it", n, limits.Bytes)}
	}
	d := &decoder{limits: limits}
	if root, err = d.document(schema); err != nil || given == nil {
		return root, nil, err
	}
	if documents, err = d.document(given); err != nil {
		return nil, nil, err
	}
	if documents.kind != object {
		return nil, nil, &Error{Reason: "the documents of the schema are no object of schemas by address"}
	}
	return root, documents, nil
}

// document reads one JSON document of valid UTF-8.
func (d *decoder) document(data []byte) (*value, error) {
	if !utf8.Valid(data) {
		return nil, &Error{Reason: "the schema is not valid UTF-8"}
	}
	d.tokens = json.NewDecoder(bytes.NewReader(data))
	d.tokens.UseNumber()
	v, err := d.value(nil, "", 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.tokens.Token(); !errors.Is(err, io.EOF) {
		return nil, &Error{Reason: "the schema has text after its end; give one JSON document"}
	}
	return v, nil
}

func (d *decoder) token() (json.Token, error) {
	t, err := d.tokens.Token()
	if err != nil {
		return nil, &Error{Reason: fmt.Sprintf("the schema is not JSON: %v at byte %d", err, d.tokens.InputOffset())}
	}
	return t, nil
}

func (d *decoder) value(parent *value, name string, depth int) (*value, error) {
	t, err := d.token()
	if err != nil {
		return nil, err
	}
	v := &value{id: d.next, parent: parent, name: name}
	d.next++
	switch t := t.(type) {
	case nil:
		v.kind = null
	case bool:
		v.kind, v.truth = boolean, t
	case string:
		v.kind, v.text = text, t
	case json.Number:
		v.kind, v.text = number, t.String()
		v.amount, err = amount(v)
	case json.Delim:
		if depth >= d.limits.Depth {
			reason := fmt.Sprintf("values are nested deeper than the limit of %d; move inner schemas to $defs", d.limits.Depth)
			return nil, &Error{Pointer: v.pointer(), Reason: reason}
		}
		if t == '[' {
			v.kind = array
			err = d.elements(v, depth)
		} else {
			v.kind = object
			err = d.members(v, depth)
		}
	}
	return v, err
}

func (d *decoder) elements(v *value, depth int) error {
	for d.tokens.More() {
		item, err := d.value(v, strconv.Itoa(len(v.items)), depth+1)
		if err != nil {
			return err
		}
		v.items = append(v.items, item)
	}
	_, err := d.token()
	return err
}

func (d *decoder) members(v *value, depth int) error {
	v.index = map[string]int{}
	for d.tokens.More() {
		t, err := d.token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		if _, twice := v.index[key]; twice {
			return &Error{Pointer: v.pointer(), Reason: fmt.Sprintf("the key %.80q stands twice; which one is meant?", key)}
		}
		item, err := d.value(v, key, depth+1)
		if err != nil {
			return err
		}
		v.index[key] = len(v.items)
		v.keys = append(v.keys, key)
		v.items = append(v.items, item)
	}
	_, err := d.token()
	return err
}

// amount is a number's exact value.
func amount(v *value) (*big.Rat, error) {
	digits, exponent := v.text, 0
	if i := strings.IndexAny(v.text, "eE"); i >= 0 {
		digits = v.text[:i]
		n, err := strconv.Atoi(v.text[i+1:])
		if err != nil {
			n = maxExponent + 1
		}
		exponent = max(n, -n)
	}
	if exponent > maxExponent || len(digits) > maxExponent {
		reason := fmt.Sprintf("the number %.40s is too long; at most %d digits and exponents up to %d", v.text, maxExponent, maxExponent)
		return nil, &Error{Pointer: v.pointer(), Reason: reason}
	}
	r, ok := new(big.Rat).SetString(v.text)
	if !ok {
		return nil, &Error{Pointer: v.pointer(), Reason: fmt.Sprintf("%.40s is no number", v.text)}
	}
	return r, nil
}

// same reports whether two values are equal as JSON Schema means it: numbers by value, objects without order.
func same(a, b *value) bool {
	if a.kind != b.kind || len(a.items) != len(b.items) {
		return false
	}
	switch a.kind {
	case boolean:
		return a.truth == b.truth
	case text:
		return a.text == b.text
	case number:
		return a.amount.Cmp(b.amount) == 0
	case array:
		for i := range a.items {
			if !same(a.items[i], b.items[i]) {
				return false
			}
		}
	case object:
		for i, key := range a.keys {
			other := b.get(key)
			if other == nil || !same(a.items[i], other) {
				return false
			}
		}
	case null:
	}
	return true
}

// canonical appends the shortest usual text of a value: no blanks, keys in their order, numbers as written, only the escapes that must be.
func canonical(dst []byte, v *value) []byte {
	switch v.kind {
	case null:
		return append(dst, "null"...)
	case boolean:
		return strconv.AppendBool(dst, v.truth)
	case number:
		return append(dst, numeral(v)...)
	case text:
		return quote(dst, v.text)
	case array:
		dst = append(dst, '[')
		for i, item := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = canonical(dst, item)
		}
		return append(dst, ']')
	default:
		dst = append(dst, '{')
		for i, item := range v.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(quote(dst, v.keys[i]), ':')
			dst = canonical(dst, item)
		}
		return append(dst, '}')
	}
}

// numeral is a number's text: digits alone where the value is a whole number of usual size, else as it was written.
func numeral(v *value) string {
	if v.amount.IsInt() && v.amount.Num().BitLen() <= 64 {
		return v.amount.Num().String()
	}
	return v.text
}

// fingerprint appends a text that equal values share.
func fingerprint(dst []byte, v *value) []byte {
	if v.kind == number {
		return append(dst, v.amount.RatString()...)
	}
	return canonical(dst, v)
}

const hexDigits = "0123456789abcdef"

// quote appends a text as JSON in the one spelling that we give keys, patterns and constants: every character as it is, except for those that
// RFC 8259 wants escaped, and those in their short form where they have one.
func quote(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		dst = append(dst, escape(s[i])...)
	}
	return append(dst, '"')
}

// escape is the spelling of one byte of a text inside quotes.
func escape(c byte) string {
	switch c {
	case '"':
		return `\"`
	case '\\':
		return `\\`
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	if c < 0x20 {
		return string([]byte{'\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15]})
	}
	return string([]byte{c})
}
