package openapi

// ollamaFields are those of chats and prompts.
func ollamaFields() []field {
	return []field{
		need("model", text("")), may("stream", flag("On unless false: the answer is lines of JSON")), may("format", either(`"json", or a JSON schema`, text(""), open(""))),
		may("think", either("", flag(""), words("", "low", "medium", "high", "max"))), may("keep_alive", either("Seconds, or a duration such as 5m; of callers with the scope admin", number(""), text(""))),
		may("logprobs", flag("")), may("top_logprobs", within(integer(""), 0, 20)), may("truncate", flag("On unless false: the oldest messages are left out of what does not fit")),
		may("shift", flag("Without effect")),
		may("options", object("", may("num_predict", integer("")), may("num_ctx", integer("")), may("temperature", number("")), may("top_k", integer("")), may("top_p", number("")), may("min_p", number("")),
			may("typical_p", number("")), may("seed", integer("")), may("stop", list("", text(""))), may("repeat_penalty", number("")), may("repeat_last_n", integer("")),
			may("presence_penalty", number("")), may("frequency_penalty", number("")))),
	}
}

// ollamaEnd are the fields of the last line of an answer.
func ollamaEnd() []field {
	return []field{need("model", text("")), need("created_at", text("")), need("done", flag("")), may("done_reason", text("")), may("total_duration", integer("Nanoseconds")),
		may("load_duration", integer("")), may("prompt_eval_count", integer("")), may("prompt_eval_duration", integer("")), may("eval_count", integer("")), may("eval_duration", integer("")),
		may("logprobs", list("", open("")))}
}

func ollamaMessage() Schema {
	return object("", need("role", words("", "system", "user", "assistant", "tool")), may("content", text("")), may("thinking", text("")), may("tool_name", text("")), may("tool_call_id", text("")),
		may("images", list("Refused", text(""))), may("tool_calls", list("", object("", may("id", text("")), need("function", object("", need("name", text("")), may("arguments", open(""))))))))
}

const ollamaRefused = "Refused: weir models changes models"

var ollamaOperations = map[string]Operation{
	"POST /api/chat": {Group: groupOllama, Summary: "A chat", Lines: true,
		Body:   object("", append(ollamaFields(), need("messages", list("", ollamaMessage())), may("tools", list("", named("ChatTool"))))...),
		Answer: object("", append(ollamaEnd(), need("message", ollamaMessage()))...)},
	"POST /api/generate": {Group: groupOllama, Summary: "An answer to a prompt", Lines: true,
		Body: object("", append(ollamaFields(), may("prompt", text("")), may("system", text("")), may("suffix", text("")), may("raw", flag("The prompt is read as it is")),
			may("template", text("Of Go, with .System, .Prompt, .Suffix and .Messages")), may("context", list("Tokens of an earlier answer", integer(""))), may("images", list("Refused", text(""))))...),
		Answer: object("", append(ollamaEnd(), need("response", text("")), may("thinking", text("")), may("context", list("", integer(""))))...)},
	"POST /api/embed": {Group: groupOllama, Summary: "Vectors of texts", Body: object("", need("model", text("")), may("input", either("", text(""), list("", text("")))), may("truncate", flag("")), may("dimensions", integer(""))),
		Answer: object("", need("model", text("")), need("embeddings", list("", list("", number("")))), may("total_duration", integer("")), may("load_duration", integer("")), may("prompt_eval_count", integer("")))},
	"POST /api/embeddings": {Group: groupOllama, Summary: "The vector of a text", Body: object("", need("model", text("")), may("prompt", text(""))), Answer: object("", need("embedding", list("", number(""))))},
	"GET /api/tags":        {Group: groupOllama, Summary: "The models", Answer: object("", need("models", list("", open(""))))},
	"GET /api/ps":          {Group: groupOllama, Summary: "The models in memory", Answer: object("", need("models", list("", open(""))))},
	"POST /api/show":       {Group: groupOllama, Summary: "What is known of a model", Body: object("", may("model", text("")), may("name", text("")), may("verbose", flag(""))), Answer: object("", need("details", open("")), need("model_info", open("")))},
	"GET /api/version":     {Group: groupOllama, Summary: "The release of Ollama whose API this is", Answer: object("", need("version", text("")))},
	"POST /api/pull":       {Group: groupOllama, Summary: "Brings a model in (--allow-pull), or tells that it is here", Lines: true, Body: object("", may("model", text("")), may("name", text("")), may("stream", flag(""))), Answer: object("", need("status", text("")))},
	"POST /api/push":       {Group: groupOllama, Summary: ollamaRefused},
	"POST /api/create":     {Group: groupOllama, Summary: ollamaRefused},
	"POST /api/copy":       {Group: groupOllama, Summary: ollamaRefused},
	"DELETE /api/delete":   {Group: groupOllama, Summary: ollamaRefused},
	"POST /api/blobs/{id}": {Group: groupOllama, Summary: ollamaRefused},
}
