package chat

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// filters are Jinja's, with the signatures of its documentation; tojson is
// Hugging Face's.
func filters() map[string]filter {
	return map[string]filter{
		"abs":         plain("abs", absolute),
		"attr":        filterAttr,
		"batch":       filterBatch,
		"capitalize":  onText("capitalize", capitalize),
		"center":      filterCenter,
		"count":       plain("count", filterLength),
		"d":           filterDefault,
		"default":     filterDefault,
		"dictsort":    filterDictSort,
		"e":           plain("escape", filterEscape),
		"escape":      plain("escape", filterEscape),
		"first":       plain("first", filterFirst),
		"float":       filterFloat,
		"forceescape": plain("forceescape", filterForceEscape),
		"format":      filterFormat,
		"groupby":     filterGroupBy,
		"indent":      filterIndent,
		"int":         filterInt,
		"items":       plain("items", filterItems),
		"join":        filterJoin,
		"last":        plain("last", filterLast),
		"length":      plain("length", filterLength),
		"list":        plain("list", filterList),
		"lower":       onText("lower", toLower),
		"map":         filterMap,
		"max":         filterExtreme("max", ">"),
		"min":         filterExtreme("min", "<"),
		"reject":      filterSelect(false, false),
		"rejectattr":  filterSelect(false, true),
		"replace":     filterReplace,
		"reverse":     plain("reverse", filterReverse),
		"round":       filterRound,
		"safe":        plain("safe", filterSafe),
		"select":      filterSelect(true, false),
		"selectattr":  filterSelect(true, true),
		"slice":       filterSlice,
		"sort":        filterSort,
		"string":      onText("string", func(_ *exec, v Value) (Value, error) { return v, nil }),
		"sum":         filterSum,
		"title":       onText("title", titleWords),
		"tojson":      filterToJSON,
		"trim":        filterTrim,
		"truncate":    filterTruncate,
		"unique":      filterUnique,
		"upper":       onText("upper", toUpper),
		"urlencode":   plain("urlencode", filterURLEncode),
		"wordcount":   onText("wordcount", wordCount),
	}
}

// onText makes a filter of a function on strings; other values become text
// first.
func onText(name string, f func(x *exec, v Value) (Value, error)) filter {
	return plain(name, func(x *exec, v Value) (Value, error) {
		s, err := x.softStr(v)
		if err != nil {
			return Value{}, err
		}
		return f(x, s)
	})
}

func filterDefault(_ *exec, v Value, a args) (Value, error) {
	p, err := a.bind("default", 0, "default_value", "boolean")
	if err != nil {
		return Value{}, err
	}
	if v.isUndefined() || p[1].truth() && !v.truth() {
		return p[0].or(literal("")), nil
	}
	return v, nil
}

func filterLength(_ *exec, v Value) (Value, error) {
	n, ok := v.length()
	if !ok {
		return Value{}, fmt.Errorf("object of type %s has no len()", quoted(v.typeName()))
	}
	return integer(n), nil
}

func filterAttr(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("attr", 1, "name")
	if err != nil {
		return Value{}, err
	}
	name, err := p[0].text("attribute name")
	if err != nil {
		return Value{}, err
	}
	if err := x.scan(4 * len(name.str)); err != nil { // an error message may quote the name
		return Value{}, err
	}
	own, ok, err := x.own(v, name.str)
	if err != nil || ok {
		return own, err
	}
	return undefinedAttribute(v, name.str), nil
}

func filterTrim(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("trim", 0, "chars")
	if err != nil {
		return Value{}, err
	}
	if v, err = x.softStr(v); err != nil {
		return Value{}, err
	}
	return trimSet(x.budget, v, p[0], true, true)
}

func filterReplace(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("replace", 2, "old", "new", "count")
	if err != nil {
		return Value{}, err
	}
	limit := -1
	if isGiven(p[2]) {
		if limit, err = p[2].count("count"); err != nil {
			return Value{}, err
		}
	}
	var text [3]Value
	for i, part := range []Value{v, p[0], p[1]} {
		if text[i], err = x.str(part); err != nil {
			return Value{}, err
		}
	}
	return replaceText(x.budget, text[0], text[1], text[2], limit)
}

func filterSafe(x *exec, v Value) (Value, error) {
	s, err := x.str(v)
	s.safe = true
	return s, err
}

func filterEscape(x *exec, v Value) (Value, error) {
	if v.safe && v.isString() {
		return v, nil
	}
	return filterForceEscape(x, v)
}

func filterForceEscape(x *exec, v Value) (Value, error) {
	s, err := x.str(v)
	if err != nil {
		return Value{}, err
	}
	w := newBuilder(x.budget)
	w.safe = true
	w.escape(s)
	return w.value()
}

var htmlEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

// escape appends text with HTML's special characters replaced.
func (w *builder) escape(v Value) {
	if err := w.b.characters(len(v.str)); err != nil {
		w.fail(err)
		return
	}
	for run, client := range v.runs() {
		w.write(htmlEscaper.Replace(run), client)
	}
}

