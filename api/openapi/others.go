package openapi

// otherSchemas are those of requests and answers of other APIs than OpenAI's.
var otherSchemas = map[string]Schema{
	"MessageRequest": object("", append(answerFields(), need("messages", list("", object("", need("role", words("", "user", "assistant", "system")), need("content", either("", text(""), list("", named("Block"))))))),
		may("system", either("", text(""), list("", named("Block")))), may("stop_sequences", list("", text(""))),
		may("tools", list("", object("", need("name", text("")), may("type", text("custom, or bash_…, text_editor_…, memory_…")), may("description", text("")), may("input_schema", open("")), may("strict", flag(""))))),
		may("tool_choice", object("", need("type", words("", "auto", "any", "tool", "none")), may("name", text("")), may("disable_parallel_tool_use", flag("")))),
		may("thinking", object("", need("type", words("", "enabled", "adaptive", "disabled")), may("budget_tokens", integer("")), may("display", text("")))),
		may("output_config", object("", may("effort", text("")), may("format", object("", need("type", words("", "json_schema")), need("schema", open("")))))),
		may("output_format", Schema{}), may("cache_control", Schema{}), may("thread", Schema{"description": "Refused with thread_unsupported_request"}))...),
	"Block": object("", need("type", words("", "text", "thinking", "redacted_thinking", "tool_use", "tool_result")), may("text", text("")), may("thinking", text("")), may("signature", text("")),
		may("data", text("")), may("id", text("")), may("name", text("")), may("input", open("")), may("tool_use_id", text("")), may("content", Schema{}), may("is_error", flag("")), may("caller", Schema{})),
	"MessageAnswer": object("", need("id", text("")), need("type", words("", "message")), need("role", words("", "assistant")), need("content", list("", named("Block"))),
		need("stop_reason", null(text(""))), need("stop_sequence", null(text(""))), need("usage", Schema{}), need("model", text(""))),
	"MessageBatch": object("", need("id", text("")), need("type", words("", "message_batch")), need("processing_status", words("", "in_progress", "canceling", "ended")),
		need("request_counts", open("")), need("created_at", text("")), need("expires_at", text("")), may("ended_at", null(text(""))), may("results_url", null(text("")))),
	"File": object("", need("id", text("")), need("object", words("", "file")), need("bytes", integer("")), need("created_at", integer("")), may("expires_at", null(integer(""))),
		need("filename", text("")), need("purpose", text("")), need("status", text(""))),
	"Batch": object("", need("id", text("")), need("object", words("", "batch")), need("endpoint", text("")), need("status", text("")), need("request_counts", open("")),
		may("output_file_id", null(text(""))), may("error_file_id", null(text(""))), may("errors", Schema{})),
}

var anthropicOperations = map[string]Operation{
	"POST /v1/messages": {Group: groupAnthropic, Summary: "A message", Body: named("MessageRequest"), Answer: named("MessageAnswer"), Streams: true},
	"POST /v1/messages/count_tokens": {Group: groupAnthropic, Summary: "How many tokens a request has", Body: named("MessageRequest"),
		Answer: object("", need("input_tokens", integer("")))},
	"POST /v1/messages/batches": {Group: groupAnthropic, Summary: "Makes a batch", Answer: named("MessageBatch"), Body: object("",
		need("requests", list("", object("", need("custom_id", text("1 to 64 of a-z, A-Z, 0-9, _ and -")), need("params", named("MessageRequest"))))))},
	"GET /v1/messages/batches": {Group: groupAnthropic, Summary: "The batches, the newest first", Query: []Query{{"limit", "", within(integer(""), 1, 1000)},
		{"after_id", "", text("")}, {"before_id", "", text("")}}},
	"GET /v1/messages/batches/{id}":         {Group: groupAnthropic, Summary: "How far a batch is", Answer: named("MessageBatch")},
	"DELETE /v1/messages/batches/{id}":      {Group: groupAnthropic, Summary: "Deletes the requests and results of a batch that is over"},
	"POST /v1/messages/batches/{id}/cancel": {Group: groupAnthropic, Summary: "Ends a batch", Answer: named("MessageBatch")},
	"GET /v1/messages/batches/{id}/results": {Group: groupAnthropic, Summary: "A line for each request of a batch that is over", Kind: "application/x-jsonl", Answer: text("")},
}

