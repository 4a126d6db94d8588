package configs

import (
	"encoding/json"
	"strings"

	"weir/api/openai/models"
)

// Model says what is served and under which names.
type Model struct {
	Path         string   // a GGUF file; empty is the embedded model
	Engine       string   // one of Engines
	ChatTemplate string   // a file or the name of a format; empty: the model's own
	TemplateArgs string   // what the template knows where a request's chat_template_kwargs do not say, a JSON object; empty: nothing
	Calls        string   // the form of tool calls by name; empty: as the template shows
	Thoughts     string   // the form of thoughts, the same
	HideTools    bool     // prompts of requests with tool_choice none do not list their tools
	ServedNames  []string // the first is the model's id, the rest are aliases; none: the file's name
	Prompts      []string // of a text encoder, each NAME=TEXT; see TaskPrompts
	Safety       string   // name of a policy, or NoPolicy; empty: that of the version, if it has one
	OwnSafety    string   // the policy that belongs to the version, as JSON; empty: none
	MemoryBytes  int64    // of all language models and encoders; 0: what is free at the start

	Adapters    []string // LoRA adapters, each NAME=PATH or a JSON object; see LoraModules
	EnableLora  bool     // callers with the scope admin may load and unload adapters
	MaxLoras    int      // adapters of a model that are loaded at once
	MaxLoraRank int      // of an adapter

	Calibration []string // of decisions, see models.ReadCalibration

	Defaults []ModelSetting // as ServedModel's
}

// Values of Model.Engine.
const (
	NativeEngine   = "native"
	LlamaCppEngine = "llamacpp" // in builds with the tag llamacpp
)

// Engines are the values of Model.Engine.
var Engines = []string{NativeEngine, LlamaCppEngine}

// TaskPrompts are the texts that go before those of requests to a text encoder, by the
// name of a task or by an alias of the model.
func (m Model) TaskPrompts() map[string]string {
	prompts := make(map[string]string, len(m.Prompts))
	for _, p := range m.Prompts {
		name, text, _ := strings.Cut(p, "=")
		prompts[name] = text
	}
	return prompts
}

func isPrompt(s string) bool {
	name, text, ok := strings.Cut(s, "=")
	return ok && name != "" && text != ""
}

// modelSettings are those of what is served and under which names.
func modelSettings(m *Model) []Setting {
	return []Setting{
		{Key: "model.path", Flag: "model", Usage: "GGUF file, instead of the argument; empty is the built-in model",
			binding: bindText(&m.Path, "a path", anyText)},
		{Key: ModelEngineKey, Flag: "engine",
			Usage: "what computes the model: native, or llamacpp for architectures that native does not know, one request at a " +
				"time and only in builds with llama.cpp",
			binding: bindChoice(&m.Engine, Engines)},
		{Key: "model.chat_template", Flag: "chat-template",
			Usage:   "chat template: a file, or chatml, gemma, gemma4, llama2, llama3 or zephyr; empty is the model's own",
			binding: bindText(&m.ChatTemplate, "a path or a name", anyText)},
		{Key: TemplateArgsKey, Flag: "default-chat-template-kwargs",
			Usage:   `variables of the chat template where a request's chat_template_kwargs do not say, as {"enable_thinking": false}`,
			binding: bindText(&m.TemplateArgs, "a JSON object", isJSONObject)},
		{Key: CallsKey, Flag: "tool-call-parser",
			Usage:   "how the model writes tool calls: hermes, llama3_json, qwen3_coder, … (a wrong name lists all); empty is as the chat template shows",
			binding: bindText(&m.Calls, "a name", anyText)},
		{Key: ThoughtsKey, Flag: "reasoning-parser",
			Usage:   "how the model marks its thoughts: deepseek_r1, qwen3, mistral, … or none (a wrong name lists all); empty is as the chat template shows",
			binding: bindText(&m.Thoughts, "a name", anyText)},
		{Key: HideToolsKey, Flag: "exclude-tools-when-tool-choice-none",
			Usage:   "leave the tools of requests with tool_choice none out of the prompt; by default they stay, so that the prompt begins as those of the turns before",
			binding: bindBool(&m.HideTools)},
		{Key: "model.served_model_name", Flag: "served-model-name",
			Usage:   "model id in the API; repeat for aliases (default: the file's name)",
			binding: bindList(&m.ServedNames, "a name")},
		{Key: "model.embedding_prompts", Flag: "embedding-prompt",
			Usage:   "NAME=TEXT: what a text encoder reads before texts of requests with prompt_name NAME, or to the alias NAME; repeat for several",
			binding: bindNames(&m.Prompts, "a name, = and a text", isPrompt)},

		{Key: CalibrationKey, Flag: "decision-calibration",
			Usage:   "TYPE=TEMPERATURE: how decisions are calibrated, of the type predicate, choice or score, and predicate.bias=BIAS; repeat for several; weir bench quality --fit prints them",
			binding: bindNames(&m.Calibration, "TYPE=TEMPERATURE with 0.01 to 100, or predicate.bias=BIAS with -100 to 100", isCalibration)},

		{Key: LoraModulesKey, Flag: "lora-modules",
			Usage:   `NAME=FILE: a LoRA adapter in GGUF that requests get by NAME or MODEL:NAME, or {"name": …, "path": …, "scale": …}; repeat for several`,
			binding: bindNames(&m.Adapters, "a name, = and a GGUF file, or a JSON object", isLoraModule)},
		{Key: "model.enable_lora", Flag: "enable-lora",
			Usage:   "POST /v1/load_lora_adapter and /v1/unload_lora_adapter load and unload adapters, for callers with the scope admin, who without keys are all callers",
			binding: bindBool(&m.EnableLora)},
		{Key: "model.max_loras", Flag: "max-loras", Usage: "adapters of a model that are loaded at once",
			binding: bindInt(&m.MaxLoras, 1, 1024, "")},
		{Key: "model.max_lora_rank", Flag: "max-lora-rank", Usage: "largest rank of an adapter",
			binding: bindInt(&m.MaxLoraRank, 1, mostLoraRank, "")},

		{Key: "model.safety", Flag: "safety",
			Usage:   "safety policy for requests and answers, by its name in the list policies; none turns it off; empty is the one that the version was imported with, if any",
			binding: bindText(&m.Safety, "the name of a policy", anyText)},

		{Key: "model.memory_bytes", Flag: "model-memory-bytes",
			Usage: "memory for the weights and KV caches of all language models and encoders; those that are loaded on demand " +
				"make room for each other; 0 is what is free at the start",
			binding: bindBytes(&m.MemoryBytes, "")},
	}
}

// isJSONObject reports whether a text is a JSON object, or empty.
func isJSONObject(s string) bool {
	var o map[string]json.RawMessage
	return s == "" || json.Unmarshal([]byte(s), &o) == nil && o != nil
}

func isCalibration(s string) bool {
	_, err := models.ReadCalibration([]string{s})
	return err == nil
}
