package openai

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/api/openai/job"
	"weir/internal/reference"
	"weir/tokenizer/chat"
	"weir/tokenizer/family"
)

// silent are published templates that are allowed to leave a part of a conversation with tools
// out, or to refuse it, because their models were not trained on it.
var silent = map[string]string{
	"MiroThinker":                          "assigns to what is no namespace, which Jinja refuses",
	"fireworks-ai-llama-3-firefunction-v2": "reads variables of its own",
	// They write the calls of an answer without text only.
	"deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "Lisbon", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "Lisbon",
}

// ownResults are how templates write results that have a form for them, and none for calls.
var ownResults = map[string]string{
	"LFM2.5-Instruct": "<|im_start|>tool\nsunshine", "ibm-granite-granite-3.3-2B-Instruct": "<|start_of_role|>tool<|end_of_role|>sunshine",
	"Kimi-K2-Thinking": "## Return of functions.",
}

// Every published template takes tools and the conversations that clients send back: it
// writes the tool's name, the call's arguments and its result.
func TestPublishedTemplatesTakeConversationsWithTools(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(reference.Path(t, "testdata/templates"), "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	const question = `{"role":"user","content":"Which weather?"}`
	for name, messages := range map[string]string{
		"a call alone": question + `,{"role":"assistant","content":null,"tool_calls":[{"id":"abcdef123","type":"function",` +
			`"function":{"name":"look_up","arguments":"{\"place\": \"Lisbon\", \"days\": 3}"}}]},{"role":"tool","tool_call_id":"abcdef123","content":"sunshine"}`,
		"text before a call, and a question after": question + `,{"role":"assistant","content":"Let me see.","tool_calls":[{"id":"abcdef123","type":"function",` +
			`"function":{"name":"look_up","arguments":"{\"place\": \"Lisbon\", \"days\": 3}"}}]},{"role":"tool","tool_call_id":"abcdef123","content":"sunshine"},` +
			`{"role":"assistant","content":"It is fine."},{"role":"user","content":"Really?"}`,
	} {
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var p struct{ Name, Template string }
			if err := json.Unmarshal(data, &p); err != nil {
				t.Fatal(err)
			}
			text, fault := renderPublished(t, p.Template, messages)
			if fault != "" {
				if silent[p.Name] == "" {
					t.Errorf("%s: %s: %s", p.Name, name, fault)
				}
				continue
			}
			if own := ownResults[p.Name]; own != "" && !strings.Contains(text, own) {
				t.Errorf("%s: %s: no %q in %s", p.Name, name, own, text)
			}
			for _, part := range []string{"look_up", "Lisbon", "sunshine", "Where to look"} {
				if !strings.Contains(text, part) && (silent[p.Name] != part || name == "a call alone") {
					t.Errorf("%s: %s: no %q in the prompt", p.Name, name, part)
				}
			}
		}
	}
}

// renderPublished gives the prompt of a request with a tool, or what refuses it.
func renderPublished(t *testing.T, source, messages string) (text, fault string) {
	t.Helper()
	template, err := chat.Parse(source, chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &fakeBackend{tok: mustTokenizer(t)}
	m := testModel(t, b)
	m.Template, m.Family = template, family.Detect(template)
	body := `{"tools":[{"type":"function","function":{"name":"look_up","description":"Where to look","parameters":{"type":"object",` +
		`"properties":{"place":{"type":"string","description":"p"},"days":{"type":"integer","description":"d"}},"required":["place"]}}}],"messages":[` + messages + `]}`
	o, refused := job.ReadBody([]byte(body), true)
	if refused != nil {
		t.Fatal(refused)
	}
	c := DefaultConfig()
	p := c.reader().ReadPrompt(o.Object, m, &refused)
	if refused != nil {
		return "", refused.Message
	}
	spans, refused := p.Render(m)
	if refused != nil {
		return "", refused.Message
	}
	return chat.Text(spans), ""
}