var batchOperations = map[string]Operation{
	"GET /v1/files": {Group: groupBatches, Summary: "The files", Query: append(pageQuery(10_000), Query{"purpose", "", text("")}), Answer: object("", need("data", list("", named("File"))))},
	"POST /v1/files": {Group: groupBatches, Summary: "Uploads a file", BodyKind: "multipart/form-data", Answer: named("File"),
		Body: object("", need("file", Schema{"type": "string", "contentMediaType": "application/octet-stream"}), need("purpose", words("", "batch", "user_data")))},
	"GET /v1/files/{id}":         {Group: groupBatches, Summary: "One file", Answer: named("File")},
	"DELETE /v1/files/{id}":      {Group: groupBatches, Summary: "Deletes a file that no unfinished batch reads"},
	"GET /v1/files/{id}/content": {Group: groupBatches, Summary: "The bytes of a file", Kind: "application/octet-stream", Answer: text("")},
	"GET /v1/batches":            {Group: groupBatches, Summary: "The batches", Query: pageQuery(100), Answer: object("", need("data", list("", named("Batch"))))},
	"POST /v1/batches": {Group: groupBatches, Summary: "Makes a batch of a file's lines", Answer: named("Batch"), Body: object("", need("input_file_id", text("")),
		need("endpoint", text("The path that the lines are for")), need("completion_window", text("24h; from 1h to 168h")), may("metadata", open("")),
		may("output_expires_after", object("", need("anchor", words("", "created_at")), need("seconds", integer("")))))},
	"GET /v1/batches/{id}":         {Group: groupBatches, Summary: "How far a batch is", Answer: named("Batch")},
	"POST /v1/batches/{id}/cancel": {Group: groupBatches, Summary: "Ends a batch", Answer: named("Batch")},
}

func pageQuery(most float64) []Query {
	return []Query{{"limit", "", within(integer(""), 1, most)}, {"after", "The id before the first one", text("")}, {"order", "", words("", "asc", "desc")}}
}

// encodedFields are what requests to text encoders have.
func encodedFields() []field {
	return []field{
		may("model", text("")), may("truncate_prompt_tokens", integer("Keeps so many tokens")), may("truncate", either("", flag(""), words("", "NONE", "START", "END"))),
		may("truncation_side", words("", "left", "right")), may("truncation_direction", words("", "Left", "Right")),
		may("prompt_name", text("The prompt of this name goes before each text")), may("input_type", text("")), may("use_activation", flag("")), may("normalize", flag("")),
		may("add_special_tokens", flag("")), may("parse_special", flag("")),
	}
}

var poolingOperations = map[string]Operation{
	"POST /v1/embeddings": {Group: groupPooling, Summary: "Vectors of texts or token ids", Body: object("", append(encodedFields(), may("input", either("", text(""), list("", Schema{}))), may("inputs", Schema{}),
		may("encoding_format", words("", "float", "base64")), may("dimensions", integer("")), may("user", text("Without effect")))...),
		Answer: object("", need("object", text("")), need("data", list("", object("", need("index", integer("")), need("embedding", Schema{}), need("object", text(""))))), need("model", text("")), may("usage", Schema{}))},
	"POST /invocations": {Group: groupServer, Summary: "SageMaker's path: a chat, completion, embedding, rerank or score, by its fields", Body: open("")},
	"GET /load":         {Group: groupServer, Summary: "How many sequences run and wait", Answer: object("", need("server_load", integer("")))},
	"POST /embed": {Group: groupPooling, Summary: "Vectors, as text-embeddings-inference gives them", Body: object("", append(encodedFields(), need("inputs", Schema{}), may("dimensions", integer("")))...),
		Answer: list("", list("", number("")))},
	"POST /v2/embed": {Group: groupPooling, Summary: "Vectors by type, as Cohere gives them", Body: object("", append(encodedFields(), may("texts", list("", text(""))), may("inputs", Schema{}), may("images", Schema{}),
		may("embedding_types", list("", words("", "float", "base64", "binary", "ubinary"))), may("output_dimension", integer("")), may("max_tokens", integer("")))...)},
	"POST /v1/rerank": {Group: groupPooling, Summary: "Documents by their relevance to a query", Body: object("", append(encodedFields(), need("query", text("")), may("documents", list("", either("", text(""), object("", need("text", text("")))))),
		may("texts", list("", text(""))), may("top_n", integer("")), may("return_documents", flag("")), may("return_text", flag("")), may("raw_scores", flag("")), may("max_tokens_per_doc", integer("")), may("max_tokens_per_query", integer("")))...)},
	"POST /v1/score": {Group: groupPooling, Summary: "Scores of pairs of texts", Body: object("", append(encodedFields(), may("text_1", Schema{}), may("text_2", Schema{}), may("queries", Schema{}), may("documents", Schema{}), may("items", Schema{}),
		may("data_1", Schema{}), may("data_2", Schema{}))...)},
	"POST /v1/classify": {Group: groupPooling, Summary: "How probable a classifier finds its labels for texts", Body: object("", append(encodedFields(), need("input", either("", text(""), list("", Schema{}))), may("softmax", flag("")), may("activation", flag("")))...),
		Answer: object("", need("object", text("")), need("data", list("", object("", need("index", integer("")), need("label", text("")), need("probs", list("", number(""))), need("num_classes", integer(""))))), need("model", text("")), may("usage", Schema{}))},

	"POST /tokenize": {Group: groupTokens, Summary: "The ids of a text, or of messages under the chat template", Body: object("", may("model", text("")), may("prompt", text("")), may("messages", list("", named("ChatMessage"))), may("content", text("llama.cpp's name: the answer has its form")),
		may("add_special", flag("With content")), may("with_pieces", flag("With content")), may("add_special_tokens", flag("")), may("parse_special", flag("")), may("return_token_strs", flag(""))),
		Answer: object("Of llama.cpp's form tokens alone", may("count", integer("")), need("tokens", list("", Schema{})), may("max_model_len", integer("")), may("token_strs", null(list("", text("")))))},
	"POST /detokenize": {Group: groupTokens, Summary: "The text of ids", Body: object("", may("model", text("")), need("tokens", list("", integer(""))), may("skip_special_tokens", flag(""))), Answer: object("", need("prompt", text("")))},
	"POST /apply-template": {Group: groupTokens, Summary: "Messages as the prompt that the model sees", Body: object("", may("model", text("")), need("messages", list("", named("ChatMessage"))), may("tools", list("", named("ChatTool")))),
		Answer: object("", need("prompt", text("")))},
	"GET /tokenizer_info": {Group: groupTokens, Summary: "What a tokenizer_config.json says", Query: []Query{{"model", "The model's name", text("")}}},
}

