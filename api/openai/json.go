package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/api"
	"weir/internal/jsonfault"
	"weir/router/chunk"
)

const (
	maxDepth      = 64      // nesting of a request body
	maxFields     = 256     // of one object
	maxNameBytes  = 128     // of a field's name
	maxQuoteBytes = 48      // of a client's value inside an error message
	maxBiases     = 1024    // entries of logit_bias
	maxJSONNumber = 1 << 30 // digits of a number, more than any body has
)

// A request body is checked once as a whole (UTF-8, depth, syntax). After
// that its values are split by the small scanner below, which may rely on
// valid JSON, and each field is read exactly once: what nobody reads is an
// unknown field (object.finish), and a name that comes twice is an error.

// object is a JSON object taken apart. Raw values alias the body.
type object struct {
	path   string // "" for the body itself, "messages[2]" for a part
	fields []field
	notes  *notes // of the whole request
}

type field struct {
	name  string
	raw   json.RawMessage
	taken bool
}

// parseBody checks a whole body and takes its object apart. A strict server
// refuses fields that others ignore.
func parseBody(body []byte, strict bool) (*object, *api.Error) {
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // editors on Windows write a byte order mark
	switch {
	case len(body) == 0:
		return nil, badRequest("invalid_json", "", "the request body is empty; send a JSON object")
	case !utf8.Valid(body):
		return nil, badRequest("invalid_json", "", "the request body is not valid UTF-8")
	case tooDeep(body):
		return nil, badRequest("invalid_json", "", "the request body nests deeper than %d levels", maxDepth)
	}
	if !chunk.IsJSON(body) {
		var probe json.RawMessage
		if err := json.Unmarshal(body, &probe); err != nil {
			return nil, badRequest("invalid_json", "", "the request body is not valid JSON: %v", jsonfault.Describe(err, body))
		}
	}
	return (&object{notes: &notes{strict: strict}}).parse("", body, maxFields)
}

// parse takes apart an object inside of o.
func (o *object) parse(path string, raw []byte, limit int) (*object, *api.Error) {
	inner, err := parseObject(path, raw, limit)
	if err != nil {
		return nil, err
	}
	inner.notes = o.notes
	return inner, nil
}