func filterIndent(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("indent", 0, "width", "first", "blank")
	if err != nil {
		return Value{}, err
	}
	if !v.isString() {
		return Value{}, fmt.Errorf("indent requires str, not %s", v.typeName())
	}
	indentation := p[0].or(integer(4))
	if !indentation.isString() {
		n, err := indentation.count("width")
		if err != nil {
			return Value{}, err
		}
		if indentation, err = repeatText(x.budget, literal(" "), max(n, 0)); err != nil {
			return Value{}, err
		}
	}
	w := newBuilder(x.budget)
	w.safe = v.safe
	if p[1].truth() {
		w.writeText(indentation)
	}
	w.indent(v, indentation, p[2].truth())
	return w.value()
}

// indent writes the lines of v, all but the first with an indentation; blank
// lines get one only where blank is set.
func (w *builder) indent(v, indentation Value, blank bool) {
	if err := w.b.characters(2 * len(v.str)); err != nil { // the end of each line is looked for twice
		w.fail(err)
		return
	}
	for from := 0; ; {
		end, next := lineEnd(v.str, from)
		w.writeText(v.slice(from, end))
		if end == len(v.str) || w.err != nil {
			return
		}
		w.write("\n", v.clientAt(end))
		from = next
		lineStop, _ := lineEnd(v.str, from)
		if blank || lineStop > from {
			w.writeText(indentation)
		}
	}
}

func filterCenter(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("center", 0, "width")
	if err != nil {
		return Value{}, err
	}
	if v, err = x.softStr(v); err != nil {
		return Value{}, err
	}
	return padText(x.budget, v, p[0].or(integer(80)), Value{}, padBoth)
}

func filterTruncate(x *exec, v Value, a args) (Value, error) {
	p, err := a.bind("truncate", 0, "length", "killwords", "end", "leeway")
	if err != nil {
		return Value{}, err
	}
	length, err := p[0].or(integer(255)).count("length")
	if err != nil {
		return Value{}, err
	}
	leeway := 5
	if isGiven(p[3]) {
		if leeway, err = p[3].count("leeway"); err != nil {
			return Value{}, err
		}
	}
	end, err := p[2].or(literal("...")).text("end")
	if err != nil {
		return Value{}, err
	}
	keep := length - runeCount(end.str)
	switch {
	case keep < 0 || leeway < 0:
		return Value{}, errors.New("truncate: length must not be less than that of end, nor leeway negative")
	case !v.isString():
		return Value{}, fmt.Errorf("truncate requires str, not %s", v.typeName())
	case runeCount(v.str) <= length+leeway:
		return v, nil
	}
	head := v.slice(0, byteOffset(v.str, keep))
	if i := strings.LastIndexByte(head.str, ' '); i >= 0 && !p[1].truth() {
		head = head.slice(0, i)
	}
	return addText(x.budget, head, end)
}

func wordCount(x *exec, v Value) (Value, error) {
	if err := x.characters(len(v.str)); err != nil {
		return Value{}, err
	}
	n, inside := 0, false
	for _, r := range v.str {
		word := isNamePart(r) && !unicode.IsMark(r) || unicode.IsNumber(r)
		if word && !inside {
			n++
		}
		inside = word
	}
	return integer(n), nil
}

func filterURLEncode(x *exec, v Value) (Value, error) {
	w := newBuilder(x.budget)
	if next, err := iterate(x.budget, v); err == nil && !v.isString() {
		return urlQuery(x.budget, w, v, next)
	}
	s, err := x.str(v)
	if err != nil {
		return Value{}, err
	}
	w.urlQuote(s, "/", "%20")
	return w.value()
}

// urlQuery encodes the pairs of a mapping or list.
func urlQuery(bud *budget, w *builder, v Value, next iteration) (Value, error) {
	if v.kind == kindDict {
		d := v.dict()
		next = iterateCount(d.len(), (&view{d, viewItems}).at)
	}
	for first := true; ; first = false {
		item, ok, err := next()
		if err != nil {
			return Value{}, err
		}
		if !ok {
			return w.value()
		}
		pair, err := valuesOf(bud, item)
		if err != nil {
			return Value{}, err
		}
		if len(pair) != 2 {
			return Value{}, errors.New("urlencode requires text, a mapping or pairs")
		}
		if !first {
			w.write("&", false)
		}
		for i, part := range pair {
			s, err := bud.str(part)
			if err != nil {
				return Value{}, err
			}
			if i == 1 {
				w.write("=", false)
			}
			w.urlQuote(s, "", "+")
		}
	}
}

func (w *builder) urlQuote(v Value, safe, space string) {
	if err := w.b.characters(3 * len(v.str)); err != nil {
		w.fail(err)
		return
	}
	for i := range len(v.str) {
		c := v.str[i]
		client := v.clientAt(i)
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || strings.IndexByte("_.-~"+safe, c) >= 0:
			w.write(v.str[i:i+1], client)
		case c == ' ':
			w.write(space, client)
		default:
			w.write(fmt.Sprintf("%%%02X", c), client)
		}
	}
}
