package family

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// style is how a layout writes arguments.
type style uint8

const (
	styleJSON   style = iota
	styleTags         // each between tags, strings raw
	stylePython       // name=literal
	styleGemma        // an object with bare keys and strings between Gemma's quotes
)

// layout is how a family's models are trained to write calls, byte by byte: what the grammar allows, and what an earlier answer is
// written as. The parser takes more than that. In the texts, indexMark stands for the call's number, lineMark for a newline that
// may be missing, idMark for an id of the model, kindMark for typeOfCall, which may be missing, too.
type layout struct {
	begin, end  string // around all calls
	open        string // before a name
	mid         string // between name and arguments; keyMark stands for the name
	close       string // after the arguments
	sep         string // between two calls
	style       style
	param       [2]string // around the name of a tagged argument, before the value
	paramEnd    string    // after the value; keyMark stands for the name
	single      bool      // the family writes one call an answer
	firstIndex  int       // the number of the first call
	contentOpen string    // before text, in families that mark it
	contentEnd  string    // between text and calls; empty is a newline
}

const (
	indexMark = "\x00"
	lineMark  = "\x01"
	idMark    = "\x02"
	keyMark   = "\x03"
	typeMark  = "\x04"
	kindMark  = "\x05"
)

// typeOfCall is what models put in front of a call's name where an object of the OpenAI API has it.
const typeOfCall = `"type": "function", `

// Call is a call of an earlier answer.
type Call struct {
	Name      string
	Arguments []byte // JSON text
}

// CallText is an earlier answer as the family's models write it, for templates that would drop its calls (Replayed is false).
// Arguments that are no JSON object are written as an empty one.
func (f *Family) CallText(content string, calls []Call) string {
	l := &f.layout
	var b strings.Builder
	if content != "" {
		b.WriteString(l.contentOpen)
		b.WriteString(content)
		switch {
		case len(calls) == 0:
		case l.contentEnd != "":
			b.WriteString(l.contentEnd)
		case !strings.HasSuffix(content, "\n"):
			b.WriteByte('\n')
		}
	}
	if len(calls) == 0 {
		return b.String()
	}
	b.WriteString(plain(l.begin, 0))
	for i, c := range calls {
		if i > 0 {
			b.WriteString(plain(l.sep, i))
		}
		index := i + l.firstIndex
		b.WriteString(plain(l.open, index))
		b.WriteString(c.Name)
		b.WriteString(plain(strings.ReplaceAll(l.mid, keyMark, c.Name), index))
		b.Write(l.appendArguments(nil, f.calls, c.Arguments))
		b.WriteString(plain(l.close, index))
	}
	b.WriteString(plain(l.end, 0))
	return b.String()
}

// plain puts a call's number into a text of a layout. Ids have nine digits.
func plain(text string, index int) string {
	number := strconv.Itoa(index)
	return strings.NewReplacer(indexMark, number, lineMark, "", kindMark, "", idMark, strings.Repeat("0", 9-len(number))+number).Replace(text)
}

// member is one argument.
type member struct {
	name  string
	value json.RawMessage
}

// members reads a JSON object in its order.
func members(object []byte) []member {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var list []member
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return list
		}
		list = append(list, member{name, value})
	}
	return list
}

func (l *layout) appendArguments(dst []byte, m *markup, arguments []byte) []byte {
	list := members(arguments)
	switch l.style {
	case styleTags:
		for _, a := range list {
			dst = l.appendTag(dst, m.tags.written(a.name), a.value)
		}
		return dst
	case stylePython:
		for i, a := range list {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(append(dst, a.name...), '=')
			dst = appendPython(dst, a.value)
		}
		return dst
	case styleGemma:
		return appendGemma(dst, arguments, m.syntax.quote)
	default:
	}
	if list == nil {
		return append(dst, "{}"...)
	}
	return append(dst, bytes.TrimSpace(arguments)...)
}

func (l *layout) appendTag(dst []byte, name string, value json.RawMessage) []byte {
	var text string
	kind := jsonTypeName(value)
	if kind == "string" && json.Unmarshal(value, &text) == nil {
		value = []byte(text)
	}
	dst = append(append(append(dst, plain(l.param[0], 0)...), name...), l.paramMid(kind)...)
	return append(append(dst, value...), plain(strings.ReplaceAll(l.paramEnd, keyMark, name), 0)...)
}

// paramMid is what stands between a tagged argument's name and a value of a JSON type.
func (l *layout) paramMid(kind string) string {
	mid := plain(l.param[1], 0)
	if !strings.Contains(mid, typeMark) {
		return mid
	}
	if strings.Contains(mid, `string="`) {
		kind = strconv.FormatBool(kind == "string")
	}
	return strings.ReplaceAll(mid, typeMark, kind)
}

func jsonTypeName(value []byte) string {
	t := typeOfJSON(value)
	for _, name := range []string{"string", "boolean", "null", "object", "array"} {
		if t == typeNames[name] {
			return name
		}
	}
	return "number"
}

// appendPython writes a JSON value as a literal of Python.
func appendPython(dst []byte, value []byte) []byte {
	switch typeOfJSON(value) {
	case typeBoolean:
		if bytes.HasPrefix(bytes.TrimSpace(value), []byte("t")) {
			return append(dst, "True"...)
		}
		return append(dst, "False"...)
	case typeNull:
		return append(dst, "None"...)
	case typeObject:
		dst = append(dst, '{')
		for i, m := range members(value) {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(append(dst, marshal(m.name)...), ": "...)
			dst = appendPython(dst, m.value)
		}
		return append(dst, '}')
	case typeArray:
		return appendList(dst, value, ", ", appendPython)
	default:
	}
	return append(dst, bytes.TrimSpace(value)...)
}

func appendList(dst, value []byte, comma string, item func(dst, value []byte) []byte) []byte {
	var items []json.RawMessage
	_ = json.Unmarshal(value, &items) // what is no list is written as an empty one
	dst = append(dst, '[')
	for i, v := range items {
		if i > 0 {
			dst = append(dst, comma...)
		}
		dst = item(dst, v)
	}
	return append(dst, ']')
}

// appendGemma writes a JSON value with bare keys and the family's quotes.
func appendGemma(dst, value []byte, quote string) []byte {
	switch typeOfJSON(value) {
	case typeString:
		var text string
		_ = json.Unmarshal(value, &text) // a JSON string by its first byte
		return append(append(append(dst, quote...), text...), quote...)
	case typeObject:
		dst = append(dst, '{')
		for i, m := range members(value) {
			if i > 0 {
				dst = append(dst, ',')
			}
			if slices.ContainsFunc([]byte(m.name), func(c byte) bool { return !isWord(c) }) {
				dst = append(append(append(dst, quote...), m.name...), quote...)
			} else {
				dst = append(dst, m.name...)
			}
			dst = appendGemma(append(dst, ':'), m.value, quote)
		}
		return append(dst, '}')
	case typeArray:
		return appendList(dst, value, ",", func(dst, v []byte) []byte { return appendGemma(dst, v, quote) })
	default:
	}
	return append(dst, bytes.TrimSpace(value)...)
}
