package family

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// readObject reads what follows an opener in families whose calls are JSON: one object, or a list of them.
func readObject(r *request, _ string, rest []byte, final bool) (head, int, status) {
	n := skipBlank(rest)
	array := n < len(rest) && rest[n] == '['
	if array {
		n++
		n += skipBlank(rest[n:])
	}
	h, used, s := r.calls.item(rest[n:], final)
	h.array = array
	return h, n + used, s
}

// readKeyed reads an item of Apertus: an object whose key is the name.
func readKeyed(rest []byte, final bool) (head, int, status) {
	o := cursor{src: rest}
	if !o.byte('{') {
		return head{}, 0, o.failed(final)
	}
	name, ok := o.text()
	if !ok || !o.byte(':') || !o.peek() {
		return head{}, 0, o.failed(final)
	}
	h := head{name: name, nest: 1}
	return h.withArguments(&o, final)
}

// readCall reads the head of a call that is one JSON object with a name and arguments, in the spellings of all families:
// {"name", "arguments"}, {"tool_name", "parameters"}, {"function": {…}} around them.
func readCall(rest []byte, final bool) (head, int, status) {
	o := cursor{src: rest}
	if !o.open() {
		return head{}, 0, o.failed(final)
	}
	c := callObject{head: head{nest: 1}}
	for {
		if o.byte('}') {
			return c.end(o.n)
		}
		key, ok := o.text()
		if !ok || !o.byte(':') || !o.peek() {
			return head{}, 0, o.failed(final)
		}
		stop, ok := c.field(&o, key, final)
		if !ok {
			return head{}, 0, o.failed(final)
		}
		if stop {
			return c.head.withArguments(&o, final)
		}
		o.byte(',')
	}
}

// callObject gathers the fields of a call's object.
type callObject struct {
	head head
	args []byte // arguments that came before the name
}

// field reads the value of a key. stop says that the cursor stands at the arguments of a call whose name is known.
func (c *callObject) field(o *cursor, key string, final bool) (stop, ok bool) {
	switch key {
	case "name", "tool_name":
		c.head.name, ok = o.text()
		return false, ok
	case "function":
		if o.byte('{') {
			c.head.nest++
			return false, true
		}
		if o.src[o.n] == '"' {
			c.head.name, ok = o.text()
			return false, ok
		}
	case "id":
		if o.src[o.n] == '"' {
			c.head.id, ok = o.text()
			return false, ok
		}
	case "arguments", "parameters":
		if c.head.name != "" {
			return true, true
		}
		raw, ok := o.value(final)
		c.args = asArguments(raw)
		return false, ok
	case "type":
	default:
		c.head.odd = true
	}
	_, ok = o.value(final)
	return false, ok
}

// end reads a closed object: a call without arguments, or one whose arguments came first.
func (c *callObject) end(n int) (head, int, status) {
	h := c.head
	if h.name == "" {
		return head{}, 0, bad
	}
	h.nest--
	if h.args = c.args; h.args == nil {
		h.args = []byte("{}")
	}
	return h, n, done
}

// withArguments ends a head at its arguments: an object streams, anything else is read as a whole.
func (h head) withArguments(o *cursor, final bool) (head, int, status) {
	if h.name == "" {
		return head{}, 0, bad
	}
	if o.src[o.n] == '{' {
		return h.streamed(o.src, o.n, final)
	}
	raw, ok := o.value(final)
	if !ok {
		return head{}, 0, o.failed(final)
	}
	h.args = asArguments(raw)
	return h, o.n, done
}

// streamed ends a head at the object with the arguments that stands at n, and that streams. One that breaks off before its first name is none: a
// call without its arguments is worse than text.
func (h head) streamed(rest []byte, n int, final bool) (head, int, status) {
	first := n + 1
	first += skipBlank(rest[first:])
	switch {
	case first == len(rest) && !final:
		return head{}, 0, more
	case first < len(rest) && strings.IndexByte(`"'}`, rest[first]) < 0:
		return head{broken: true}, 0, bad
	}
	return h, n, done
}

// asArguments is the object that the value of "arguments" stands for: models also write null, and the object's JSON as text.
func asArguments(raw []byte) []byte {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		inner := []byte(strings.TrimSpace(text))
		if len(inner) == 0 {
			return []byte("{}")
		}
		if out, ok := asJSON(inner, jsonSyntax); ok && out[0] == '{' {
			return out
		}
	}
	if string(raw) == "null" {
		return []byte("{}")
	}
	return raw
}

// cursor reads the JSON around a call's arguments.
type cursor struct {
	src   []byte
	n     int
	wrong bool // what stands here cannot be read, however much follows
}

