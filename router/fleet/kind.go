package fleet

import (
	"weir/router"
	"weir/router/provider"
)

// Kind is what a replica is: which paths say how it is, and what it can do.
type Kind string

// The kinds.
const (
	Weir        Kind = "weir"
	VLLM        Kind = "vllm"
	SGLang      Kind = "sglang"
	LlamaServer Kind = "llama-server"
	OpenAI      Kind = "openai" // anything else with the same API
	OIP         Kind = "oip"    // a server of classical models: Triton, MLServer, KServe
	Anthropic   Kind = "anthropic"
	Gemini      Kind = "gemini"  // Google's generateContent: the Gemini API, Vertex AI
	Bedrock     Kind = "bedrock" // Amazon's Converse
)

// Kinds lists them all.
func Kinds() []string {
	return []string{string(Weir), string(VLLM), string(SGLang), string(LlamaServer), string(OpenAI), string(OIP), string(Anthropic), string(Gemini), string(Bedrock)}
}

// IsKind reports whether there is a kind of this name.
func IsKind(name string) bool {
	_, ok := kinds[Kind(name)]
	return ok
}

// kindTraits of a kind.
type kindTraits struct {
	health    string // path outside of the API that says whether requests are taken; "": the list of models does
	metrics   string // path of its Prometheus metrics; "": none
	continues bool   // with continue_final_message a chat's last message is gone on with
	counts    bool   // POST /tokenize, outside of the API, counts a text's tokens
	// healthWaits: the threads that answer probes are those that hold requests, so that a full replica does not answer probes.
	healthWaits bool

	provider provider.API // chats are put into its words; nil: the kind has OpenAI's API
	path     string       // of a base URL that has none; "": /v1
	apis     []string     // that the kind has beside chats
}

var kinds = map[Kind]kindTraits{
	Weir:        {health: "/ready", metrics: "/metrics", continues: true, counts: true},
	VLLM:        {health: "/health", metrics: "/metrics", continues: true, counts: true},
	SGLang:      {health: "/health", metrics: "/metrics", continues: true},
	LlamaServer: {health: "/health", metrics: "/metrics", healthWaits: true},
	OpenAI:      {},
	OIP:         {health: "/v2/health/ready"},
	Anthropic:   {provider: provider.Anthropic, apis: []string{string(router.Messages)}},
	Gemini:      {provider: provider.Gemini, path: "/v1beta"},
	Bedrock:     {provider: provider.Bedrock, path: "/"},
}
