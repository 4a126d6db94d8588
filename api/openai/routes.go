package openai

import (
	"crypto/x509"
	"net/http"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/tenant"
)

// The paths that this package serves.
const (
	routeChat        = "/v1/chat/completions"
	routeCompletions = "/v1/completions"
	routeResponses   = "/v1/responses"
	routeMessages    = "/v1/messages"
	routeResponse    = "/v1/responses/{id}"
	routeInputItems  = "/v1/responses/{id}/input_items"
	routeCancel      = "/v1/responses/{id}/cancel"
	routeCount       = "/v1/messages/count_tokens"
	routeEmbeddings  = "/v1/embeddings"
	routeRerank      = "/v1/rerank"
	routeScore       = "/v1/score"
	routeModerations = "/v1/moderations"
	routeEmbed       = "/embed"
	routeCohereEmbed = "/v2/embed"
	routeModels      = "/v1/models"
	routeModel       = "/v1/models/{id}"
	routeUsage       = "/v1/usage"
	routeTokenize    = "/tokenize"
	routeDetokenize  = "/detokenize"
	routeTokenizer   = "/tokenizer_info"
	routeTemplate    = "/apply-template"
	routeHealth      = "/health"
	routeReady       = "/ready"
	routeVersion     = "/version"
	routeMetrics     = "/metrics"
	routeOther       = "other" // no route; a label for hooks
)

// route is one path. Paths are matched exactly; one that ends in {id} takes
// everything behind its prefix, slashes too, since model ids have them. {id} inside a path
// takes what is between.
type route struct {
	pattern string
	method  string       // or several, with spaces between
	scope   tenant.Scope // that its callers need; 0: nobody is asked who they are
	serve   func(*call) *api.Error
	asks    bool // a model, for what it computes
}

func (s *Server) routeTable() []route {
	table := []route{
		{routeChat, http.MethodPost, tenant.ScopeInference, (*call).chatCompletions, true},
		{routeCompletions, http.MethodPost, tenant.ScopeInference, (*call).completions, true},
		{routeResponses, http.MethodPost, tenant.ScopeInference, (*call).responses, true},
		{routeInputItems, http.MethodGet, tenant.ScopeInference, (*call).inputItems, false},
		{routeCancel, http.MethodPost, tenant.ScopeInference, (*call).cancelResponse, false},
		{routeResponse, http.MethodGet + " " + http.MethodDelete, tenant.ScopeInference, (*call).storedResponse, false},
		{routeMessages, http.MethodPost, tenant.ScopeInference, (*call).messages, true},
		{routeCount, http.MethodPost, tenant.ScopeInference, (*call).countTokens, false},
		{routeEmbeddings, http.MethodPost, tenant.ScopeInference, (*call).embeddings, true},
		{"/embeddings", http.MethodPost, tenant.ScopeInference, (*call).embeddings, true},
		{routeEmbed, http.MethodPost, tenant.ScopeInference, (*call).embedTexts, true},
		{routeCohereEmbed, http.MethodPost, tenant.ScopeInference, (*call).cohereEmbed, true},
		{routeRerank, http.MethodPost, tenant.ScopeInference, (*call).rerank, true},
		{"/v2/rerank", http.MethodPost, tenant.ScopeInference, (*call).rerank, true},
		{"/rerank", http.MethodPost, tenant.ScopeInference, (*call).rerank, true},
		{routeScore, http.MethodPost, tenant.ScopeInference, (*call).score, true},
		{"/score", http.MethodPost, tenant.ScopeInference, (*call).score, true},
		{routeModerations, http.MethodPost, tenant.ScopeInference, (*call).moderations, false},
		{routeModels, http.MethodGet, tenant.ScopeInference, (*call).listModels, false},
		{routeModel, http.MethodGet, tenant.ScopeInference, (*call).showModel, false},
		{routeUsage, http.MethodGet, tenant.ScopeInference, (*call).ownUsage, false},
		{routeTokenize, http.MethodPost, tenant.ScopeInference, (*call).tokenize, false},
		{routeDetokenize, http.MethodPost, tenant.ScopeInference, (*call).detokenize, false},
		{routeTokenizer, http.MethodGet, tenant.ScopeInference, (*call).tokenizerInfo, false},
		{routeTemplate, http.MethodPost, tenant.ScopeInference, (*call).applyTemplate, false},
		{routeHealth, http.MethodGet, 0, (*call).health, false},
		{routeReady, http.MethodGet, 0, (*call).ready, false},
		{routeVersion, http.MethodGet, 0, (*call).version, false},
	}
	if s.config.Outcomes != nil {
		table = append(table, route{edge.OutcomesPath, http.MethodPost, tenant.ScopeInference, (*call).outcomes, false})
	}
	if s.config.Metrics != nil {
		scope := tenant.ScopeMetrics
		if s.config.OpenMetrics {
			scope = 0
		}
		table = append(table, route{routeMetrics, http.MethodGet, scope, (*call).metrics, false})
	}
	return table
}