// failed is what a reading that did not succeed means.
func (o *cursor) failed(final bool) status {
	if o.wrong || final {
		return bad
	}
	return more
}

// peek skips white space and reports whether a byte follows.
func (o *cursor) peek() bool {
	o.wrong = false
	o.n += skipBlank(o.src[o.n:])
	return o.n < len(o.src)
}

// byte reads a byte if it is the next one.
func (o *cursor) byte(c byte) bool {
	if !o.peek() {
		return false
	}
	if o.src[o.n] != c {
		o.wrong = true
		return false
	}
	o.wrong = false
	o.n++
	return true
}

// open reads the brace of an object, and the one behind it where a model doubles its braces.
func (o *cursor) open() bool {
	if !o.byte('{') {
		return false
	}
	if o.n < len(o.src) && o.src[o.n] == '{' {
		o.n++
	}
	return true
}

// text reads a string.
func (o *cursor) text() (string, bool) {
	if !o.peek() {
		return "", false
	}
	if c := o.src[o.n]; c != '"' && c != '\'' {
		o.wrong = true
		return "", false
	}
	raw, ok := o.value(false)
	if !ok {
		return "", false
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		o.wrong = true
		return "", false
	}
	return s, true
}

// value reads any value as JSON.
func (o *cursor) value(final bool) ([]byte, bool) {
	o.wrong = false
	var v value
	v.reset(jsonSyntax)
	out, n, s := v.read(nil, o.src[o.n:], final)
	o.wrong = s == bad
	if s != done {
		return nil, false
	}
	o.n += n
	return bytes.TrimSpace(out), true
}

// bareObject reads a call that stands without an opener, as Llama 3 writes it: only an object that begins with the name of one of
// the request's tools is a call; any other JSON is the answer.
func bareObject(r *request, rest []byte, final bool) (head, int, status) {
	if len(rest) == 0 {
		return head{}, 0, more
	}
	if rest[0] != '{' {
		return head{}, 0, bad
	}
	if s := r.namesTool(rest, final); s != done {
		return head{}, 0, s
	}
	return readCall(rest, final)
}

// namesTool reads {"name": "f" where f is a tool; {"type": "function" may come before it.
func (r *request) namesTool(rest []byte, final bool) status {
	o := cursor{src: rest}
	if !o.open() {
		return o.failed(final)
	}
	for range 2 {
		key, ok := o.text()
		if ok && key != "name" && key != "type" && key != "function" {
			return bad
		}
		if !ok || !o.byte(':') {
			return o.failed(final)
		}
		if key == "function" && o.peek() && o.src[o.n] == '{' {
			return r.namesTool(rest[o.n:], final)
		}
		name, ok := o.text()
		if !ok {
			return o.failed(final)
		}
		if key != "type" {
			if r.tools[name] == nil {
				return bad
			}
			return done
		}
		if !o.byte(',') {
			return o.failed(final)
		}
	}
	return bad
}

// callBegun reads the object of a call up to its arguments.
func (r *request) callBegun(rest []byte) (head, int, status) {
	if s := r.namesTool(rest, false); s != done {
		return head{}, 0, s
	}
	h, n, s := readCall(rest, false)
	if s != done {
		return head{}, 0, s
	}
	if h.args != nil || h.odd || len(r.names) > 0 && !slices.Contains(r.names, h.name) {
		return head{}, 0, bad
	}
	o := cursor{src: rest, n: n + 1}
	key, ok := o.text()
	if !ok {
		return head{}, 0, o.failed(false)
	}
	list := r.properties(h.name)
	at := slices.IndexFunc(list, func(p property) bool { return p.name == key })
	if at < 0 {
		return head{}, 0, bad
	}
	if !o.byte(':') || !o.peek() {
		return head{}, 0, o.failed(false)
	}
	if typeOfJSON(rest[o.n:o.n+1])&list[at].types == 0 {
		return head{}, 0, bad
	}
	return h, n, done
}

// readPhi reads a list between the template's markers, or the one behind functools that prompts for vLLM's phi4_mini_json ask for.
func readPhi(r *request, opener string, rest []byte, final bool) (head, int, status) {
	if opener == functools.openers[0] {
		return readOpenedList(r, opener, rest, final)
	}
	return readObject(r, opener, rest, final)
}

// readOpenedList reads a list whose bracket belongs to the opener.
func readOpenedList(r *request, _ string, rest []byte, final bool) (head, int, status) {
	n := skipBlank(rest)
	h, used, s := r.calls.item(rest[n:], final)
	h.array = true
	return h, n + used, s
}
