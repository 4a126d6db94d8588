package openai

import (
	"net/http"
	"strings"

	"weir/api"
	"weir/api/edge"
	"weir/api/tenant"
)

// The paths that this package serves.
const (
	routeChat              = "/v1/chat/completions"
	routeChats             = "/v1/chat/completions/batch"
	routeChatTokens        = "/v1/chat/completions/input_tokens"
	routeKeptChat          = "/v1/chat/completions/{id}"
	routeChatMessages      = "/v1/chat/completions/{id}/messages"
	routeCompletions       = "/v1/completions"
	routeResponses         = "/v1/responses"
	routeMessages          = "/v1/messages"
	routeResponse          = "/v1/responses/{id}"
	routeInputItems        = "/v1/responses/{id}/input_items"
	routeCancel            = "/v1/responses/{id}/cancel"
	routeCount             = "/v1/messages/count_tokens"
	routeEmbeddings        = "/v1/embeddings"
	routeRerank            = "/v1/rerank"
	routeScore             = "/v1/score"
	routeClassify          = "/v1/classify"
	routeDecisions         = "/v1/decisions"
	routeSystemOne         = "/v1/systemone"
	routeModerations       = "/v1/moderations"
	routeEmbed             = "/embed"
	routeCohereEmbed       = "/v2/embed"
	routeModels            = "/v1/models"
	routeModel             = "/v1/models/{id}"
	routeUsage             = "/v1/usage"
	routeTokenize          = "/tokenize"
	routeDetokenize        = "/detokenize"
	routeTokenizer         = "/tokenizer_info"
	routeTemplate          = "/apply-template"
	routeHealth            = "/health"
	routeReady             = "/ready"
	routeLoad              = "/load"
	routeLoadAdapter       = "/v1/load_lora_adapter"
	routeUnloadAdapter     = "/v1/unload_lora_adapter"
	routeInvocations       = "/invocations"
	routeVersion           = "/version"
	routeMetrics           = "/metrics"
	routeConversations     = "/v1/conversations"
	routeConversation      = "/v1/conversations/{id}"
	routeConversationItems = "/v1/conversations/{id}/items"
	routeConversationItem  = "/v1/conversations/{id}/items/{item_id}"
	routeInputTokens       = "/v1/responses/input_tokens"
	routeCompact           = "/v1/responses/compact"

	routeNative         = "/completion" // of llama.cpp's server, as those that follow
	routeNatives        = "/completions"
	routeInfill         = "/infill"
	routeProps          = "/props"
	routeSlots          = "/slots"
	routeSlot           = "/slots/{id}"
	routeLora           = "/lora-adapters"
	routeEmbedding      = "/embedding"
	ollamaPaths         = "/api/" // all of Ollama's own
	routeOllamaChat     = "/api/chat"
	routeOllamaGenerate = "/api/generate"
	routeOllamaEmbed    = "/api/embed"
	routeOllamaVectors  = "/api/embeddings"
	routeOllamaTags     = "/api/tags"
	routeOllamaRunning  = "/api/ps"
	routeOllamaShow     = "/api/show"
	routeOllamaVersion  = "/api/version"
	routeOllamaPull     = "/api/pull"

	routeOther = "other" // no route; a label for hooks
)

// route is one path. Paths are matched exactly; one that ends in {id} takes
// everything behind its prefix, slashes too, since model ids have them. {id} inside a path
// takes what is between.
type route struct {
	edge.Route
	server *Server
	serve  func(*call) *api.Error
}

