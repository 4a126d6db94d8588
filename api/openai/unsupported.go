package openai

import (
	"encoding/json"

	"weir/api"
)

// unsupportedFields are fields of the OpenAI API and of its well-known
// relatives that this server knows and does not serve, each with the way out.
// allows tells values that mean the same as leaving the field out.
var unsupportedFields = map[string]struct {
	wayOut string
	allows func(json.RawMessage) bool
}{
	"tools":                  {"leave it out and describe the tools in a message", isEmptyArray},
	"tool_choice":            {"leave it out together with tools", isText("none")},
	"parallel_tool_calls":    {"leave it out together with tools", nil},
	"functions":              {"leave it out and describe the functions in a message", isEmptyArray},
	"function_call":          {"leave it out together with functions", isText("none")},
	"response_format":        {`leave it out, or send {"type":"text"}, and ask for the format in a message`, isTextFormat},
	"structured_outputs":     {"ask for the format in a message", nil},
	"guided_json":            {"ask for the format in a message", nil},
	"guided_regex":           {"ask for the format in a message", nil},
	"guided_choice":          {"ask for the format in a message", nil},
	"guided_grammar":         {"ask for the format in a message", nil},
	"grammar":                {"ask for the format in a message", nil},
	"json_schema":            {"ask for the format in a message", nil},
	"regex":                  {"ask for the format in a message", nil},
	"audio":                  {"leave it out: models here write text", nil},
	"modalities":             {`leave it out, or send ["text"]`, isTextModality},
	"prediction":             {"leave it out", nil},
	"reasoning_effort":       {"set what the model's template knows in chat_template_kwargs", nil},
	"include_reasoning":      {"leave it out: the model's text comes as it is", nil},
	"thinking_token_budget":  {"bound the answer with max_completion_tokens", nil},
	"verbosity":              {"ask for it in a message", nil},
	"web_search_options":     {"leave it out: the server reaches nothing outside", nil},
	"moderation":             {"leave it out", nil},
	"store":                  {"leave it out, or send false: nothing is stored", isWord("false")},
	"best_of":                {"use n and choose yourself", isWord("1")},
	"suffix":                 {"write a fill-in-the-middle prompt with the model's own tokens", isText("")},
	"use_beam_search":        {"leave it out: sampling is the only method", isWord("false")},
	"length_penalty":         {"leave it out: it belongs to beam search", isWord("1")},
	"priority":               {"leave it out: requests are served in the order of arrival", isWord("0")},
	"prompt_logprobs":        {"use /v1/completions with echo and logprobs", nil},
	"allowed_token_ids":      {"use logit_bias", isEmptyArray},
	"bad_words":              {"use logit_bias", isEmptyArray},
	"logits_processors":      {"use logit_bias", isEmptyArray},
	"truncate_prompt_tokens": {"shorten the prompt before sending it; /tokenize counts", nil},
	"cache_salt":             {"leave it out: the prefix cache is private to an API key", nil},
	"chat_template":          {"leave it out: the model's own template is used", nil},
	"documents":              {"put the documents into a message", isEmptyArray},
	"mm_processor_kwargs":    {"leave it out: models here read text", nil},
	"request_id":             {"send the header x-request-id", nil},
	"mirostat":               {"use temperature, top_p or min_p", isWord("0")},
	"session_id":             {"leave it out: the prefix cache needs no session", nil},
	"deadline_ms":            {"hang up: a closed connection ends the request", nil},
}

// refusal says why a field that nobody read is refused; nil if its value
// means nothing.
func refusal(f field) *api.Error {
	known, ok := unsupportedFields[f.name]
	switch {
	case !ok:
		return unknown(join("", f.name))
	case isNull(f.raw) || known.allows != nil && known.allows(f.raw):
		return nil
	}
	return unsupported(f.name, known.wayOut)
}

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

func isTextFormat(raw json.RawMessage) bool {
	o, err := parseObject("", raw, 1)
	return err == nil && len(o.fields) == 1 && o.fields[0].name == "type" && isText("text")(o.fields[0].raw)
}

func isTextModality(raw json.RawMessage) bool {
	list, err := parseArray("", raw, 1)
	return err == nil && len(list) == 1 && isText("text")(list[0])
}
