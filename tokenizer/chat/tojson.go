package chat

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// filterToJSON is json.dumps with the arguments that Hugging Face passes on.
func filterToJSON(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("tojson", 0, "ensure_ascii", "indent", "separators", "sort_keys")
	if err != nil {
		return Value{}, err
	}
	e := jsonEncoder{w: newBuilder(x.budget), x: x, ascii: p[0].truth(), sortKeys: p[3].truth()}
	e.item, e.key = literal(", "), literal(": ")
	if isGiven(p[1]) {
		if err := e.setIndent(p[1]); err != nil {
			return Value{}, err
		}
	}
	if isGiven(p[2]) {
		pair, err := valuesOf(x.budget, p[2])
		if err != nil || len(pair) != 2 || !pair[0].isString() || !pair[1].isString() {
			return Value{}, errors.New("separators must be a pair of strings")
		}
		e.item, e.key = pair[0], pair[1]
	}
	e.value(v)
	return e.w.value()
}

// jsonEncoder writes one value. Errors stick in w.
type jsonEncoder struct {
	w         *builder
	x         *exec
	ascii     bool
	sortKeys  bool
	lines     bool  // an indent was given
	indent    Value // of one level
	item, key Value // separators
	level     int
}

func (e *jsonEncoder) setIndent(v Value) error {
	e.lines, e.indent, e.item = true, v, literal(",")
	if v.isString() {
		return nil
	}
	n, err := v.count("indent")
	if err != nil {
		return err
	}
	e.indent, err = repeatText(e.x.budget, literal(" "), max(n, 0))
	return err
}

func (e *jsonEncoder) value(v Value) {
	if e.w.err != nil {
		return
	}
	if err := e.w.b.step(1); err != nil {
		e.w.fail(err)
		return
	}
	switch v.kind {
	case kindNone:
		e.w.write("null", v.client)
	case kindBool:
		e.w.write(strings.ToLower(boolName(v)), v.client)
	case kindInt:
		e.w.integer(v)
	case kindFloat:
		e.w.write(jsonFloat(v.float64()), v.client)
	case kindString:
		e.text(v)
	case kindList, kindTuple:
		e.list(v)
	case kindDict:
		e.dict(v)
	default:
		e.w.fail(fmt.Errorf("object of type %s is not JSON serializable", v.typeName()))
	}
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return formatFloat(f)
}

// nested writes the items of a container between its brackets.
func (e *jsonEncoder) nested(open, end string, n int, client bool, item func(i int)) {
	e.w.write(open, client)
	if n > 0 {
		if err := e.w.b.enter(); err != nil {
			e.w.fail(err)
			return
		}
		e.level++
		for i := 0; i < n && e.w.err == nil; i++ {
			if i > 0 {
				e.separator(e.item, client)
			}
			e.newline(client)
			item(i)
		}
		e.level--
		e.w.b.leave()
		e.newline(client)
	}
	e.w.write(end, client)
}

// separator writes the template's separator, as the client's inside of the
// client's containers.
func (e *jsonEncoder) separator(s Value, client bool) {
	if client {
		e.w.write(s.str, true)
		return
	}
	e.w.writeText(s)
}

func (e *jsonEncoder) newline(client bool) {
	if !e.lines {
		return
	}
	e.w.write("\n", client)
	for range e.level {
		e.separator(e.indent, client)
	}
}

func (e *jsonEncoder) list(v Value) {
	items := v.items()
	e.nested("[", "]", len(items), v.client, func(i int) { e.value(items[i]) })
}

func (e *jsonEncoder) dict(v Value) {
	entries := v.dict().entries
	if e.sortKeys {
		var err error
		if entries, err = e.sorted(entries); err != nil {
			e.w.fail(err)
			return
		}
	}
	e.nested("{", "}", len(entries), v.client, func(i int) {
		e.keyText(entries[i].key)
		e.separator(e.key, v.client)
		e.value(entries[i].value)
	})
}

func (e *jsonEncoder) sorted(entries []entry) ([]entry, error) {
	entries = slices.Clone(entries)
	err := e.x.list(2 * len(entries))
	slices.SortStableFunc(entries, func(a, b entry) int {
		c, failed := orderValues(e.x.budget, "<", a.key, b.key)
		if err == nil {
			err = failed
		}
		return c
	})
	return entries, err
}

// keyText writes a key: text, or a scalar as its JSON in quotes.
func (e *jsonEncoder) keyText(key Value) {
	switch key.kind {
	case kindString:
		e.text(key)
	case kindNone, kindBool, kindInt, kindFloat:
		e.w.write(`"`, key.client)
		e.value(key)
		e.w.write(`"`, key.client)
	default:
		e.w.fail(fmt.Errorf("keys must be str, int, float, bool or None, not %s", key.typeName()))
	}
}

func (e *jsonEncoder) text(v Value) {
	e.w.write(`"`, v.client)
	end := v.client
	for run, client := range v.runs() {
		e.run(run, client)
		end = client
	}
	e.w.write(`"`, end)
}

func (e *jsonEncoder) run(s string, client bool) {
	if err := e.w.b.characters(2 * len(s)); err != nil {
		e.w.fail(err)
		return
	}
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c >= ' ' && c != '"' && c != '\\' && c < 0x7f {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if escape := e.escape(r); escape != "" {
			e.w.write(s[start:i], client)
			e.w.write(escape, client)
			start = i + n
		}
		i += n
	}
	e.w.write(s[start:], client)
}

func (e *jsonEncoder) escape(r rune) string {
	switch r {
	case '"':
		return `\"`
	case '\\':
		return `\\`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	}
	switch {
	case r < ' ':
		return fmt.Sprintf(`\u%04x`, r)
	case !e.ascii || r <= 0x7f:
		return ""
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	hi, lo := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, hi, lo)
}