func (s *Server) routeTable() []*route {
	table := []*route{
		inferOrList(routeChat, chats),
		infer("/chat/completions", generated(&chatEndpoint)), // llama.cpp's second name, as /responses
		infer(routeChats, generated(&chatsEndpoint)),
		post(routeChatTokens, serveChatTokens),
		post("/chat/completions/input_tokens", serveChatTokens),
		get(routeChatMessages, serveChatMessages),
		on(routeKeptChat, serveChat, http.MethodGet, http.MethodPost, http.MethodDelete),
		infer(routeCompletions, generated(&completionEndpoint)),
		infer(routeResponses, generated(&responseEndpoint)),
		infer("/responses", generated(&responseEndpoint)),
		post(routeConversations, createConversation),
		on(routeConversationItem, serveConversationItem, http.MethodGet, http.MethodDelete),
		on(routeConversationItems, serveConversationItems, http.MethodGet, http.MethodPost),
		on(routeConversation, serveConversation, http.MethodGet, http.MethodPost, http.MethodDelete),
		post(routeInputTokens, serveInputTokens),
		infer(routeCompact, generated(&compactEndpoint)),
		infer("/responses/compact", generated(&compactEndpoint)),
		get(routeInputItems, serveInputItems),
		post(routeCancel, cancelResponse),
		on(routeResponse, serveStoredResponse, http.MethodGet, http.MethodDelete),
		infer(routeMessages, generated(&messageEndpoint)),
		post(routeCount, serveCountTokens),
		infer(routeEmbeddings, pooled(&embeddingEndpoint)),
		infer("/embeddings", pooled(&embeddingEndpoint)),
		infer(routeEmbed, pooled(&embedEndpoint)),
		infer(routeCohereEmbed, pooled(&cohereEndpoint)),
		infer(routeRerank, pooled(&rerankEndpoint)),
		infer("/v2/rerank", pooled(&rerankEndpoint)),
		infer("/rerank", pooled(&rerankEndpoint)),
		infer(routeScore, pooled(&scoreEndpoint)),
		infer("/score", pooled(&scoreEndpoint)),
		infer(routeClassify, pooled(&classifyEndpoint)),
		infer("/classify", pooled(&classifyEndpoint)), // vLLM's name
		infer(routeDecisions, decided(&decisionsEndpoint)),
		infer(routeSystemOne, decided(&systemOneEndpoint)),
		post(routeModerations, serveModerations),
		get(routeModels, serveModels),
		get(routeModel, serveModel),
		post(routeLoadAdapter, loadAdapter),
		post(routeUnloadAdapter, unloadAdapter),
		get(routeUsage, serveUsage),
		post(routeTokenize, serveTokenize),
		post(routeDetokenize, serveDetokenize),
		get(routeTokenizer, serveTokenizerInfo),
		post(routeTemplate, serveTemplate),
		infer(routeOllamaChat, generated(&ollamaChatEndpoint)),
		infer(routeOllamaGenerate, generated(&ollamaGenerateEndpoint)),
		infer(routeOllamaEmbed, pooled(&ollamaEmbedEndpoint)),
		infer(routeOllamaVectors, pooled(&ollamaVectorsEndpoint)),
		get(routeOllamaTags, serveOllamaTags),
		get(routeOllamaRunning, serveOllamaRunning),
		post(routeOllamaShow, serveOllamaShow),
		open(routeOllamaVersion, serveOllamaVersion),
		post(routeOllamaPull, serveOllamaPull),
		post("/api/push", notOllamas),
		post("/api/create", notOllamas),
		post("/api/copy", notOllamas),
		on("/api/delete", notOllamas, http.MethodDelete),
		post("/api/blobs/{id}", notOllamas),
		infer(routeNative, generated(&nativeEndpoint)),
		infer(routeNatives, generated(&nativeEndpoint)),
		infer(routeInfill, generated(&infillEndpoint)),
		get("/models", serveModels),
		get(routeProps, serveProps),
		get(routeSlots, serveSlots),
		post(routeSlot, serveSlot),
		on(routeLora, serveLora, http.MethodGet, http.MethodPost),
		infer(routeEmbedding, pooled(&nativeEmbeddingEndpoint)),
		infer(routeInvocations, serveInvocation),
		get(routeLoad, serveLoad),
		open(routeHealth, serveHealth),
		ping(),
		open(routeReady, serveReady),
		open(routeVersion, serveVersion),
	}
	if s.config.Outcomes != nil {
		table = append(table, post(edge.OutcomesPath, takeOutcomes))
	}
	if s.config.Metrics != nil {
		metrics := get(routeMetrics, serveMetrics)
		if metrics.Scope = tenant.ScopeMetrics; s.config.OpenMetrics {
			metrics = open(routeMetrics, serveMetrics)
		}
		table = append(table, metrics)
	}
	for _, rt := range table {
		rt.server = s
	}
	return table
}

