package openai

import (
	"encoding/json"

	"weir/api"
)

// unserved is a field of the OpenAI API or of its well-known relatives that
// this server knows and does not serve.
type unserved struct {
	wayOut   string
	nothing  func(json.RawMessage) bool // tells values that mean the same as leaving the field out
	harmless func(json.RawMessage) bool // tells values that change no answer in kind; nil: all others do
}

var unsupportedFields = map[string]unserved{
	"tools":                  {"use /v1/chat/completions", isEmptyArray, nil},
	"tool_choice":            {"use /v1/chat/completions, together with tools", isText("none"), isText("auto")},
	"parallel_tool_calls":    {"use /v1/chat/completions, together with tools", nil, isAny},
	"functions":              {"use tools of /v1/chat/completions", isEmptyArray, nil},
	"function_call":          {"leave it out, or use tool_choice together with tools", isText("none"), isText("auto")},
	"audio":                  {"leave it out: models here write text", nil, nil},
	"modalities":             {`leave it out, or send ["text"]`, isTextModality, nil},
	"prediction":             {"leave it out", nil, isAny},
	"include_reasoning":      {"use /v1/chat/completions", nil, isAny},
	"thinking_token_budget":  {"bound the answer with max_tokens", nil, nil},
	"thinking_budget_tokens": {"bound the answer with max_tokens", nil, nil},
	"verbosity":              {"ask for it in a message", nil, isAny},
	"web_search_options":     {"leave it out: the server reaches nothing outside", nil, nil},
	"moderation":             {"leave it out", nil, nil},
	"store":                  {"leave it out, or send false: nothing is stored", isWord("false"), isAny},
	"best_of":                {"use n and choose yourself", isWord("1"), nil},
	"suffix":                 {"write a fill-in-the-middle prompt with the model's own tokens", isText(""), nil},
	"use_beam_search":        {"leave it out: sampling is the only method", isWord("false"), nil},
	"length_penalty":         {"leave it out: it belongs to beam search", isWord("1"), isAny},
	"echo":                   {"use /v1/completions", isWord("false"), nil},
	"prompt":                 {"use /v1/completions", nil, nil},
	"messages":               {"use /v1/chat/completions", nil, nil},
	"logprob_token_ids":      {"use top_logprobs, or logprobs of /v1/completions", isEmptyArray, nil},
	"n_probs":                {"use logprobs", isWord("0"), nil},
	"truncation_side":        {"send the part of the prompt that should stay: truncate_prompt_tokens keeps its end", isText("left"), nil},
	"prompt_embeds":          {"send text or token ids", isEmptyArray, nil},
	"logits_processors":      {"use logit_bias", isEmptyArray, nil},
	"lora":                   {"leave it out: no adapters are loaded", isEmptyArray, nil},
	"cache_salt":             {"leave it out: the prefix cache is private to an API key", nil, nil},
	"chat_template":          {"leave it out: the model's own template is used", nil, nil},
	"reasoning_effort":       {"leave it out: only chats have a template that it could reach", nil, isAny},
	"documents":              {"put the documents into a message", isEmptyArray, nil},
	"mm_processor_kwargs":    {"leave it out: models here read text", nil, isAny},
	"mirostat":               {"use temperature, top_p or min_p", isWord("0"), nil},
	"session_id":             {"leave it out: the prefix cache needs no session", nil, isAny},
}

// judge refuses a field that nobody read, or ignores it.
func (u unserved) judge(o *object, f field, fault **api.Error) {
	switch {
	case isNull(f.raw) || u.nothing != nil && u.nothing(f.raw):
	case u.harmless != nil && u.harmless(f.raw):
		o.ignored(f.name, unsupported(f.name, u.wayOut), fault)
	default:
		keep(fault, unsupported(f.name, u.wayOut))
	}
}

func isAny(json.RawMessage) bool { return true }

func isEmptyArray(raw json.RawMessage) bool {
	list, err := parseArray("", raw, 1)
	return err == nil && len(list) == 0
}

func isWord(word string) func(json.RawMessage) bool {
	return func(raw json.RawMessage) bool { return string(raw) == word }
}

func isText(text string) func(json.RawMessage) bool {
	return func(raw json.RawMessage) bool {
		s, err := parseString("", raw)
		return err == nil && s == text
	}
}

func isTextModality(raw json.RawMessage) bool {
	list, err := parseArray("", raw, 1)
	return err == nil && len(list) == 1 && isText("text")(list[0])
}
