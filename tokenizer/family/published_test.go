package family

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"weir/internal/reference"
	"weir/tokenizer/chat"
)

// published reads the templates of published models from the reference data.
func published(t testing.TB) map[string]*chat.Template {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(reference.Path(t, "testdata/templates"), "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*chat.Template{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var p struct{ Name, Template string }
		if err := json.Unmarshal(data, &p); err != nil {
			t.Fatal(err)
		}
		if all[p.Name], err = chat.Parse(p.Template, chat.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// publishedFamilies are the families that the published templates must be found to have; one whose template cannot be rendered as
// transformers does, or knows no tools, has the generic form.
var publishedFamilies = map[string]string{
	"Apriel-1.6-15b-Thinker-fixed": "apriel", "Bielik-11B-v3.0-Instruct": "hermes", "Cohere2MoE": "command-r7b",
	"CohereForAI-c4ai-command-r-plus-tool_use": "command-r", "GLM-4.7-Flash": "glm4", "GLM-5.2": "glm4",
	"GigaChat3-10B-A1.8B": "gigachat", "GigaChat3.1-10B-A1.8B": "gigachat-v3.1", "HuggingFaceTB-SmolLM3-3B": "generic",
	"Kimi-K2-Thinking": "kimi-k2", "LFM2.5-Instruct": "lfm2", "MiMo-VL": "hermes", "MiroThinker": "generic",
	"Mistral-Small-3.2-24B-Instruct-2506": "mistral-v11", "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": "hermes",
	"Qwen-QwQ-32B": "hermes", "Qwen-Qwen2.5-7B-Instruct": "hermes", "Qwen-Qwen3-0.6B": "hermes", "Reka-Edge": "hermes",
	"StepFun3.5-Flash": "qwen3-coder", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "deepseek-v3",
	"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "deepseek-v3", "deepseek-ai-DeepSeek-V3.2": "deepseek-v3.2",
	"deepseek-ai-DeepSeek-V4": "deepseek-v4", "fireworks-ai-llama-3-firefunction-v2": "generic", "google-gemma-2-2b-it": "generic",
	"google-gemma-4-31B-it-interleaved": "gemma4", "ibm-granite-granite-3.3-2B-Instruct": "granite", "llama-cpp-deepseek-r1": "generic",
	"llama-cpp-rwkv-world": "generic", "meetkai-functionary-medium-v3.1": "functionary-v3.1",
	"meetkai-functionary-medium-v3.2": "functionary-v3.2", "meta-llama-Llama-3.1-8B-Instruct": "llama3",
	"meta-llama-Llama-3.3-70B-Instruct": "llama3", "microsoft-Phi-3.5-mini-instruct": "generic",
	"mistralai-Mistral-Nemo-Instruct-2407": "mistral", "moonshotai-Kimi-K2": "kimi-k2", "openai-gpt-oss-120b": "harmony",
	"stepfun-ai-Step-3.5-Flash": "qwen3-coder", "unsloth-Apriel-1.5": "apriel",
}

func TestFamiliesOfPublishedTemplates(t *testing.T) {
	for name, template := range published(t) {
		if f := Detect(template); f.Name != publishedFamilies[name] {
			t.Errorf("%s: family %s, want %s", name, f.Name, publishedFamilies[name])
		}
	}
}

// TestCallsComeBackFromPublishedTemplates renders histories with calls through every published template that writes them, and parses
// what the template wrote.
func TestCallsComeBackFromPublishedTemplates(t *testing.T) {
	reference.Slow(t)
	const tools = `[{"type":"function","function":{"name":"get_weather","description":"Weather.","parameters":{"type":"object","properties":{
		"city":{"type":"string","description":"c"},"days":{"type":"integer","description":"d"},"exact":{"type":"boolean","description":"e"},
		"near":{"type":"array","items":{"type":"string"},"description":"n"}},"required":["city"]}}}]`
	const arguments = `{"city":"Zürich \"HB\" – <b>","days":3,"exact":true,"near":["a","b c"]}`
	templates, cases := 0, 0
	for name, template := range published(t) {
		f := Detect(template)
		if !f.Replayed {
			continue
		}
		templates++
		t.Run(name, func(t *testing.T) {
			for _, calls := range []int{1, 2} {
				answer, o := historyAnswer(t, template, f, tools, arguments, calls)
				if calls == 2 && strings.Count(answer, "get_weather") < 2 {
					continue // the template refuses a second call
				}
				cases++
				checkHistory(t, f, o, answer, arguments, calls)
			}
		})
	}
	t.Logf("%d cases of %d templates", cases, templates)
	if templates < 15 {
		t.Errorf("only %d templates write calls", templates)
	}
}

// historyAnswer is the answer with calls as the template writes it, in the first form of history that it takes.
func historyAnswer(t *testing.T, template *chat.Template, f *Family, tools, arguments string, calls int) (string, Options) {
	t.Helper()
	for _, content := range []string{`""`, "null"} {
		value := arguments
		if f.TextArguments {
			value = string(marshal(arguments))
		}
		list := make([]string, calls)
		for i := range list {
			list[i] = `{"id":"abcdefgh` + string(rune('0'+i)) + `","type":"function","function":{"name":"get_weather","arguments":` + value + `}}`
		}
		question := `{"role":"user","content":"` + probeQuestion + `"}`
		answered := question + `,{"role":"assistant","content":` + content + `,"tool_calls":[` + strings.Join(list, ",") + `]}`
		answer, opening, err := cutAnswer(template, f, "["+question+"]", "["+answered+"]", tools)
		if err == nil && strings.Contains(answer, "get_weather") {
			o := Options{Opening: opening, Choice: Choice{Mode: Auto, Parallel: true}}
			o.Tools = []Tool{{Name: "get_weather", Parameters: []byte(`{"properties":{"city":{"type":"string"},"days":{"type":"integer"},
				"exact":{"type":"boolean"},"near":{"type":"array"}}}`)}}
			return answer, o
		}
	}
	if calls == 1 {
		t.Fatal("the template writes no call")
	}
	return "", Options{}
}

func checkHistory(t *testing.T, f *Family, o Options, answer, arguments string, calls int) {
	t.Helper()
	got, found := checkSplits(t, f, o, answer), 0
	for _, p := range got {
		switch {
		case p.Kind == CallStart && p.Name != "get_weather":
			t.Errorf("%q: call of %s", answer, p.Name)
		case p.Kind == CallArguments:
			found++
			if !sameJSON(p.Text, arguments) {
				t.Errorf("%q: arguments %s", answer, p.Text)
			}
		}
	}
	if found != calls {
		t.Errorf("%q: %d calls of %d in %s", answer, found, calls, show(got))
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}
