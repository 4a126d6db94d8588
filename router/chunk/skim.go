package chunk

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// skimmer reads JSON from its place on. What is no JSON sets bad; from then on it reads nothing.
type skimmer struct {
	b     []byte
	i     int
	depth int
	bad   bool
}

// maxDepth bounds values inside of one another.
const maxDepth = 1000

func (s *skimmer) fail() { s.bad, s.i = true, len(s.b) }

// space skips white space, and gives the byte behind it; 0 is the end.
func (s *skimmer) space() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// takes goes over a byte that must stand there.
func (s *skimmer) takes(c byte) {
	if s.space() != c {
		s.fail()
		return
	}
	s.i++
}

// text goes over a string, and gives its inside.
func (s *skimmer) text() Span {
	s.takes('"')
	from := s.i
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return Span{from, s.i - 1}
		case c < ' ':
			s.fail()
			return Span{}
		case c == '\\':
			s.escape()
		default:
			s.i++
		}
	}
	s.fail()
	return Span{}
}

func (s *skimmer) escape() {
	if s.i++; s.i == len(s.b) {
		return
	}
	switch s.b[s.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
	case 'u':
		if s.i+4 >= len(s.b) {
			s.fail()
			return
		}
		for _, c := range s.b[s.i+1 : s.i+5] {
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				s.fail()
				return
			}
		}
		s.i += 5
	default:
		s.fail()
	}
}

// value goes over any value.
func (s *skimmer) value() Span {
	c := s.space()
	from := s.i
	switch c {
	case '"':
		s.text()
	case '{':
		for f := s.open('{'); s.field(&f); {
			s.value()
		}
	case '[':
		for f := s.open('['); s.element(&f); {
			s.value()
		}
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.number()
	}
	return Span{from, s.i}
}

func (s *skimmer) word(w string) {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		s.fail()
		return
	}
	s.i += len(w)
}

// number goes over a number (RFC 8259, 6).
func (s *skimmer) number() {
	if s.at('-') {
		s.i++
	}
	if s.at('0') {
		s.i++
	} else {
		s.digits()
	}
	if s.at('.') {
		s.i++
		s.digits()
	}
	if s.at('e') || s.at('E') {
		if s.i++; s.at('+') || s.at('-') {
			s.i++
		}
		s.digits()
	}
}

func (s *skimmer) at(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }

func (s *skimmer) digits() {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	if s.i == from {
		s.fail()
	}
}

// list is an object or an array that is gone over.
type list struct {
	begun bool
	name  []byte // of the field
	end   int    // of the value before, the comma not counted
}

func (s *skimmer) open(c byte) list {
	s.takes(c)
	if s.depth++; s.depth > maxDepth {
		s.fail()
	}
	return list{end: s.i}
}

// element goes to the next value of an array. It is false behind the last one.
func (s *skimmer) element(l *list) bool { return s.next(l, ']') }

func (s *skimmer) next(l *list, closing byte) bool {
	l.end = s.i
	switch c := s.space(); {
	case s.bad:
		return false
	case c == closing:
		s.i++
		s.depth--
		return false
	case l.begun:
		s.takes(',')
	}
	l.begun = true
	return !s.bad
}

// field goes to the value of an object's next field.
func (s *skimmer) field(l *list) bool {
	if !s.next(l, '}') {
		return false
	}
	l.name = s.name(s.text())
	s.takes(':')
	return !s.bad
}

// name is a field's name without escapes.
func (s *skimmer) name(at Span) []byte {
	raw := at.Of(s.b)
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	var text string
	if json.Unmarshal(s.b[at.From-1:at.To+1], &text) != nil {
		s.fail()
	}
	return []byte(text)
}

// event reads a whole event into c.
func (s *skimmer) event(c *Chunk) {
	if s.space() != '{' {
		s.value()
		return
	}
	var t typed
	from := s.i
	for f := s.open('{'); s.field(&f); {
		switch string(f.name) {
		case "response":
			s.part(&c.Response)
		case "message":
			s.part(&c.Message)
		case "type":
			t.kind = s.value()
		case "object":
			t.object = s.value()
		case "delta":
			t.delta = s.value()
		case "content_block", "item":
			t.opened = s.value()
		case "content", "output":
			t.parts = s.value()
		case "model":
			if v := s.value(); s.bad || s.b[v.From] == '"' {
				c.Model = v
			}
		case "error":
			c.Error = Span{}
			if v := s.value(); !s.bad && !isEmpty(v.Of(s.b)) {
				c.Error = v
			}
		case "usage":
			s.usage(c, &f)
		case "choices":
			s.choices(c)
		default:
			s.value()
		}
	}
	c.Type, c.Whole = t.kind, Part{Span{from, s.i}, c.Usage}
	t.read(s, c)
}