// tooDeep counts brackets outside of strings.
func tooDeep(body []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// parseObject takes valid JSON apart, which must be an object.
func parseObject(path string, raw []byte, limit int) (*object, *api.Error) {
	i := skipSpace(raw, 0)
	if raw[i] != '{' {
		return nil, wrongType(path, "an object", raw)
	}
	o := &object{path: path}
	seen := make(map[string]struct{})
	for i = skipSpace(raw, i+1); raw[i] != '}'; {
		end := skipString(raw, i)
		name := string(raw[i+1 : end-1])
		if strings.IndexByte(name, '\\') >= 0 {
			if err := json.Unmarshal(raw[i:end], &name); err != nil {
				return nil, badRequest("invalid_json", path, "field name %s: %v", quote(raw[i:end]), err)
			}
		}
		start := skipSpace(raw, skipSpace(raw, end)+1) // over the colon
		end = skipValue(raw, start)
		if _, dup := seen[name]; dup {
			return nil, badRequest("duplicate_parameter", join(path, name), "%q is given twice; which one counts is not defined", join(path, name))
		}
		if seen[name] = struct{}{}; len(seen) > limit {
			return nil, badRequest("invalid_value", path, "%s has more than %d fields", orBody(path), limit)
		}
		o.fields = append(o.fields, field{name: name, raw: raw[start:end]})
		i = skipComma(raw, end)
	}
	return o, nil
}

// parseArray splits valid JSON, which must be an array of at most limit
// values.
func parseArray(path string, raw []byte, limit int) ([]json.RawMessage, *api.Error) {
	i := skipSpace(raw, 0)
	if raw[i] != '[' {
		return nil, wrongType(path, "an array", raw)
	}
	var list []json.RawMessage
	for i = skipSpace(raw, i+1); raw[i] != ']'; {
		end := skipValue(raw, i)
		if len(list) == limit {
			return nil, badRequest("invalid_value", path, "%s has more than %d values", orBody(path), limit)
		}
		list = append(list, raw[i:end])
		i = skipComma(raw, end)
	}
	return list, nil
}

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// skipComma goes to the next value, or to the closing bracket.
func skipComma(raw []byte, i int) int {
	if i = skipSpace(raw, i); raw[i] == ',' {
		i = skipSpace(raw, i+1)
	}
	return i
}

func skipString(raw []byte, i int) int {
	for i++; raw[i] != '"'; i++ {
		if raw[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue returns the end of the value that starts at i.
func skipValue(raw []byte, i int) int {
	depth := 0
	for i < len(raw) {
		switch raw[i] {
		case '"':
			i = skipString(raw, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // end of the container around a bare number or word
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// take returns a field's value; a null one counts as not given.
func (o *object) take(name string) (json.RawMessage, bool) {
	for i := range o.fields {
		f := &o.fields[i]
		if f.name == name {
			f.taken = true
			return f.raw, !isNull(f.raw)
		}
	}
	return nil, false
}

// rest returns the first field that nobody took.
func (o *object) rest() (field, bool) {
	for i := range o.fields {
		if f := &o.fields[i]; !f.taken {
			f.taken = true
			return *f, true
		}
	}
	return field{}, false
}

// add appends a field that the object does not have yet.
func (o *object) add(name string, raw json.RawMessage) {
	if !slices.ContainsFunc(o.fields, func(f field) bool { return f.name == name }) {
		o.fields = append(o.fields, field{name: name, raw: raw})
	}
}

// appendJSON writes the object's fields in their order.
func (o *object) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for _, f := range o.fields {
		dst = appendField(dst, f.name, f.raw)
	}
	return append(dst, '}')
}

// Typed readers. ok is false when the field is absent or null, or when its
// value is refused; the first refusal is kept in *fault and later ones are
// dropped, so that a caller may read all fields and look once.

func (o *object) boolean(name string, fault **api.Error) (v, ok bool) {
	raw, ok := o.take(name)
	if !ok {
		return false, false
	}
	switch string(raw) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	keep(fault, wrongType(join(o.path, name), "true or false", raw))
	return false, false
}

func (o *object) flag(name string, otherwise bool, fault **api.Error) bool {
	if v, ok := o.boolean(name, fault); ok {
		return v
	}
	return otherwise
}

func (o *object) text(name string, fault **api.Error) (string, bool) {
	raw, ok := o.take(name)
	if !ok {
		return "", false
	}
	s, err := parseString(join(o.path, name), raw)
	keep(fault, err)
	return s, err == nil
}

// integer reads an integer in [low, high].
func (o *object) integer(name string, low, high int64, fault **api.Error) (int64, bool) {
	raw, ok := o.take(name)
	if !ok {
		return 0, false
	}
	n, err := parseInteger(join(o.path, name), raw, low, high)
	keep(fault, err)
	return n, err == nil
}

func (o *object) count(name string, low, high, otherwise int, fault **api.Error) int {
	if n, ok := o.integer(name, int64(low), int64(high), fault); ok {
		return int(n)
	}
	return otherwise
}

// interval is what a number may be.
type interval struct {
	low, high float64
	openLow   bool // low itself is refused
}

func (iv interval) contains(v float64) bool {
	return v <= iv.high && (v > iv.low || v == iv.low && !iv.openLow)
}

func (iv interval) String() string {
	if iv.openLow {
		return fmt.Sprintf("above %g and at most %g", iv.low, iv.high)
	}
	return fmt.Sprintf("between %g and %g", iv.low, iv.high)
}

func (o *object) number(name string, iv interval, otherwise float32, fault **api.Error) float32 {
	raw, ok := o.take(name)
	if !ok {
		return otherwise
	}
	v, err := parseNumber(join(o.path, name), raw, iv)
	keep(fault, err)
	return float32(v)
}

func parseString(path string, raw []byte) (string, *api.Error) {
	var s string
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", wrongType(path, "a string", raw)
	}
	return s, nil
}

func parseInteger(path string, raw []byte, low, high int64) (int64, *api.Error) {
	if !isNumber(raw) {
		return 0, wrongType(path, "an integer", raw)
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil { // not the plain spelling, or too large
		digits, whole := wholeNumber(string(raw))
		if !whole {
			return 0, wrongType(path, "an integer", raw)
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

func parseNumber(path string, raw []byte, iv interval) (float64, *api.Error) {
	if !isNumber(raw) {
		return 0, wrongType(path, "a number", raw)
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(v, 0) || !iv.contains(v) {
		return 0, outOfRange(path, raw, iv.String())
	}
	return v, nil
}

func isNumber(raw []byte) bool { return raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' }

func isNull(raw []byte) bool { return string(raw) == "null" }

func keep(fault **api.Error, err *api.Error) {
	if *fault == nil && err != nil {
		*fault = err
	}
}

// join names a field inside a path.
func join(path, name string) string {
	if len(name) > maxNameBytes {
		name = name[:maxNameBytes] + "…"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func orBody(path string) string {
	if path == "" {
		return "the request body"
	}
	return path
}

// quote shortens a client's value for an error message.
func quote(raw []byte) string {
	if len(raw) <= maxQuoteBytes {
		return string(raw)
	}
	cut := maxQuoteBytes
	for cut > 0 && !utf8.RuneStart(raw[cut]) {
		cut--
	}
	return string(raw[:cut]) + "…"
}
