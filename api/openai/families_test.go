package openai

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/api/openai/models"
	"weir/api/openai/reasoning"
	"weir/internal/reference"
)

// Answers as models of several families write them, by the templates that were published
// with them, whole and as streams of one byte a token.
func TestAnswersOfPublishedFamilies(t *testing.T) {
	for _, c := range []struct {
		name, template, says       string
		thought, text, calls, last string // last is the id of the last call
	}{
		{"24 Hermes", "Qwen-Qwen3-0.6B", "<think>\nHm.\n</think>\n\nSo.\n" + parisCall + "\n" + timeCall, "Hm.", "So.",
			`get_weather {"city": "Paris"}` + "\n" + `get_time {}`, ""},
		{"32 Qwen3-Coder", "stepfun-ai-Step-3.5-Flash",
			"Hm.</think><tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>", "Hm.", "",
			`get_weather {"city": "Paris"}`, ""},
		{"35 Kimi", "moonshotai-Kimi-K2", "Let me see.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>" +
			`{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>`, "", "Let me see.", `get_weather {"city": "Paris"}`, "functions.get_weather:0"},
		{"36 Mistral", "mistralai-Mistral-Nemo-Instruct-2407", `[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "abcdef123"}]`, "", "",
			`get_weather {"city": "Paris"}`, ""},
		{"37 harmony", "openai-gpt-oss-120b", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather " +
			`<|constrain|>json<|message|>{"city": "Paris"}<|call|>`, "Hm.", "", `get_weather {"city": "Paris"}`, ""},
		{"37 harmony, the final channel", "openai-gpt-oss-120b", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello", "Hm.", "Hello", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(reference.Path(t, "testdata/templates"), c.template+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var p struct{ Template string }
			if err := json.Unmarshal(data, &p); err != nil {
				t.Fatal(err)
			}
			a := think(t, p.Template, c.says, bothTool)
			if a.Reasoning != c.thought || a.text() != c.text || strings.Join(a.names(), "\n") != c.calls {
				t.Errorf("got %+v %q", a, a.text())
			}
			if n := len(a.Calls); c.last != "" && (n == 0 || a.Calls[n-1].ID != c.last) {
				t.Errorf("the id is %+v, want %s", a.Calls, c.last)
			}
		})
	}
}

// publishedModel has the template of a published model.
func publishedModel(t *testing.T, b *fakeBackend, name string) *models.Model {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(reference.Path(t, "testdata/templates"), name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Template string }
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	return toolModel(t, b, p.Template)
}

// Where thoughts are messages of their own, the budget ends the message and begins the next: a
// text, or, behind a grammar, what the model likes of text and calls.
func TestBudgetsOfHarmony(t *testing.T) {
	const thought = "<|channel|>analysis<|message|>0123456789"
	for _, c := range []struct{ name, says, fields, text, calls string }{
		{"text", thought + "and so on", `"thinking_token_budget":10`, "and so on", ""},
		{"a call", thought + `<|channel|>commentary to=functions.get_time <|constrain|>json<|message|>{}`, bothTool + `,"thinking_token_budget":10`, "", "get_time {}"},
		{"text beside tools", thought + `<|channel|>final<|message|>So.`, bothTool + `,"thinking_token_budget":10`, "So.", ""},
		{"it ends itself", thought + "<|end|><|start|>assistant<|channel|>final<|message|>So.", `"thinking_token_budget":100`, "So.", ""},
	} {
		b := &fakeBackend{script: obey(t, c.says)}
		r := newRig(t, DefaultConfig(), b)
		if err := r.openai.SetModels(publishedModel(t, b, "openai-gpt-oss-120b")); err != nil {
			t.Fatal(err)
		}
		for _, a := range []*answered{r.ask(chatWith(c.fields)), r.stream(chatWith(c.fields))} {
			if a.Reasoning != "0123456789" || a.text() != c.text || strings.Join(a.names(), "\n") != c.calls {
				t.Errorf("%s: got %q, %q, %q", c.name, a.Reasoning, a.text(), a.names())
			}
		}
		r.close()
	}
}

// What ends a thought is what opens the answer behind it, in the family's words.
func TestBudgetsEndThoughtsInTheFamilysWords(t *testing.T) {
	b := &fakeBackend{tok: mustTokenizer(t)}
	m := publishedModel(t, b, "openai-gpt-oss-120b")
	if text := b.tok.Decode(reasoning.Bound(m, 0, true, nil).Forced(nil), true); text != "<|end|><|start|>assistant<|channel|>final<|message|>" {
		t.Errorf("forced is %q", text)
	}
}

// A budget of a model that marks no thoughts is named in a warning, and refused where the server
// is strict.
func TestBudgetsWithoutThoughts(t *testing.T) {
	for _, strict := range []bool{false, true} {
		c := DefaultConfig()
		c.Strict = strict
		b := &fakeBackend{script: say("Hello", 0)}
		r := newRig(t, c, b)
		if err := r.openai.SetModels(publishedModel(t, b, "meetkai-functionary-medium-v3.2")); err != nil {
			t.Fatal(err)
		}
		res, body := r.do("POST", routeChat, "", chatWith(`"thinking_token_budget":10`))
		warned := strings.Contains(res.Header.Get("X-Weir-Warnings"), "thinking_token_budget")
		refused := res.StatusCode == 400 && strings.Contains(body, "thinking_token_budget bounds thoughts, and the model test-model marks none")
		if warned == strict || refused != strict {
			t.Errorf("strict %t: %d %s, warnings %q", strict, res.StatusCode, body, res.Header.Get("X-Weir-Warnings"))
		}
		r.close()
	}
}
