package openapi

// Fields that requests of several APIs have.

// answerFields are what every generation takes: lengths, sampling, formats of the answer, when it is served.
func answerFields() []field {
	return []field{
		may("model", text("The model's name or alias; a server with one model needs none")),
		may("stream", flag("The answer comes as server-sent events")),
		may("stream_options", object("", may("include_usage", flag("")), may("continuous_usage_stats", flag("Usage with every event")),
			may("include_progress", flag("Comments with the place in the waiting queue and the prefilled tokens")), may("include_obfuscation", flag("Without effect")))),
		may("max_tokens", integer("Most tokens of the answer; -1: as many as fit")),
		may("max_completion_tokens", integer("As max_tokens")), may("n_predict", integer("As max_tokens, llama.cpp's name")),
		may("min_tokens", integer("No end before so many tokens")), may("ignore_eos", flag("The model's own end does not end the answer")),
		may("stop", textOrTexts("Up to 16 texts that end the answer")), may("stop_token_ids", list("", integer(""))), may("include_stop_str_in_output", flag("")),
		may("n", within(integer("Answers to the prompt"), 1, 128)), may("seed", integer("")),
		may("temperature", within(number("0: always the likeliest token"), 0, 2)), may("top_p", within(number(""), 0, 1)), may("top_k", integer("-1 and 0: all")),
		may("min_p", within(number(""), 0, 1)), may("typical_p", within(number(""), 0, 1)),
		may("repetition_penalty", number("")), may("repeat_penalty", number("As repetition_penalty, llama.cpp's name")),
		may("presence_penalty", within(number(""), -2, 2)), may("frequency_penalty", within(number(""), -2, 2)),
		may("logit_bias", Schema{"type": "object", "additionalProperties": number(""), "description": "What is added to the logits of token ids"}),
		may("allowed_token_ids", list("No other tokens", integer(""))), may("bad_words", list("Texts that the answer must not have", text(""))),
		may("response_format", either("What the answer must look like", object("", need("type", words("", "text", "json_object", "structural_tag", "json_schema", "regex", "grammar")),
			may("json_schema", object("", may("name", text("")), may("description", text("")), may("schema", open("A JSON Schema")), may("strict", flag(""))))))),
		may("structured_outputs", open("vLLM's: one of json, json_object, regex, choice, grammar, structural_tag")),
		may("guided_json", Schema{}), may("guided_regex", text("")), may("guided_choice", list("", text(""))), may("guided_grammar", text("")),
		may("guided_whitespace_pattern", text("")), may("guided_decoding_backend", text("Ignored")),
		may("json_schema", Schema{}), may("regex", text("")), may("grammar", text("")), may("ebnf", text("")), may("any_order", flag("Properties of JSON objects in any order")),
		may("schema_documents", open("Documents by address that $ref of schemas names")),
		may("prompt_logprobs", integer("So many log-probabilities of each token of the prompt")), may("return_token_ids", flag("")), may("return_tokens_as_token_ids", flag("")),
		may("skip_special_tokens", flag("")), may("request_id", text("")), may("truncate_prompt_tokens", integer("Keeps so many of the last tokens")),
		may("service_tier", words("", "auto", "default", "flex", "priority", "fast", "scale", "batch")), may("priority", integer("vLLM's: below 0 is served before others")),
		may("ttft_deadline_ms", integer("When the first token is due, after the request's arrival")), may("deadline_ms", integer("When the whole answer is due")),
		may("speculative_ngram", flag("")), may("cache_salt", text("Goes to models of other servers")),
		may("user", text("Without effect")), may("safety_identifier", text("Without effect")), may("prompt_cache_key", text("Without effect")), may("metadata", open("")),
	}
}

// chatFields are what a conversation takes beside answerFields, whatever the API that it comes by.
func chatFields() []field {
	return []field{
		may("add_generation_prompt", flag("")), may("continue_final_message", flag("The answer goes on with the last message")),
		may("add_special_tokens", flag("")), may("chat_template_kwargs", open("Variables of the template")),
		may("reasoning_effort", text("none, minimal, low, medium, high, xhigh, max: reaches the template")), may("enable_thinking", flag("")),
		may("include_reasoning", flag("")), may("thinking_token_budget", integer("Most tokens of a thought; -1: as many as the model likes")),
		may("thinking_budget_tokens", integer("As thinking_token_budget")), may("parallel_tool_calls", flag("More than one call is allowed")),
		may("verbosity", text("")), may("documents", list("Reach the template", Schema{})),
	}
}

