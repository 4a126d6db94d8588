package openai

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