// tensors is a request of V2.
func tensors() Schema {
	return object("", may("id", text("")), need("inputs", list("", object("", need("name", text("")), need("shape", list("", integer(""))), need("datatype", text("")), may("data", Schema{}), may("parameters", open(""))))),
		may("outputs", list("", object("", need("name", text(""))))), may("parameters", open("")))
}

const versionsToo = "A version stands behind the name: /versions/{version}."

var predictOperations = map[string]Operation{
	"POST /v1/models/{model}:predict": {Group: groupPredict, Summary: "Rows for a classical model", More: versionsToo, Body: object("", may("instances", list("", Schema{})), may("inputs", Schema{}), may("signature_name", text("")), may("parameters", open(""))),
		Answer: object("", may("predictions", Schema{}), may("outputs", Schema{}))},
	"POST /v1/models/{model}:classify":          {Group: groupPredict, Summary: "Refused: send :predict"},
	"POST /v1/models/{model}:regress":           {Group: groupPredict, Summary: "Refused: send :predict"},
	"POST /v1/models/{model}:explain":           {Group: groupPredict, Summary: "Refused: send :predict"},
	"GET /v2":                                   {Group: groupPredict, Summary: "The server's name and extensions"},
	"GET /v2/health/live":                       {Group: groupPredict, Summary: "Whether the process lives"},
	"GET /v2/health/ready":                      {Group: groupPredict, Summary: "Whether requests are taken"},
	"GET /v2/models":                            {Group: groupPredict, Summary: "The classical models"},
	"GET /v2/models/stats":                      {Group: groupPredict, Summary: "Counts and times by model"},
	"GET /v2/models/{model}":                    {Group: groupPredict, Summary: "Inputs and outputs of a model", More: versionsToo},
	"GET /v2/models/{model}/ready":              {Group: groupPredict, Summary: "Whether a model answers", More: versionsToo},
	"GET /v2/models/{model}/config":             {Group: groupPredict, Summary: "Triton's configuration of a model", More: versionsToo},
	"GET /v2/models/{model}/stats":              {Group: groupPredict, Summary: "Counts and times of a model", More: versionsToo},
	"POST /v2/models/{model}/infer":             {Group: groupPredict, Summary: "Tensors for a classical model, as JSON or binary", More: versionsToo, Body: tensors(), Answer: open("")},
	"POST /v2/models/{model}/generate":          {Group: groupPredict, Summary: "Refused: send /v1/chat/completions"},
	"POST /v2/repository/index":                 {Group: groupPredict, Summary: "The models of the repository", Body: object("", may("ready", flag("")))},
	"POST /v2/repository/models/{model}/load":   {Group: groupPredict, Summary: "Loads a model; of operators alone", Body: open("")},
	"POST /v2/repository/models/{model}/unload": {Group: groupPredict, Summary: "Unloads a model; of operators alone", Body: open("")},
}

var serverOperations = map[string]Operation{
	"GET /":                    {Group: groupServer, Summary: "That the server lives; browsers are led to the playground"},
	"GET /health":              {Group: groupServer, State: true, Summary: "200 once requests are served"},
	"GET /ready":               {Group: groupServer, State: true, Summary: "200 while new requests are taken", Query: []Query{{"deep", "Whether all models can answer", text("")}, {"model", "Whether this one can", text("")}}},
	"GET /version":             {Group: groupServer, Summary: "The version of weir"},
	"GET /metrics":             {Group: groupServer, Summary: "Metrics in Prometheus's form", Kind: "text/plain", Answer: text("")},
	"GET /openapi.json":        {Group: groupServer, Summary: "This document"},
	"GET /docs/{file}":         {Group: groupPages, Summary: "A page that shows this document, and its files", Kind: "text/html", Answer: text("")},
	"GET /playground/catalog":  {Group: groupPages, Summary: "Models to begin with, for the playground"},
	"GET /playground/sign-in":  {Group: groupPages, Summary: "Where people sign in to the playground"},
	"POST /playground/sign-in": {Group: groupPages, Summary: "A code of a sign-in changed for a token", Body: object("", need("issuer", text("Its name in the configuration")), need("code", text("")), need("code_verifier", text("")), need("redirect_uri", text("")))},
	"GET /playground/{file}":   {Group: groupPages, Summary: "The playground, and its files", Kind: "text/html", Answer: text("")},
}