var schemas = map[string]Schema{
	"Fault": object("An error, as OpenAI's clients read it", need("error", object("", need("message", text("")), need("type", text("")), need("param", null(text("The field at fault"))), need("code", null(text("")))))),
	"MessagesFault": object("An error, as Anthropic's clients read it", need("type", words("", "error")), need("error", object("", need("type", text("")), need("message", text("")), may("details", open("")))),
		may("request_id", text(""))),
	"PredictFault": object("An error of a prediction", need("error", text(""))),

	"ChatRequest": object("", append(append(answerFields(), chatFields()...),
		need("messages", list("", named("ChatMessage"))), may("tools", list("", named("ChatTool"))), may("tool_choice", named("ChatToolChoice")),
		may("functions", list("Older than tools", Schema{})), may("function_call", Schema{}), may("echo", flag("")),
		may("logprobs", flag("")), may("top_logprobs", integer("")), may("store", flag("The answer is kept, for GET /v1/chat/completions")))...),
	"ChatMessage": object("", need("role", words("", "system", "developer", "user", "assistant", "tool", "function")),
		may("content", null(either("", text(""), list("", object("", need("type", words("", "text", "refusal")), may("text", text("")), may("refusal", text(""))))))),
		may("name", text("")), may("reasoning_content", null(text("A thought of the assistant's"))), may("reasoning", null(text("As reasoning_content"))),
		may("tool_calls", null(list("", named("ChatCall")))), may("function_call", Schema{}), may("tool_call_id", text("")), may("refusal", null(text(""))), may("annotations", Schema{}), may("audio", Schema{})),
	"ChatCall": object("", need("id", text("")), need("type", words("", "function", "custom")), may("index", integer("")),
		may("function", object("", need("name", text("")), need("arguments", text("JSON")))), may("custom", object("", need("name", text("")), need("input", text(""))))),
	"ChatTool": object("", need("type", words("", "function", "custom")),
		may("function", object("", need("name", text("")), may("description", text("")), may("parameters", open("A JSON Schema")), may("strict", null(flag(""))))),
		may("custom", object("", need("name", text("")), may("description", text("")), may("format", object("", need("type", words("", "text", "grammar")),
			may("grammar", object("", need("syntax", words("", "lark", "regex")), need("definition", text(""))))))))),
	"ChatToolChoice": either("", words("", "none", "auto", "required"), object("", need("type", words("", "function", "custom", "allowed_tools")),
		may("function", object("", need("name", text("")))), may("custom", object("", need("name", text("")))),
		may("allowed_tools", object("", need("mode", words("", "auto", "required")), need("tools", list("", Schema{})))))),
	"ChatAnswer": object("", need("id", text("")), need("object", text("")), need("created", integer("Unix time")), need("model", text("")),
		need("choices", list("", object("", need("index", integer("")), need("message", named("ChatMessage")), need("finish_reason", null(text("stop, length, tool_calls, content_filter"))), may("logprobs", Schema{})))),
		may("usage", named("Usage")), may("service_tier", null(text("")))),
	"CompletionRequest": object("", append(answerFields(), may("prompt", either("", text(""), list("Texts, token ids, or lists of token ids", Schema{}))), may("suffix", text("What follows the answer, for models that fill in the middle")),
		may("echo", flag("The answer begins with the prompt")), may("logprobs", integer("")), may("add_special_tokens", flag("")), may("parse_special", flag("Control tokens in the text are read as such")))...),
	"CompletionAnswer": object("", need("id", text("")), need("object", text("")), need("created", integer("")), need("model", text("")),
		need("choices", list("", object("", need("index", integer("")), need("text", text("")), need("finish_reason", null(text(""))), may("logprobs", Schema{})))), may("usage", named("Usage"))),
	"Usage": object("", need("prompt_tokens", integer("")), need("completion_tokens", integer("")), need("total_tokens", integer("")),
		may("prompt_tokens_details", Schema{}), may("completion_tokens_details", Schema{})),

	"ResponseRequest": object("", append(append(answerFields(), chatFields()...),
		need("input", either("", text(""), list("", named("Item")))), may("instructions", null(text("Goes before the input"))), may("max_output_tokens", integer("")),
		may("tools", list("Functions, custom tools, and namespaces of them; others are left out", Schema{})), may("tool_choice", Schema{}), may("max_tool_calls", integer("")),
		may("text", object("", may("format", open("")), may("verbosity", text("")))), may("reasoning", object("", may("effort", text("")), may("summary", text("")))),
		may("include", list("", text(""))), may("top_logprobs", integer("")), may("truncation", words("", "auto", "disabled")),
		may("store", flag("The response is kept; true unless said otherwise")), may("background", flag("The response is computed without its client")),
		may("previous_response_id", text("The conversation of this response goes before the input")))...),
	"Item": object("", may("type", words("", "message", "reasoning", "function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output")),
		may("id", text("")), may("role", text("")), may("content", Schema{}), may("call_id", text("")), may("name", text("")), may("namespace", text("")), may("arguments", text("")),
		may("input", text("")), may("output", Schema{}), may("summary", Schema{}), may("encrypted_content", Schema{"description": "Not read"})),
	"Response": object("", need("id", text("")), need("object", words("", "response")), need("created_at", integer("")),
		need("status", words("", "queued", "in_progress", "completed", "incomplete", "failed", "cancelled")), need("output", list("", named("Item"))), need("model", text("")),
		may("error", Schema{}), may("usage", Schema{}), may("incomplete_details", Schema{}), may("previous_response_id", null(text("")))),

	"Model": object("", need("id", text("")), need("object", words("", "model")), need("created", integer("")), need("owned_by", text("")), may("max_model_len", integer("")),
		may("kind", words("", "generate", "embedding", "rerank")), may("dimensions", integer("")), may("version", text("")), may("state", text(""))),
}

