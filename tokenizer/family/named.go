package family

import (
	"bytes"
	"strings"
)

// The heads of families that write a name and then one value with the arguments.

// readKimi reads functions.name:0 up to the marker of arguments.
func readKimi(r *request, _ string, rest []byte, final bool) (head, int, status) {
	const arguments = "<|tool_call_argument_begin|>"
	at := bytes.Index(rest[:min(len(rest), maxKey)], []byte(arguments))
	if at < 0 {
		return head{}, 0, unfinished(rest[:min(len(rest), maxKey)], final)
	}
	header := strings.TrimSpace(string(rest[:at]))
	h := head{}
	name, index, ok := strings.Cut(header, ":")
	if ok && digits(index) && strings.HasPrefix(name, "functions.") {
		h.id = header
	}
	if h.name = r.toolIn(name); !validName(h.name) {
		return head{}, 0, bad
	}
	return objectAt(h, rest, at+len(arguments), final)
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// toolIn finds the tool in a name that models garble: functions.f, functionsf5, f.
func (r *request) toolIn(name string) string {
	plain := strings.TrimPrefix(strings.TrimPrefix(name, "functions"), ".")
	for _, n := range []string{plain, strings.TrimRight(plain, "0123456789"), name} {
		if r.tools[n] != nil {
			return n
		}
	}
	if plain == "" {
		return name
	}
	return plain
}

// objectAt ends a head at the object that must follow at n; an end of the answer or a marker there is an empty object.
func objectAt(h head, rest []byte, n int, final bool) (head, int, status) {
	n += skipBlank(rest[n:])
	switch {
	case n < len(rest) && rest[n] == '{':
		return h.streamed(rest, n, final)
	case n < len(rest) && rest[n] == '<', n == len(rest) && final:
		h.args = []byte("{}")
		return h, n, done
	case n == len(rest):
		return head{}, 0, more
	}
	return head{broken: true}, 0, bad
}

// readDeepSeek reads function<sep>name, a fence and JSON (R1, V3), or name<sep> and JSON (V3.1).
func readDeepSeek(r *request, _ string, rest []byte, final bool) (head, int, status) {
	const separator = "<｜tool▁sep｜>"
	short := rest[:min(len(rest), maxKey)]
	at := bytes.Index(short, []byte(separator))
	if at < 0 {
		return head{}, 0, unfinished(short, final)
	}
	h := head{name: strings.TrimSpace(string(short[:at]))}
	n := at + len(separator)
	i := n + skipBlank(rest[n:])
	if i == len(rest) && !final {
		return head{}, 0, more
	}
	if i < len(rest) && rest[i] != '{' && rest[i] != '<' {
		line := bytes.IndexByte(short[min(i, len(short)):], '\n')
		if line < 0 {
			return head{}, 0, unfinished(short, final)
		}
		h.name = strings.TrimSpace(string(short[i : i+line]))
		var s status
		if n, s = skipFence(rest, i+line+1, final); s != done {
			return head{}, 0, s
		}
	}
	if !validName(h.name) {
		return head{}, 0, bad
	}
	return objectAt(h, rest, n, final)
}

// skipFence skips the beginning of a fenced block of JSON, where there is one.
func skipFence(rest []byte, n int, final bool) (int, status) {
	n += skipBlank(rest[n:])
	for _, fence := range []string{"```json", "```"} {
		switch prefix(rest[n:], fence, final) {
		case done:
			return n + len(fence), done
		case more:
			return n, more
		default:
		}
	}
	return n, done
}

// readMistral reads a list of objects (up to v7), or a name, an id and the marker of arguments (from v11 on).
func readMistral(r *request, opener string, rest []byte, final bool) (head, int, status) {
	n := skipBlank(rest)
	if n == len(rest) {
		return head{}, 0, more
	}
	if rest[n] == '[' || rest[n] == '{' {
		return readObject(r, opener, rest, final)
	}
	short := rest[:min(len(rest), maxKey)]
	at := bytes.IndexAny(short, "[{")
	if at < 0 {
		return head{}, 0, unfinished(short, final)
	}
	h := head{name: strings.TrimSpace(string(short[:at]))}
	if !validName(h.name) {
		return head{}, 0, bad
	}
	n = at
	const id, arguments = "[CALL_ID]", "[ARGS]"
	marker, s := beginsWith(short[n:], []string{id, arguments, "{"}, final)
	if s != done {
		return head{}, 0, s
	}
	if marker == id {
		n += len(id)
		end := bytes.Index(short[n:], []byte(arguments))
		if end < 0 {
			return head{}, 0, unfinished(short, final)
		}
		h.id = strings.TrimSpace(string(short[n : n+end]))
		n += end
	}
	if marker != "{" {
		n += len(arguments)
	}
	return objectAt(h, rest, n, final)
}

// readFunction reads name> and JSON.
func readFunction(_ *request, _ string, rest []byte, final bool) (head, int, status) {
	return readNameAnd(rest, '>', final)
}

// readLine reads a name on a line of its own and JSON.
func readLine(_ *request, _ string, rest []byte, final bool) (head, int, status) {
	return readNameAnd(rest, '\n', final)
}

func readNameAnd(rest []byte, end byte, final bool) (head, int, status) {
	short := rest[:min(len(rest), maxKey)]
	at := bytes.IndexByte(short, end)
	if at < 0 {
		return head{}, 0, unfinished(short, final)
	}
	h := head{name: trimName(string(short[:at]))}
	if !validName(h.name) || strings.Contains(h.name, " ") {
		return head{}, 0, bad
	}
	return objectAt(h, rest, at+1, final)
}

// readSolar reads an id, a name and the arguments, each behind a marker.
func readSolar(_ *request, _ string, rest []byte, final bool) (head, int, status) {
	const name, arguments = "<|tool_call:name|>", "<|tool_call:args|>"
	short := rest[:min(len(rest), maxKey)]
	at, end := bytes.Index(short, []byte(name)), bytes.Index(short, []byte(arguments))
	if end < 0 {
		return head{}, 0, unfinished(short, final)
	}
	if at < 0 || at > end {
		return head{}, 0, bad
	}
	h := head{id: strings.TrimSpace(string(short[:at])), name: strings.TrimSpace(string(short[at+len(name) : end]))}
	if !validName(h.name) {
		return head{}, 0, bad
	}
	return objectAt(h, rest, end+len(arguments), final)
}

// bareGemma reads a call without its opener, which must be of a tool of the request.
func bareGemma(r *request, rest []byte, final bool) (head, int, status) {
	if s := prefix(rest, "call:", final); s != done {
		return head{}, 0, s
	}
	h, n, s := readGemma(r, "", rest, final)
	if s == done && r.tools[h.name] == nil {
		return head{}, 0, bad
	}
	return h, n, s
}

// readGemma reads a name in front of its object, and call: in front of the name in the forms that models write.
func readGemma(_ *request, _ string, rest []byte, final bool) (head, int, status) {
	short := rest[:min(len(rest), maxKey)]
	at := bytes.IndexByte(short, '{')
	if at < 0 {
		return head{}, 0, unfinished(short, final)
	}
	name := strings.TrimPrefix(strings.TrimSpace(string(short[:at])), ":")
	h := head{name: strings.TrimSpace(strings.TrimPrefix(name, "call:"))}
	if !validName(h.name) {
		return head{}, 0, bad
	}
	return h, at, done
}

// readLlama reads JSON, or a call of a built-in tool: name.call(query="…"), or a list of Python calls.
func readLlama(r *request, opener string, rest []byte, final bool) (head, int, status) {
	n := skipBlank(rest)
	if n == len(rest) {
		return head{}, 0, more
	}
	switch rest[n] {
	case '{':
		return readObject(r, opener, rest, final)
	case '[':
		if i := n + 1 + skipBlank(rest[n+1:]); i == len(rest) {
			return head{}, 0, more
		} else if rest[i] == '{' {
			return readObject(r, opener, rest, final)
		}
		return readPython(r, opener, rest, final)
	}
	h, n, s := r.pythonCall(rest, true, final)
	if s != done {
		return head{broken: h.broken}, 0, s
	}
	if r.tools[h.name] == nil {
		return head{}, 0, bad
	}
	return h, n, done
}

// bareLlama reads a call without an opener: an object, or a list of Python calls.
func bareLlama(r *request, rest []byte, final bool) (head, int, status) {
	if len(rest) > 0 && rest[0] == '[' {
		return barePython(r, rest, final)
	}
	return bareObject(r, rest, final)
}

// readFenced reads a fenced list of objects.
func readFenced(r *request, opener string, rest []byte, final bool) (head, int, status) {
	n, s := skipFence(rest, 0, final)
	if s != done {
		return head{}, 0, s
	}
	if n == len(rest) {
		return head{}, 0, more
	}
	h, used, s := readObject(r, opener, rest[n:], final)
	return h, n + used, s
}
