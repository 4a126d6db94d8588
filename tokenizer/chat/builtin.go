package chat

import (
	"maps"
	"slices"
)

// Builtin is a common prompt format, for models that have no chat template.
type Builtin struct {
	Name   string
	Source string
	Tokens []string // control tokens that the format needs in a vocabulary
}

// ChatML is the name of OpenAI's format, from which most others are derived.
const ChatML = "chatml"

// FindBuiltin finds a format by name.
func FindBuiltin(name string) (Builtin, bool) {
	b, ok := builtinFormats[name]
	b.Name = name
	return b, ok
}

// BuiltinOf finds the format of a vocabulary: the first one whose control tokens are all in it. has reports whether a token is. A
// vocabulary with ChatML's was trained on that, whatever else it has.
func BuiltinOf(has func(token string) bool) (Builtin, bool) {
	for _, name := range BuiltinNames() {
		b, _ := FindBuiltin(name)
		if len(b.Tokens) > 0 && !slices.ContainsFunc(b.Tokens, func(t string) bool { return !has(t) }) {
			return b, true
		}
	}
	return Builtin{}, false
}

// BuiltinNames lists the formats, sorted.
func BuiltinNames() []string { return slices.Sorted(maps.Keys(builtinFormats)) }

var builtinFormats = map[string]Builtin{
	ChatML: {
		Tokens: []string{"<|im_start|>", "<|im_end|>"},
		Source: `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}` +
			`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`,
	},
	"llama2": {
		// The system text goes into the first message of the user.
		Source: `{% set ns = namespace(system='') %}{% for m in messages %}` +
			`{% if m.role == 'system' %}{% set ns.system = '<<SYS>>\n' + m.content + '\n<</SYS>>\n\n' %}` +
			`{% elif m.role == 'user' %}{{ bos_token + '[INST] ' + ns.system + m.content + ' [/INST]' }}{% set ns.system = '' %}` +
			`{% else %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}`,
	},
	"llama3": {
		Tokens: []string{"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
		Source: `{{ bos_token }}{% for m in messages %}` +
			`{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}` +
			`{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}`,
	},
	"gemma": {
		// The format has no system role; the system text goes before the user's.
		Tokens: []string{"<start_of_turn>", "<end_of_turn>"},
		Source: `{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}` +
			`{% if m.role == 'system' %}{% set ns.system = m.content | trim + '\n\n' %}{% else %}` +
			`{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + ns.system +` +
			` m.content | trim + '<end_of_turn>\n' }}` +
			`{% set ns.system = '' %}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}`,
	},
	"gemma4": {
		// Thinking is off as in Google's template for it: the prompt closes an empty thought.
		Tokens: []string{"<|turn>", "<turn|>", "<|channel>", "<channel|>"},
		Source: `{{ bos_token }}{% set rest = messages %}{% set system = messages and messages[0].role in ['system', 'developer'] %}` +
			`{% if enable_thinking or system %}{{ '<|turn>system\n' }}{% if enable_thinking %}{{ '<|think|>\n' }}{% endif %}` +
			`{% if system %}{{ messages[0].content | trim }}{% set rest = messages[1:] %}{% endif %}{{ '<turn|>\n' }}{% endif %}` +
			`{% for m in rest %}` +
			`{{ '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + m.content | trim + '<turn|>\n' }}{% endfor %}` +
			`{% if add_generation_prompt %}{{ '<|turn>model\n' }}{% if not enable_thinking %}{{ '<|channel>thought\n<channel|>' }}` +
			`{% endif %}{% endif %}`,
	},
	"zephyr": {
		Source: `{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% endfor %}` +
			`{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}`,
	},
}