var openaiOperations = map[string]Operation{
	"POST /v1/chat/completions": {Group: groupOpenAI, Summary: "A chat", Body: named("ChatRequest"), Answer: named("ChatAnswer"), Streams: true},
	"POST /v1/completions":      {Group: groupOpenAI, Summary: "A completion of a text", Body: named("CompletionRequest"), Answer: named("CompletionAnswer"), Streams: true},
	"POST /v1/responses":        {Group: groupOpenAI, Summary: "A response: items in, items out", Body: named("ResponseRequest"), Answer: named("Response"), Streams: true},
	"GET /v1/responses/{id}": {Group: groupOpenAI, Summary: "A kept response, or its events", Answer: named("Response"), Streams: true,
		Query: []Query{{"stream", "The events instead of the object", flag("")}, {"starting_after", "Events behind the one of this number", integer("")}}},
	"DELETE /v1/responses/{id}":      {Group: groupOpenAI, Summary: "Deletes a kept response"},
	"POST /v1/responses/{id}/cancel": {Group: groupOpenAI, Summary: "Ends a response in the background", Answer: named("Response")},
	"GET /v1/responses/{id}/input_items": {Group: groupOpenAI, Summary: "What the request of a response added", Query: []Query{
		{"limit", "", within(integer(""), 1, 100)}, {"order", "", words("", "asc", "desc")}, {"after", "An item's id", text("")}}},
	"GET /v1/models":      {Group: groupOpenAI, Summary: "The models; with the header anthropic-version in Anthropic's form", Answer: object("", need("object", text("")), need("data", list("", named("Model"))))},
	"GET /v1/models/{id}": {Group: groupOpenAI, Summary: "One model, by its name or an alias", Answer: named("Model")},
	"POST /v1/moderations": {Group: groupOpenAI, Summary: "Which categories of a model's policy a text falls under",
		Body: object("", may("model", text("")), need("input", either("", text(""), list("", Schema{}))))},
	"GET /v1/usage": {Group: groupServer, Summary: "What the caller's tenant used, and what is left of its limits"},
	"POST /v1/outcomes": {Group: groupServer, Summary: "What came of an answer, for rollouts",
		Body: object("", need("id", text("Of the answer")), may("outcome", text("")), may("label", Schema{}), may("conversion", Schema{}), may("thumb", Schema{}))},
}