// on is a route for callers who may use models.
func on(pattern string, serve func(*call) *api.Error, methods ...string) *route {
	return &route{Route: edge.Route{Pattern: pattern, Methods: methods, Scope: tenant.ScopeInference}, serve: serve}
}

func get(pattern string, serve func(*call) *api.Error) *route {
	return on(pattern, serve, http.MethodGet)
}

func post(pattern string, serve func(*call) *api.Error) *route {
	return on(pattern, serve, http.MethodPost)
}

func infer(pattern string, serve func(*call) *api.Error) *route {
	rt := post(pattern, serve)
	rt.Infers = true
	return rt
}

// inferOrList is a route whose POST has a model answer, and whose GET lists what is kept of such answers.
func inferOrList(pattern string, serve func(*call) *api.Error) *route {
	rt := infer(pattern, serve)
	rt.Methods = append(rt.Methods, http.MethodGet)
	return rt
}

// open is a route whose callers are not asked who they are.
func open(pattern string, serve func(*call) *api.Error) *route {
	rt := get(pattern, serve)
	rt.Scope, rt.Open = 0, true
	return rt
}

// ping is SageMaker's name of /health, by either method.
func ping() *route {
	rt := open("/ping", serveHealth)
	rt.Methods = append(rt.Methods, http.MethodPost)
	return rt
}

// other is the route of paths that nothing is served at.
func (s *Server) other() *route {
	return &route{server: s, Route: edge.Route{Pattern: routeOther, Unknown: true}}
}

// Routes implements edge.Protocol.
func (s *Server) Routes() (list []*edge.Route) {
	for _, rt := range s.routes {
		list = append(list, &rt.Route)
	}
	return list
}

// Find implements edge.Protocol: every path has an endpoint.
func (s *Server) Find(path string) (edge.Endpoint, edge.Params) {
	if edge.IsNormal(path) {
		for _, rt := range s.routes {
			if rest, ok := rt.match(path); ok {
				return rt, edge.Params{Name: rest}
			}
		}
	}
	return s.unknown, edge.Params{}
}

// About implements edge.Endpoint.
func (rt *route) About() *edge.Route { return &rt.Route }

// Begin implements edge.Endpoint.
func (rt *route) Begin(x *edge.Exchange) edge.Call {
	c := &call{server: rt.server, exchange: x, ctx: x.Ctx, route: rt, rest: x.Params.Name, id: x.ID, caller: x.Caller, trace: x.Trace, arrived: x.Arrived, internal: x.Internal}
	c.lease.call, c.key.call, c.moderator.call = c, c, c
	if h := c.server.config.Hooks.OnClientRetry; h != nil && rt.Infers && c.retries() > 0 {
		h()
	}
	return c
}

// match gives what a path has in the place of {id}.
func (rt *route) match(path string) (rest string, ok bool) {
	before, behind, takesRest := strings.Cut(rt.Pattern, "{id}")
	if !takesRest {
		return "", path == rt.Pattern
	}
	rest, ok = strings.CutPrefix(path, before)
	if between, _, two := strings.Cut(behind, "{"); two { // rest has both, with what is between
		id, second, found := strings.Cut(rest, between)
		return rest, ok && found && id != "" && second != ""
	}
	if ok {
		rest, ok = strings.CutSuffix(rest, behind)
	}
	return rest, ok && rest != ""
}
