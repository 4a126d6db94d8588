package openai

import (
	"encoding/json"
	"strconv"

	"weir/api"
	"weir/internal/inference"
)

var (
	temperatureRange = interval{low: 0, high: 2}
	topPRange        = interval{low: 0, high: 1, openLow: true}
	minPRange        = interval{low: 0, high: 1}
	repetitionRange  = interval{low: 0, high: 10, openLow: true}
	penaltyRange     = interval{low: -2, high: 2}
	biasRange        = interval{low: -100, high: 100}
)

// readSampling reads the sampler's parameters; names and ranges are those of
// the OpenAI API and, for what it lacks, of vLLM.
func readSampling(o *object, m *Model, fault **api.Error) inference.Sampling {
	s := inference.DefaultSampling()
	s.Temperature = o.number("temperature", temperatureRange, s.Temperature, fault)
	s.TopP = o.number("top_p", topPRange, s.TopP, fault)
	s.TopK = max(0, o.count("top_k", -1, maxInt32, 0, fault))
	s.MinP = o.number("min_p", minPRange, s.MinP, fault)
	s.TypicalP = o.number("typical_p", topPRange, s.TypicalP, fault)
	s.RepetitionPenalty = o.number("repetition_penalty", repetitionRange, s.RepetitionPenalty, fault)
	s.PresencePenalty = o.number("presence_penalty", penaltyRange, s.PresencePenalty, fault)
	s.FrequencyPenalty = o.number("frequency_penalty", penaltyRange, s.FrequencyPenalty, fault)
	s.LogitBias = readLogitBias(o, m, fault)
	s.Seed = seed(o, fault)
	return s
}

// readLogitBias reads a map of token ids, written as strings, to biases.
func readLogitBias(o *object, m *Model, fault **api.Error) []inference.TokenBias {
	raw, ok := o.take("logit_bias")
	if !ok {
		return nil
	}
	entries, err := parseObject("logit_bias", raw, maxBiases)
	if err != nil {
		keep(fault, err)
		return nil
	}
	biases := make([]inference.TokenBias, 0, len(entries.fields))
	for _, f := range entries.fields {
		b, err := parseBias(f, m.Tokenizer.Size())
		if err != nil {
			keep(fault, err)
			return nil
		}
		biases = append(biases, b)
	}
	return biases
}

func parseBias(f field, size int) (inference.TokenBias, *api.Error) {
	path := join("logit_bias", f.name)
	id, err := strconv.ParseUint(f.name, 10, 31)
	if err != nil || int(id) >= size || strconv.FormatUint(id, 10) != f.name {
		return inference.TokenBias{}, badRequest("invalid_value", "logit_bias",
			"logit_bias has the key %s; keys are token ids from 0 to %d", strconv.Quote(quote([]byte(f.name))), size-1)
	}
	v, fault := parseNumber(path, f.raw, biasRange)
	return inference.TokenBias{ID: inference.TokenID(id), Bias: float32(v)}, fault
}

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
