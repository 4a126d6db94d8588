package predict

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"weir/api"
	"weir/api/edge"
	"weir/api/tenant"
)

// route is one path, or several that ask for the same.
type route struct {
	edge.Route
	server *Server
	serve  func(*call) *api.Error
}

// About implements edge.Endpoint.
func (rt *route) About() *edge.Route { return &rt.Route }

// routes are the paths of the protocols. A pattern of a model's path stands for the ones with and without
// /versions/{version}.
type routes struct {
	alive     *route
	statusV1  *route
	verbsV1   map[string]*route
	serverV2  map[string]*route // by what follows /v2
	modelV2   map[string]*route // by what follows the model, and its version
	unknownV2 *route

	repositoryV2 map[string]*route // by what follows the model
}

func (s *Server) routeTable() routes {
	on := func(method, pattern string, serve func(*call) *api.Error) *route {
		return &route{Route: edge.Route{Pattern: pattern, Methods: []string{method}, Scope: tenant.ScopeInference}, server: s, serve: serve}
	}
	get := func(pattern string, serve func(*call) *api.Error) *route { return on(http.MethodGet, pattern, serve) }
	open := func(pattern string, serve func(*call) *api.Error) *route {
		rt := get(pattern, serve)
		rt.Scope, rt.Open = 0, true
		return rt
	}
	infer := func(pattern string, serve func(*call) *api.Error) *route {
		rt := on(http.MethodPost, pattern, serve)
		rt.Infers = true
		return rt
	}
	operate := func(pattern string, serve func(*call) *api.Error) *route {
		rt := on(http.MethodPost, pattern, serve)
		rt.Scope, rt.Bars = tenant.ScopeAdmin, s.config.barsOperators
		return rt
	}
	return routes{
		alive:    open("/", (*call).alive),
		statusV1: get("/v1/models/{model}", (*call).statusV1),
		verbsV1: map[string]*route{
			"predict":  infer("/v1/models/{model}:predict", (*call).predictV1),
			"classify": infer("/v1/models/{model}:classify", (*call).unsupportedVerb),
			"regress":  infer("/v1/models/{model}:regress", (*call).unsupportedVerb),
			"explain":  infer("/v1/models/{model}:explain", (*call).unsupportedVerb),
		},
		serverV2: map[string]*route{
			"":                  get("/v2", (*call).serverMetadata),
			"/health/live":      open("/v2/health/live", (*call).live),
			"/health/ready":     open("/v2/health/ready", (*call).ready),
			"/models":           get("/v2/models", (*call).listModels),
			"/models/stats":     get("/v2/models/stats", (*call).modelStatistics),
			"/repository/index": on(http.MethodPost, "/v2/repository/index", (*call).repositoryIndex),
		},
		modelV2: map[string]*route{
			"":          get("/v2/models/{model}", (*call).modelMetadata),
			"/ready":    get("/v2/models/{model}/ready", (*call).modelReady),
			"/infer":    infer("/v2/models/{model}/infer", (*call).inferV2),
			"/config":   get("/v2/models/{model}/config", (*call).modelConfig),
			"/stats":    get("/v2/models/{model}/stats", (*call).modelStatistics),
			"/generate": infer("/v2/models/{model}/generate", (*call).unsupportedVerb),
		},
		repositoryV2: map[string]*route{
			"/load":   operate("/v2/repository/models/{model}/load", (*call).loadModel),
			"/unload": operate("/v2/repository/models/{model}/unload", (*call).unloadModel),
		},
		unknownV2: &route{Route: edge.Route{Pattern: "/v2/{unknown}", Open: true}, server: s, serve: (*call).unknownPath},
	}
}

const (
	prefixV1         = "/v1/models/"
	prefixModelV2    = "/models/"
	prefixRepository = "/repository/models/"
	versionsPart     = "/versions/"
)

// Find implements edge.Protocol. GET /v1/models/{model} is both OpenAI's and TensorFlow Serving's: it is of this
// package where a classical model has the name.
func (s *Server) Find(path string) (edge.Endpoint, edge.Params) {
	rt, model, version := s.find(path)
	if rt == nil {
		return nil, edge.Params{}
	}
	return rt, edge.Params{Name: model, Version: version}
}

// Routes implements edge.Protocol.
func (s *Server) Routes() []*edge.Route {
	r := &s.routes
	list := []*edge.Route{&r.alive.Route, &r.statusV1.Route}
	for _, named := range []map[string]*route{r.verbsV1, r.serverV2, r.modelV2, r.repositoryV2} {
		for _, name := range slices.Sorted(maps.Keys(named)) {
			list = append(list, &named[name].Route)
		}
	}
	return list
}

func (s *Server) find(path string) (rt *route, model, version string) {
	if path == "/" {
		return s.routes.alive, "", ""
	}
	if !edge.IsNormal(path) {
		return nil, "", ""
	}
	if rest, ok := strings.CutPrefix(path, prefixV1); ok {
		return s.findV1(rest)
	}
	if rest, ok := strings.CutPrefix(path, "/v2"); ok && (rest == "" || rest[0] == '/') && !cohereV2[rest] {
		if rt, model, version = s.routes.findV2(rest); rt == nil {
			return s.routes.unknownV2, "", "" // clients of V2 read this form of errors alone
		}
		return rt, model, version
	}
	return nil, "", ""
}

// cohereV2 are Cohere's paths below /v2, which are of api/openai.
var cohereV2 = map[string]bool{"/rerank": true, "/embed": true}

func (s *Server) findV1(rest string) (rt *route, model, version string) {
	if name, verb, ok := cutLast(rest, ':'); ok && s.routes.verbsV1[verb] != nil {
		model, version = splitVersion(name)
		return s.routes.verbsV1[verb], model, version
	}
	model, version = splitVersion(rest)
	if _, err := s.config.Models.Find(model, ""); isUnknown(err) {
		return nil, "", ""
	}
	return s.routes.statusV1, model, version
}

func (r *routes) findV2(rest string) (rt *route, model, version string) {
	if rt = r.serverV2[rest]; rt != nil {
		return rt, "", ""
	}
	if model, ok := strings.CutPrefix(rest, prefixRepository); ok {
		model, verb, _ := strings.Cut(model, "/")
		return r.repositoryV2["/"+verb], model, ""
	}
	model, ok := strings.CutPrefix(rest, prefixModelV2)
	if !ok {
		return nil, "", ""
	}
	model, verb := cutSegment(model)
	if v, ok := strings.CutPrefix(verb, versionsPart); ok {
		version, verb = cutSegment(v)
	}
	return r.modelV2[verb], model, version
}

// cutSegment is a path's first segment, and the rest with its slash.
func cutSegment(path string) (segment, rest string) {
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

func cutLast(s string, c byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, c); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// splitVersion takes /versions/{version} off a model's path.
func splitVersion(path string) (model, version string) {
	if i := strings.LastIndex(path, versionsPart); i >= 0 {
		return path[:i], path[i+len(versionsPart):]
	}
	return path, ""
}
