package openapi

import (
	"maps"
	"slices"
)

// Operation is what a path does with a method.
type Operation struct {
	Group   string // the API that it belongs to: a tag
	Summary string
	More    string // Markdown; "" is none
	Query   []Query

	Body     Schema // of the request; nil: none
	BodyKind string // media type; "" is JSON
	Answer   Schema // nil: of no fixed form
	Kind     string // media type of the answer; "" is JSON
	Streams  bool   // with stream: true the answer is server-sent events
	Lines    bool   // with streaming on the answer is lines of JSON
	State    bool   // errors say how the server is, and have no code
}

// Query is a parameter behind the path.
type Query struct {
	Name, About string
	Schema      Schema
}

// Groups of operations, in the order in which they are shown, and what is said of each.
const (
	groupOpenAI    = "OpenAI"
	groupAnthropic = "Anthropic"
	groupBatches   = "Files and batches"
	groupOllama    = "Ollama"
	groupPooling   = "Embeddings and reranks"
	groupLlama     = "llama.cpp's server"
	groupTokens    = "Tokens"
	groupPredict   = "Predictions"
	groupServer    = "Server"
	groupPages     = "Pages"
)

var groups = []struct{ name, about string }{
	{groupOpenAI, "Chats, completions, responses and models, as OpenAI's clients ask."},
	{groupAnthropic, "Messages, as Anthropic's clients ask."},
	{groupBatches, "Uploads, and batches of requests that run beside all others."},
	{groupOllama, "Chats, prompts, vectors and models, as Ollama's clients ask."},
	{groupPooling, "Vectors, reranks, scores and labels, in the forms of OpenAI, Cohere, Jina, vLLM and text-embeddings-inference."},
	{groupLlama, "Native paths of llama.cpp's server."},
	{groupTokens, "Text to token ids and back."},
	{groupPredict, "Classical models: TensorFlow Serving's V1, KServe's V2 and Triton's extensions."},
	{groupServer, "State, use and metrics of the server."},
	{groupPages, "What browsers are shown."},
}

// tables are the operations by "METHOD pattern", one table for each API.
var tables = []map[string]Operation{openaiOperations, anthropicOperations, ollamaOperations, batchOperations, poolingOperations, predictOperations, serverOperations, decisionOperations}

// find is the entry of a route's method.
func find(method, pattern string) (Operation, bool) {
	key := method + " " + pattern
	if to, ok := same[key]; ok {
		key = to
	}
	for _, t := range tables {
		if o, ok := t[key]; ok {
			return o, true
		}
	}
	return Operation{}, false
}

// Keys are those of all operations that are told, as "METHOD pattern".
func Keys() (list []string) {
	for _, t := range tables {
		list = slices.AppendSeq(list, maps.Keys(t))
	}
	slices.Sort(list)
	return list
}

// same are routes that are told as another: a second name of it, or the same path for another kind of model.
var same = map[string]string{
	"POST /completions":       "POST /completion",
	"POST /chat/completions":  "POST /v1/chat/completions",
	"POST /responses":         "POST /v1/responses",
	"POST /responses/compact": "POST /v1/responses/compact",

	"POST /chat/completions/input_tokens": "POST /v1/chat/completions/input_tokens",

	"GET /models":            "GET /v1/models",
	"POST /embeddings":       "POST /v1/embeddings",
	"GET /ping":              "GET /health",
	"POST /ping":             "GET /health",
	"POST /classify":         "POST /v1/classify",
	"POST /rerank":           "POST /v1/rerank",
	"POST /v2/rerank":        "POST /v1/rerank",
	"POST /score":            "POST /v1/score",
	"GET /v1/models/{model}": "GET /v1/models/{id}",
}