// part reads an object that may have a usage.
func (s *skimmer) part(p *Part) {
	if *p = (Part{}); s.space() != '{' {
		s.value()
		return
	}
	from := s.i
	for f := s.open('{'); s.field(&f); {
		if v := s.value(); string(f.name) == "usage" {
			p.Usage = v
		}
	}
	p.Object = Span{from, s.i}
}

// usage reads the field usage. What is cut out with it is the comma before it, or for the first field the one behind it.
func (s *skimmer) usage(c *Chunk, f *list) {
	from := f.end
	c.Usage = s.value()
	if s.bad {
		return
	}
	c.null = string(c.Usage.Of(s.b)) == "null"
	c.UsageField = Span{from, s.i}
	if s.b[skipSpace(s.b, from)] != ',' { // it is the first one
		if end := skipSpace(s.b, s.i); end < len(s.b) && s.b[end] == ',' {
			c.UsageField.To = end + 1
		}
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

func (s *skimmer) choices(c *Chunk) {
	if s.space() != '[' {
		if v := s.value(); !s.bad && string(v.Of(s.b)) != "null" {
			c.Wrong = "choices"
		}
		return
	}
	c.Choices = 0
	for e := s.open('['); s.element(&e); c.Choices++ {
		if s.space() != '{' {
			s.value()
			c.Wrong = "choices"
			continue
		}
		s.choice(c)
	}
}

// choice reads one choice. Its index may stand behind what it says.
func (s *skimmer) choice(c *Chunk) {
	index, reason, texts := 0, Span{}, len(c.Texts)
	for f := s.open('{'); s.field(&f); {
		switch string(f.name) {
		case "index":
			v := s.value()
			n, err := strconv.Atoi(string(v.Of(s.b)))
			if index = n; (err != nil || n < 0) && !s.bad && string(v.Of(s.b)) != "null" {
				c.Wrong = "index"
			}
		case "text":
			s.says(c, "text")
		case "delta", "message":
			s.said(c)
		case "finish_reason":
			if reason = s.value(); s.bad || isEmpty(reason.Of(s.b)) {
				reason = Span{}
			} else if s.b[reason.From] == '"' {
				reason = Span{reason.From + 1, reason.To - 1}
			}
		default:
			s.value()
		}
	}
	for i := texts; i < len(c.Texts); i++ {
		c.Texts[i].Choice = index
	}
	if c.Seen.Add(index); !reason.IsEmpty() {
		c.Finished.Add(index)
		c.Ends = append(c.Ends, Text{Span: reason, Choice: index})
	}
}

// said reads a delta or a message.
func (s *skimmer) said(c *Chunk) {
	if s.space() != '{' {
		if v := s.value(); !s.bad && string(v.Of(s.b)) != "null" {
			c.Wrong = "delta"
		}
		return
	}
	for f := s.open('{'); s.field(&f); {
		switch string(f.name) {
		case "role":
			s.value()
		case "content":
			s.says(c, "content")
		case "reasoning_content", "reasoning", "refusal":
			s.says(c, "")
		case "tool_calls", "function_call":
			from := s.i
			s.calls(c, false)
			c.beside = c.beside || !s.bad && !isEmpty(bytes.TrimSpace(s.b[from:s.i]))
		default: // a field that weir does not know is content, too
			v := s.value()
			c.beside = c.beside || !s.bad && !isEmpty(v.Of(s.b))
		}
	}
}

// says reads a text, null, or a list of parts. name is that of a field that can have nothing else; "": it can.
func (s *skimmer) says(c *Chunk, name string) {
	switch s.space() {
	case '"':
		c.Texts = append(c.Texts, Text{Span: s.text()})
	case '[':
		from := s.i
		s.calls(c, false)
		c.beside = c.beside || !s.bad && !isEmpty(bytes.TrimSpace(s.b[from:s.i]))
	default:
		v := s.value()
		switch {
		case s.bad || string(v.Of(s.b)) == "null":
		case name == "":
			c.beside = true
		default:
			c.Wrong = name
		}
	}
}

// wordFields are the fields of calls and parts whose texts are words of the model.
var wordFields = []string{"arguments", "name", "input", "text", "thinking", "partial_json"}

// calls reads parts of calls and of texts: the words of them are what the model wrote. words: the value is of a field with
// such words, and all within it are some.
func (s *skimmer) calls(c *Chunk, words bool) {
	switch s.space() {
	case '"':
		if t := s.text(); words && !t.IsEmpty() {
			c.Texts = append(c.Texts, Text{Span: t})
		}
	case '{':
		for f := s.open('{'); s.field(&f); {
			s.calls(c, words || slices.Contains(wordFields, string(f.name)))
		}
	case '[':
		for e := s.open('['); s.element(&e); {
			s.calls(c, words)
		}
	default:
		s.value()
	}
}

// isEmpty reports whether a value says nothing.
func isEmpty(value []byte) bool {
	switch string(value) {
	case "", "null", `""`, "[]", "{}":
		return true
	}
	return false
}
