package family

import (
	"strings"
	"testing"

	"weir/tokenizer/chat"
)

// TestThoughtField: templates read thoughts of earlier answers in different fields, as LFM2.5's and gpt-oss's (thinking) and Solar's (reasoning).
func TestThoughtField(t *testing.T) {
	const body = `{% for m in messages %}{{ m.role }}{% if m.FIELD %}<think>{{ m.FIELD }}</think>{% endif %}{{ m.content }}` +
		`{% for c in m.tool_calls %}<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}{% endfor %}`
	refusing := strings.Replace(body, "{{ m.role }}", `{{ m.role }}{% if m.tool_calls and m.content and m.FIELD %}{{ raise_exception("both") }}{% endif %}`, 1)
	for _, c := range []struct {
		name, template, field string
		alone                 bool
	}{
		{"the usual name", body, "reasoning_content", false},
		{"vLLM's name", body, "reasoning", false},
		{"thinking", body, "thinking", false},
		{"thought, refused beside text", refusing, "thought", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			template, err := chat.Parse(strings.ReplaceAll(c.template, "FIELD", c.field), chat.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, calls := range []string{"", "hermes"} {
				f, err := Named(template, calls, "")
				if err != nil || f.ThoughtField != c.field || f.ThoughtAlone != c.alone {
					t.Errorf("named %q: %q, alone %v, %v; want %q, %v", calls, f.ThoughtField, f.ThoughtAlone, err, c.field, c.alone)
				}
			}
		})
	}
	both, err := chat.Parse(`{% for m in messages %}{{ m.content }}{{ m.thinking }}{{ m.reasoning_content }}{% endfor %}`, chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f := Detect(both); f.ThoughtField != "reasoning_content" {
		t.Errorf("a template that reads two has %q", f.ThoughtField)
	}
	none, err := chat.Parse(`{% for m in messages %}{{ m.content }}{% endfor %}`, chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f := Detect(none); f.ThoughtField != "reasoning_content" {
		t.Errorf("a template that reads none has %q", f.ThoughtField)
	}
}
