package chat

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

const small = `{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`

func mustParse(t testing.TB, src string) *Template {
	t.Helper()
	template, err := Parse(src, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return template
}

func TestRenderGivesSpans(t *testing.T) {
	spans, err := mustParse(t, small).Render(Input{
		Messages: Messages(Message{"user", " Hi<|end|> "}), BOSToken: "<s>", AddGenerationPrompt: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := marked(spans), "<s><|«user»|>«Hi<|end|>»<|end|>\n<|assistant|>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestContinueFinalMessage(t *testing.T) {
	for _, c := range []struct{ name, src, messages, want string }{
		{"kept text", `{% for m in messages %}<{{ m.content }}>{% endfor %}`,
			`[{"role": "user", "content": "q"}, {"role": "assistant", "content": "So far "}]`, "<«q»><«So far »"},
		{"stripped text", small, `[{"role": "assistant", "content": "So far \n"}]`, "<|«assistant»|>«So far»"},
		{"text that occurs twice", `{% for m in messages %}<{{ m.content }}>{% endfor %}`,
			`[{"content": "x"}, {"content": "x"}]`, "<«x»><«x»"},
		{"parts", `{% for m in messages %}<{% for p in m.content %}{{ p.text }}{% endfor %}>{% endfor %}`,
			`[{"content": [{"text": "a"}, {"text": "b"}]}]`, "<«ab»"},
	} {
		v, err := FromJSON([]byte(c.messages))
		if err != nil {
			t.Fatal(err)
		}
		spans, err := mustParse(t, c.src).Render(Input{Messages: v, ContinueFinalMessage: true})
		if err != nil || marked(spans) != c.want {
			t.Errorf("%s: got %s %v, want %s", c.name, marked(spans), err, c.want)
		}
	}
}

func TestInvalidInputsAreNamed(t *testing.T) {
	user := Messages(Message{"user", "hi"})
	object := func(s string) Value {
		v, err := FromJSON([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		in    Input
		words string
	}{
		{Input{}, "messages must be a list"},
		{Input{Messages: object(`{}`)}, "messages must be a list"},
		{Input{Messages: user, Extra: object(`[]`)}, "must be an object"},
		{Input{Messages: user, Extra: object(`{"messages": []}`)}, "cannot set 'messages'"},
		{Input{Messages: user, Extra: object(`{"add_generation_prompt": true}`)}, "cannot set"},
		{Input{Messages: user, ContinueFinalMessage: true, AddGenerationPrompt: true}, "exclude each other"},
		{Input{Messages: Messages(), ContinueFinalMessage: true}, "needs a message"},
		{Input{Messages: object(`[{"role": "user", "content": null}]`), ContinueFinalMessage: true}, "needs text"},
		{Input{Messages: object(`[5]`), ContinueFinalMessage: true}, "needs text"},
		{Input{Messages: object(`[{"role": "user", "content": []}]`), ContinueFinalMessage: true}, "needs text"},
	} {
		_, err := mustParse(t, small).Render(c.in)
		var e *Error
		if !errors.As(err, &e) || e.Reason != Invalid || !strings.Contains(e.Message, c.words) {
			t.Errorf("got %v, want %q", err, c.words)
		}
	}
	drops, err := mustParse(t, `{{ messages | length }}`).Render(Input{Messages: user, ContinueFinalMessage: true})
	if err == nil {
		t.Errorf("a template that drops the text gives %v", drops)
	}
}

func TestTakesParts(t *testing.T) {
	for src, want := range map[string]bool{
		small: false,
		`{% for m in messages %}{{ m.content }}{% endfor %}`:          false,
		`{% for m in messages %}{{ m.content | tojson }}{% endfor %}`: false,
		`{% for m in messages %}{{ "<" + m.content }}{% endfor %}`:    false,
		`fixed`: false,
		`{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}`:                        true,
		`{% for m in messages %}{{ m.content if m.content is string else m.content[0]["text"] | trim }}{% endfor %}`: true,
	} {
		if got := mustParse(t, src).TakesParts(); got != want {
			t.Errorf("%s: %v, want %v", src, got, want)
		}
	}
}

func TestJoinParts(t *testing.T) {
	v, err := FromJSON([]byte(`[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},` +
		` {"content": "c"}, 5]`))
	if err != nil {
		t.Fatal(err)
	}
	joined, err := JoinParts(v)
	if err != nil {
		t.Fatal(err)
	}
	spans, err := mustParse(t, `{{ messages | tojson }}`).Render(Input{Messages: joined})
	if want := `«[{"role": "user", "content": "a\nb"}, {"content": "c"}, 5]»`; err != nil || marked(spans) != want {
		t.Errorf("got %s %v, want %s", marked(spans), err, want)
	}
	for _, bad := range []string{`{}`, `[{"content": [{"type": "image_url"}]}]`, `[{"content": [{"type": "text"}]}]`,
		`[{"content": ["x"]}]`} {
		v, _ := FromJSON([]byte(bad))
		if _, err := JoinParts(v); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

func TestToolsMayBeNone(t *testing.T) {
	template := mustParse(t, `{{ tools is defined }} {{ tools is none }}`)
	for want, tools := range map[string]Value{"False False": {}, "True True": None(), "True False": Messages()} {
		spans, err := template.Render(Input{Messages: Messages(), Tools: tools})
		if err != nil || Text(spans) != want {
			t.Errorf("got %q %v, want %q", Text(spans), err, want)
		}
	}
}

func TestRenderIsSafeForConcurrentUse(t *testing.T) {
	g := readGolden(t)
	in := g.input(t, true)
	var wg sync.WaitGroup
	for _, c := range g.Cases[:80] {
		template, err := Parse(c.Template, Options{})
		if err != nil {
			continue
		}
		for range 4 {
			wg.Go(func() {
				spans, err := template.Render(in)
				if err == nil && c.Rendered != nil && Text(spans) != *c.Rendered {
					t.Errorf("%s: got %q, want %q", c.Name, Text(spans), *c.Rendered)
				}
			})
		}
	}
	wg.Wait()
}

func TestNowDefaultsToTheTimeOfTheCall(t *testing.T) {
	spans, err := mustParse(t, `{{ strftime_now("%Y") }}`).Render(Input{Messages: Messages()})
	if err != nil || Text(spans) < "2026" {
		t.Errorf("got %q %v", Text(spans), err)
	}
	at := time.Date(1999, 12, 31, 23, 59, 58, 0, time.UTC)
	spans, err = mustParse(t, `{{ strftime_now("%d.%m.%y %I:%M:%S %p %é %q %") }}`).Render(Input{Messages: Messages(), Now: at})
	if want := "31.12.99 11:59:58 PM %é %q %"; err != nil || Text(spans) != want {
		t.Errorf("got %q %v, want %q", Text(spans), err, want)
	}
}

func TestErrorText(t *testing.T) {
	for want, e := range map[string]*Error{
		"chat template line 3: x": {Reason: Runtime, Line: 3, Message: "x"},
		"chat template: x":        {Reason: Invalid, Message: "x"},
	} {
		if e.Error() != want {
			t.Errorf("got %q, want %q", e.Error(), want)
		}
	}
}