// head is what the head of a request decides, before its body is read.
type head struct {
	route  route
	rest   string        // of the path, behind the route's prefix
	caller tenant.Caller // zero where the route asks for none
	fault  *api.Error    // nil: it passes
	why    string        // of a fault that hides its reason from the client
}

// readHead finds the route and the caller, whose verified certificate is peer, nil
// for none. A client that nobody knows is not told which paths exist. look: the head will be
// read again, to be answered.
func (s *Server) readHead(h *fasthttp.RequestHeader, peer *x509.Certificate, look bool) head {
	rt, rest, found := s.find(edge.RequestPath(h.RequestURI()))
	hd := head{route: rt, rest: rest}
	if !found || rt.scope != 0 {
		if hd.caller, hd.fault, hd.why = edge.Identify(s.callers, edge.ProofOf(h, peer, look)); hd.fault != nil {
			return hd
		}
	}
	s.admitHead(h, &hd)
	return hd
}

// admitHead finds the route of a caller who is known, and what stands against the request.
func (s *Server) admitHead(h *fasthttp.RequestHeader, hd *head) {
	path := edge.RequestPath(h.RequestURI())
	rt, rest, found := s.find(path)
	hd.route, hd.rest = rt, rest
	switch method := edge.MethodName(h); {
	case !found:
		hd.fault = s.noRoute(path)
	case !rt.takes(method):
		hd.fault = methodNotAllowed(method, rt)
	case !hd.caller.Scope.Has(rt.scope):
		hd.fault = edge.LacksScope(rt.scope)
	}
}

// explain adds the header field that the refusal's status asks for.
func (hd *head) explain(h *fasthttp.ResponseHeader) {
	switch hd.fault.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		h.Set("Allow", hd.route.allow())
	}
}

// find returns the route of a decoded path, and what is behind its prefix.
func (s *Server) find(path string) (rt route, rest string, found bool) {
	if !edge.IsNormal(path) {
		return route{pattern: routeOther}, "", false
	}
	for _, rt := range s.routes {
		if rest, ok := rt.match(path); ok {
			return rt, rest, true
		}
	}
	return route{pattern: routeOther}, "", false
}

// match gives what a path has in the place of {id}.
func (rt *route) match(path string) (rest string, ok bool) {
	before, behind, takesRest := strings.Cut(rt.pattern, "{id}")
	if !takesRest {
		return "", path == rt.pattern
	}
	rest, ok = strings.CutPrefix(path, before)
	if ok {
		rest, ok = strings.CutSuffix(rest, behind)
	}
	return rest, ok && rest != ""
}

func (rt *route) methods() []string {
	methods := strings.Fields(rt.method)
	if methods[0] == http.MethodGet {
		methods = slices.Insert(methods, 1, http.MethodHead)
	}
	return methods
}

// takes reports whether a method is one of the route's.
func (rt *route) takes(method string) bool {
	return method == rt.method || slices.Contains(rt.methods(), method)
}

func (rt *route) allow() string { return strings.Join(rt.methods(), ", ") }

func (s *Server) noRoute(path string) *api.Error {
	list := make([]string, len(s.routes))
	for i, rt := range s.routes {
		list[i] = rt.method + " " + rt.pattern
	}
	return &api.Error{Status: http.StatusNotFound, Type: api.TypeInvalidRequest, Code: "unknown_url",
		Message: "nothing is served at " + quote([]byte(path)) + "; there are: " + strings.Join(list, ", ")}
}

func methodNotAllowed(method string, rt route) *api.Error {
	return &api.Error{Status: http.StatusMethodNotAllowed, Type: api.TypeInvalidRequest, Code: "method_not_allowed",
		Message: rt.pattern + " does not take " + method + "; it takes " + rt.allow()}
}
