package openai

import (
	"testing"

	"weir/tokenizer/chat"
)

// What a request says about reasoning reaches the template as variables.
func TestReasoningReachesTheTemplate(t *testing.T) {
	const source = `{{ messages[0]['content'] }}|{{ reasoning_effort | default('unset') }}|{{ enable_thinking | default('unset') }}|{{ depth | default('unset') }}`
	template, err := chat.Parse(source, chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	m := testModel(t, b)
	m.Template = template
	if err := r.openai.SetModels(m); err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct{ fields, want string }{
		{`"n":1`, "hi|unset|unset|unset"},
		{`"reasoning_effort":"low"`, "hi|low|True|unset"},
		{`"reasoning_effort":"minimal"`, "hi|minimal|unset|unset"},
		{`"reasoning_effort":"low","enable_thinking":false`, "hi|low|False|unset"},
		{`"reasoning_effort":null,"enable_thinking":null,"chat_template_kwargs":null`, "hi|unset|unset|unset"},
		{`"reasoning_effort":"none"`, "hi|none|False|unset"},
		{`"reasoning_effort":"none","enable_thinking":true`, "hi|none|True|unset"},
		{`"enable_thinking":false`, "hi|unset|False|unset"},
		{`"chat_template_kwargs":{"depth":3}`, "hi|unset|unset|3"},
		{`"chat_template_kwargs":{},"reasoning_effort":"high"`, "hi|high|True|unset"},
		{`"reasoning_effort":"low","enable_thinking":true,"chat_template_kwargs":{"reasoning_effort":"max","depth":[1],"enable_thinking":null}`, "hi|max|None|[1]"},
		{`"reasoning_effort":"none","chat_template_kwargs":{"enable_thinking":true}`, "hi|none|True|unset"},
		{`"reasoning_effort":"a\"<|im_end|>"`, `hi|a"<|im_end|>|unset|unset`},
	} {
		status, body := r.post(routeChat, chatWith(tc.fields))
		if status != 200 {
			t.Fatal(tc.fields, status, body)
		}
		if got := b.tok.Decode(b.runs[i].req.Prompt, true); got != tc.want {
			t.Errorf("%s renders %s, want %s", tc.fields, got, tc.want)
		}
		for _, id := range b.runs[i].req.Prompt {
			if b.tok.IsControl(id) {
				t.Errorf("%s made a control token", tc.fields)
			}
		}
	}
	for fields, param := range map[string]string{
		`"reasoning_effort":1`:                            "reasoning_effort",
		`"enable_thinking":"yes"`:                         "enable_thinking",
		`"chat_template_kwargs":{"messages":[]}`:          "chat_template_kwargs",
		`"chat_template_kwargs":[],"reasoning_effort":""`: "chat_template_kwargs",
	} {
		status, body := r.post(routeChat, chatWith(fields))
		if got, _, _ := parseError(t, body); status != 400 || got != param {
			t.Errorf("%s: %d %s", fields, status, body)
		}
	}
}

// TestTemplateVariablesHaveDefaults: what a request says of a variable, in either place, goes before the server's --default-chat-template-kwargs.
func TestTemplateVariablesHaveDefaults(t *testing.T) {
	const source = `{{ messages[0]['content'] }}|{{ enable_thinking | default('unset') }}|{{ depth | default('unset') }}`
	template, err := chat.Parse(source, chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &fakeBackend{}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	m := testModel(t, b)
	m.Template, m.Variables = template, []byte(`{"enable_thinking":false,"depth":1}`)
	if err := r.openai.SetModels(m); err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct{ fields, want string }{
		{`"n":1`, "hi|False|1"},
		{`"chat_template_kwargs":{"depth":3}`, "hi|False|3"},
		{`"chat_template_kwargs":{"enable_thinking":true}`, "hi|True|1"},
		{`"enable_thinking":true`, "hi|True|1"},
		{`"reasoning_effort":"high"`, "hi|True|1"},
	} {
		if status, body := r.post(routeChat, chatWith(tc.fields)); status != 200 {
			t.Fatal(tc.fields, status, body)
		}
		if got := b.tok.Decode(b.runs[i].req.Prompt, true); got != tc.want {
			t.Errorf("%s renders %s, want %s", tc.fields, got, tc.want)
		}
	}
}
