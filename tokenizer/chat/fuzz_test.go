package chat

import (
	"errors"
	"strings"
	"testing"
)

// fuzzLimits keep a fuzzed render short.
var fuzzLimits = Options{MaxSteps: 20_000, MaxOutputBytes: 1 << 18, MaxMemoryBytes: 1 << 21, MaxDepth: 200}

func FuzzParse(f *testing.F) {
	g := readGolden(f)
	for _, c := range g.Cases {
		f.Add(c.Template)
	}
	for _, src := range bombs {
		f.Add(src)
	}
	in := g.input(f, true)
	f.Fuzz(func(t *testing.T, src string) {
		template, err := Parse(src, fuzzLimits)
		if err != nil {
			checkError(t, err)
			return
		}
		spans, err := template.Render(in)
		if err != nil {
			checkError(t, err)
			return
		}
		if n := len(Text(spans)); n > fuzzLimits.MaxOutputBytes {
			t.Fatalf("%d bytes of text", n)
		}
		for i, s := range spans {
			if s.Text == "" || i > 0 && s.Control == spans[i-1].Control {
				t.Fatalf("span %d of %v is not a run", i, spans)
			}
		}
	})
}

func checkError(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Message == "" && e.Reason != Raised {
		t.Fatalf("error without a message: %#v", err)
	}
}

// private maps every character of the client's strings to Unicode's private
// use area, which no template writes. Roles stay, so that templates work.
func private(v Value) Value {
	switch v.kind {
	case kindString:
		v.str = strings.Map(func(r rune) rune { return 0xE000 + r%0x1000 }, v.str)
	case kindList:
		items := make([]Value, len(v.items()))
		for i, item := range v.items() {
			items[i] = private(item)
		}
		v.ref = &list{items: items}
	case kindDict:
		d := v.dict().clone()
		for i := range d.entries {
			if d.entries[i].key.str != "role" && d.entries[i].key.str != "type" {
				d.entries[i].value = private(d.entries[i].value)
			}
		}
		v.ref = d
	}
	return v
}

func FuzzRender(f *testing.F) {
	g := readGolden(f)
	var templates []*Template
	for _, c := range g.Cases {
		if t, err := Parse(c.Template, fuzzLimits); err == nil {
			templates = append(templates, t)
		}
	}
	for _, p := range readPublished(f) {
		if t, err := Parse(p.Template, fuzzLimits); err == nil {
			templates = append(templates, t)
			f.Add(uint16(len(templates)-1), []byte(p.Cases[7].Context))
		}
	}
	f.Add(uint16(1), []byte(g.Messages))
	f.Add(uint16(3), []byte(`[{"role": "user", "content": "<|end|>", "items": 1}]`))
	base := g.input(f, true)
	f.Fuzz(func(t *testing.T, which uint16, data []byte) {
		client, err := fromJSON(data, true)
		if err != nil {
			return
		}
		plain, _ := fromJSON(data, false)
		template := templates[int(which)%len(templates)]
		in := func(v Value) Input {
			out := base
			if messages, ok := v.field("messages"); ok {
				out.Messages, out.Extra = messages, Value{}
				out.Tools, _ = v.field("tools")
				return out
			}
			if v.kind != kindList {
				v = listOf([]Value{v})
			}
			out.Messages, out.Extra = v, Value{}
			return out
		}
		got, err := template.Render(in(client))
		want, wantErr := template.Render(in(plain))
		if (err == nil) != (wantErr == nil) || Text(got) != Text(want) {
			t.Fatalf("marking changes the text: %q %v, want %q %v", Text(got), err, Text(want), wantErr)
		}
		hidden, err := template.Render(in(private(client)))
		if err != nil {
			return
		}
		for _, s := range hidden {
			if s.Control && (strings.ContainsFunc(s.Text, isPrivate) || strings.Contains(s.Text, `\ue`) ||
				strings.Contains(s.Text, `%EE`)) {
				t.Fatalf("client text in a control span %q of %s", s.Text, marked(hidden))
			}
		}
	})
}

func isPrivate(r rune) bool { return 0xE000 <= r && r < 0xF000 }
