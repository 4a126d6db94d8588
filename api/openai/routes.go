package openai

import (
	"net/http"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
)

// The paths that this package serves.
const (
	routeChat        = "/v1/chat/completions"
	routeCompletions = "/v1/completions"
	routeModels      = "/v1/models"
	routeModel       = "/v1/models/{id}"
	routeTokenize    = "/tokenize"
	routeDetokenize  = "/detokenize"
	routeTemplate    = "/apply-template"
	routeHealth      = "/health"
	routeReady       = "/ready"
	routeVersion     = "/version"
	routeOther       = "other" // no route; a label for hooks
)

// route is one path. Paths are matched exactly; one that ends in {id} takes
// everything behind its prefix, slashes too, since model ids have them.
type route struct {
	pattern string
	method  string
	open    bool // no API key asked
	serve   func(*call) *api.Error
}

func (s *Server) routeTable() []route {
	return []route{
		{routeChat, http.MethodPost, false, (*call).chatCompletions},
		{routeCompletions, http.MethodPost, false, (*call).completions},
		{routeModels, http.MethodGet, false, (*call).listModels},
		{routeModel, http.MethodGet, false, (*call).showModel},
		{routeTokenize, http.MethodPost, false, (*call).tokenize},
		{routeDetokenize, http.MethodPost, false, (*call).detokenize},
		{routeTemplate, http.MethodPost, false, (*call).applyTemplate},
		{routeHealth, http.MethodGet, true, (*call).health},
		{routeReady, http.MethodGet, true, (*call).ready},
		{routeVersion, http.MethodGet, true, (*call).version},
	}
}

// find returns the route of a decoded path, and what is behind its prefix.
func (s *Server) find(path string) (rt route, rest string, found bool) {
	for _, rt := range s.routes {
		prefix, takesRest := strings.CutSuffix(rt.pattern, "{id}")
		switch {
		case path == rt.pattern && !takesRest:
			return rt, "", true
		case takesRest && len(path) > len(prefix) && strings.HasPrefix(path, prefix):
			return rt, path[len(prefix):], true
		}
	}
	return route{pattern: routeOther}, "", false
}

func (rt *route) methods() []string {
	if rt.method == http.MethodGet {
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{rt.method}
}

func (rt *route) allows(ctx *fasthttp.RequestCtx) bool {
	return slices.Contains(rt.methods(), string(ctx.Method()))
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
