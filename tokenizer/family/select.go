package family

import (
	"fmt"
	"slices"
	"strings"

	"weir/tokenizer/chat"
)

// peerNames are vLLM's names of formats of calls that have another name here.
var peerNames = map[string]string{
	"llama3_json": "llama3", "llama4_json": "llama4", "pythonic": "llama-pythonic", "llama4_pythonic": "llama-pythonic", "kimi_k2": "kimi-k2",
	"kimi_k3": "kimi-k3", "deepseek_v3": "deepseek-v3", "deepseek_v31": "deepseek-v3.1", "deepseek_v32": "deepseek-v3.2",
	"deepseek_v4": "deepseek-v4", "qwen3_coder": "qwen3-coder", "qwen3_xml": "qwen3-coder", "step3p5": "qwen3-coder", "seed_oss": "seed-oss",
	"glm45": "glm4", "glm47": "glm4", "minimax_m2": "minimax-m2", "minimax_m3": "minimax-m3", "phi4_mini_json": "phi4", "granite4": "hermes",
	"gigachat3": "gigachat", "minicpm5xml": "minicpm5", "muse_glimmer": "muse-glimmer", "hy_v3": "hy3", "solar_open2": "solar-open2",
	"openai": "harmony", "cohere_command": "command-r7b", "cohere_command3": "command-r7b", "qwen3_json": "hermes", "mimo": "qwen3-coder", "ling3": "glm4",
	"jamba": "apriel", "hunyuan_a13b": "apriel", "ernie45": "hermes", "xlam": "hermes",
}

// none is the name for neither calls nor thoughts.
const none = "none"

// thoughtNames are the names of the forms of thoughts: those of families, and vLLM's where it has another.
var thoughtNames = map[string]*thought{
	"think": think, "deepseek_r1": think, "qwen3": think, "glm45": think, "kimi_k2": think, "step3": think, "hy_v3": think, "minimax_m2": think,
	"deepseek_v3": think, "deepseek_v4": think, "glm47": think, "ling3": think, "holo2": think, "olmo3": think, "nemotron_v3": think, "step3p5": think,
	"step5": think, "mimo": think, "granite_thinking_parser": think,
	"mistral": thoughts[0], "gemma4": thoughts[1], "cohere_command": thoughts[2], "cohere_command3": thoughts[2], "apertus": thoughts[3], "kimi_k3": thoughts[4],
	"minimax_m3": thoughts[5], "seed_oss": thoughts[6], "apriel": thoughts[7], "granite": thoughts[8], "solar_open2": thoughts[9],
	"solar_open": thoughts[10],
}

// CallNames are the names that Named takes for calls.
func CallNames() []string {
	list := []string{genericName}
	for i := range candidates {
		list = append(list, candidates[i].name)
	}
	for name := range peerNames {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// ThoughtNames are the names that Named takes for thoughts.
func ThoughtNames() []string {
	list := []string{none}
	for name := range thoughtNames {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// Named is the family of a template whose form of calls, of thoughts, or both are named by hand. What has no name is found, as Detect does.
func Named(t *chat.Template, calls, thoughts string) (*Family, error) {
	f := Detect(t)
	marks := f.thought
	thinks := f.Thinks
	switch form, ok := thoughtNames[thoughts]; {
	case ok:
		marks, thinks = form, true
	case thoughts == none:
		marks, thinks = nil, false
	case thoughts != "":
		return nil, fmt.Errorf("no form of thoughts is called %q; there are %s", thoughts, strings.Join(ThoughtNames(), ", "))
	}
	m, l, name := f.calls, f.layout, f.Name
	if calls != "" {
		c := candidateOf(calls)
		if c == nil {
			return nil, fmt.Errorf("no form of calls is called %q; there are %s", calls, strings.Join(CallNames(), ", "))
		}
		m, l, name = c.calls, c.layout, c.name
	}
	if m.messages != nil && thoughts != "" {
		return nil, fmt.Errorf("the thoughts of %s are messages of their own, so %q cannot mark them; leave the form of thoughts out", name, thoughts)
	}
	g := newFamily(name, m, l, marks)
	g.Thinks = thinks || m.messages != nil
	g.verify(t)
	g.findThoughtField(t)
	return g, nil
}

// candidateOf finds a form of calls by its name, or by vLLM's.
func candidateOf(name string) *candidate {
	if own, ok := peerNames[name]; ok {
		name = own
	}
	if name == genericName {
		return &candidate{name: name, calls: hermes, layout: hermesLayout}
	}
	for i := range candidates {
		if candidates[i].name == name {
			return &candidates[i]
		}
	}
	return nil
}
