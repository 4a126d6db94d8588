package params

import (
	"encoding/json"

	"weir/api/openai/jsonbody"
)

// Unsupported are those of a request that generates.
var Unsupported = map[string]jsonbody.Unserved{
	"tools":                  {WayOut: "use /v1/chat/completions", Nothing: jsonbody.IsEmptyArray},
	"tool_choice":            {WayOut: "use /v1/chat/completions, together with tools", Nothing: jsonbody.IsText("none"), Harmless: jsonbody.IsText("auto")},
	"parallel_tool_calls":    {WayOut: "use /v1/chat/completions, together with tools", Harmless: jsonbody.IsAny},
	"functions":              {WayOut: "use tools of /v1/chat/completions", Nothing: jsonbody.IsEmptyArray},
	"function_call":          {WayOut: "leave it out, or use tool_choice together with tools", Nothing: jsonbody.IsText("none"), Harmless: jsonbody.IsText("auto")},
	"audio":                  {WayOut: "leave it out: models here write text"},
	"modalities":             {WayOut: `leave it out, or send ["text"]`, Nothing: isTextModality},
	"prediction":             {WayOut: "leave it out", Harmless: jsonbody.IsAny},
	"include_reasoning":      {WayOut: "use /v1/chat/completions", Harmless: jsonbody.IsAny},
	"thinking_token_budget":  {WayOut: "bound the answer with max_tokens"},
	"thinking_budget_tokens": {WayOut: "bound the answer with max_tokens"},
	"verbosity":              {WayOut: "ask for it in a message", Harmless: jsonbody.IsAny},
	"web_search_options":     {WayOut: "leave it out: the server reaches nothing outside"},
	"moderation":             {WayOut: "leave it out"},
	"store":                  {WayOut: "leave it out, or send false: nothing is stored", Nothing: jsonbody.IsWord("false"), Harmless: jsonbody.IsAny},
	"best_of":                {WayOut: "use n and choose yourself", Nothing: jsonbody.IsWord("1")},
	"suffix":                 {WayOut: "use /v1/completions", Nothing: jsonbody.IsText("")},
	"use_beam_search":        {WayOut: "leave it out: sampling is the only method", Nothing: jsonbody.IsWord("false")},
	"length_penalty":         {WayOut: "leave it out: it belongs to beam search", Nothing: jsonbody.IsWord("1"), Harmless: jsonbody.IsAny},
	"echo":                   {WayOut: "use /v1/completions", Nothing: jsonbody.IsWord("false")},
	"prompt":                 {WayOut: "use /v1/completions"},
	"messages":               {WayOut: "use /v1/chat/completions"},
	"n_probs":                {WayOut: "use logprobs", Nothing: jsonbody.IsWord("0")},
	"prompt_embeds":          {WayOut: "send text or token ids", Nothing: jsonbody.IsEmptyArray},
	"logits_processors":      {WayOut: "use logit_bias", Nothing: jsonbody.IsEmptyArray},
	"lora":                   {WayOut: "leave it out, and name the adapter as the model", Nothing: jsonbody.IsEmptyArray},
	"cache_salt":             {WayOut: "leave it out: the prefix cache is private to an API key"},
	"chat_template":          {WayOut: "leave it out: the model's own template is used"},
	"reasoning_effort":       {WayOut: "leave it out: only chats have a template that it could reach", Harmless: jsonbody.IsAny},
	"documents":              {WayOut: "put the documents into a message", Nothing: jsonbody.IsEmptyArray},
	"mm_processor_kwargs":    {WayOut: "leave it out: models here read text", Harmless: jsonbody.IsAny},
	"mirostat":               {WayOut: "use temperature, top_p or min_p", Nothing: jsonbody.IsWord("0")},
	"session_id":             {WayOut: "leave it out: the prefix cache needs no session", Harmless: jsonbody.IsAny},
}

func isTextModality(raw json.RawMessage) bool {
	list, err := jsonbody.Array("", raw, 1)
	return err == nil && len(list) == 1 && jsonbody.IsText("text")(list[0])
}
