package family

import (
	"fmt"
	"strings"
	"testing"
)

// cutShort is what an edge passes on of an answer that its length cut: nothing of a call that only its head has begun, and nothing
// that the parser made up.
func cutShort(f *Family, o Options, text string) []joined {
	p := f.NewParser(o)
	out := join(nil, p.Append(nil, []byte(text), false))
	for _, part := range p.Close(nil) {
		if !part.Begun && !part.Repaired {
			out = join(out, []Part{part})
		}
	}
	return out
}

// TestJ22ACutCallLeaksNothing cuts answers with calls of every family at every byte: the text is that of the whole answer with at
// most the beginning of a marker, the calls are the first of the whole answer's, and their arguments begin as theirs do.
func TestJ22ACutCallLeaksNothing(t *testing.T) {
	calls := []Call{{"get_weather", []byte(`{"city": "Ulm", "days": 2}`)}, {"noop", []byte(`{}`)}}
	for _, f := range every() {
		t.Run(f.Name, func(t *testing.T) {
			calls := calls
			if f.layout.single {
				calls = calls[:1]
			}
			text := f.CallText("So:", calls)
			whole := parse(f, auto(), text)
			for cut := range len(text) {
				checkCut(t, f, cutShort(f, auto(), text[:cut]), whole, text[:cut])
			}
		})
	}
}

func checkCut(t *testing.T, f *Family, got, whole []joined, text string) {
	t.Helper()
	content, arguments, names := told(whole)
	said, gave, called := told(got)
	n := 0
	for n < min(len(said), len(content)) && said[n] == content[n] {
		n++
	}
	if rest := strings.TrimSpace(said[n:]); rest != "" && (len(called) > 0 || !begins(f, rest)) {
		t.Errorf("%q: content %q", text, said)
	}
	for i, a := range gave {
		if called[i] != names[i] || !strings.HasPrefix(arguments[i], a) {
			t.Errorf("%q: call %d is %s %q, of the whole answer %s %q", text, i, called[i], a, names[i], arguments[i])
		}
	}
}

// told joins the text of an answer, and its calls.
func told(parts []joined) (content string, arguments, names []string) {
	for _, p := range parts {
		switch p.Kind {
		case Content:
			content += p.Text
		case CallStart:
			names, arguments = append(names, p.Name), append(arguments, "")
		case CallArguments:
			arguments[len(arguments)-1] += p.Text
		default:
		}
	}
	return content, arguments, names
}

// begins reports whether a text is the beginning of a marker, or of a call without one: no more can be told apart from text.
func begins(f *Family, text string) bool {
	for _, m := range f.calls.known {
		if strings.HasPrefix(strings.TrimSpace(m), text) {
			return true
		}
	}
	for _, tool := range []string{"get_weather", "noop"} {
		for _, front := range []string{`{"name": %q`, "[%s("} {
			if strings.HasPrefix(fmt.Sprintf(front, tool), text) && len(f.calls.lines) > 0 {
				return true
			}
		}
	}
	return false
}
