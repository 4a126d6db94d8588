package predict

import (
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/tenant"
)

// route is what one path asks for. Patterns are labels of metrics.
type route struct {
	*endpoint
	model, version string
}

type endpoint struct {
	pattern string
	method  string
	scope   tenant.Scope // that callers need; 0: nobody is asked who they are
	infers  bool
	serve   func(*call) *api.Error
}

func (e *endpoint) takes(method string) bool {
	return e.method == "" || method == e.method || method == http.MethodHead && e.method == http.MethodGet
}

func get(pattern string, scope tenant.Scope, serve func(*call) *api.Error) *endpoint {
	return &endpoint{pattern: pattern, method: http.MethodGet, scope: scope, serve: serve}
}

func post(pattern string, scope tenant.Scope, serve func(*call) *api.Error) *endpoint {
	return &endpoint{pattern: pattern, method: http.MethodPost, scope: scope, serve: serve}
}

func infer(pattern string, serve func(*call) *api.Error) *endpoint {
	return &endpoint{pattern: pattern, method: http.MethodPost, scope: tenant.ScopeInference, infers: true, serve: serve}
}

// The endpoints. Of model paths the pattern stands for the ones with and without
// /versions/{version}.
var (
	alive = get("/", 0, (*call).alive)

	statusV1 = get("/v1/models/{model}", tenant.ScopeInference, (*call).statusV1)
	verbsV1  = map[string]*endpoint{
		"predict":  infer("/v1/models/{model}:predict", (*call).predictV1),
		"classify": infer("/v1/models/{model}:classify", (*call).unsupportedVerb),
		"regress":  infer("/v1/models/{model}:regress", (*call).unsupportedVerb),
		"explain":  infer("/v1/models/{model}:explain", (*call).unsupportedVerb),
	}

	serverV2 = map[string]*endpoint{ // by what follows /v2
		"":                  get("/v2", tenant.ScopeInference, (*call).serverMetadata),
		"/health/live":      get("/v2/health/live", 0, (*call).live),
		"/health/ready":     get("/v2/health/ready", 0, (*call).ready),
		"/models":           get("/v2/models", tenant.ScopeInference, (*call).listModels),
		"/models/stats":     get("/v2/models/stats", tenant.ScopeInference, (*call).modelStatistics),
		"/repository/index": post("/v2/repository/index", tenant.ScopeInference, (*call).repositoryIndex),
	}
	modelV2 = map[string]*endpoint{ // by what follows the model, and its version
		"":          get("/v2/models/{model}", tenant.ScopeInference, (*call).modelMetadata),
		"/ready":    get("/v2/models/{model}/ready", tenant.ScopeInference, (*call).modelReady),
		"/infer":    infer("/v2/models/{model}/infer", (*call).inferV2),
		"/config":   get("/v2/models/{model}/config", tenant.ScopeInference, (*call).modelConfig),
		"/stats":    get("/v2/models/{model}/stats", tenant.ScopeInference, (*call).modelStatistics),
		"/generate": infer("/v2/models/{model}/generate", (*call).unsupportedVerb),
	}
	unknownV2 = &endpoint{pattern: "/v2/{unknown}", serve: (*call).unknownPath}

	repositoryV2 = map[string]*endpoint{ // by what follows the model
		"/load":   post("/v2/repository/models/{model}/load", tenant.ScopeAdmin, (*call).loadModel),
		"/unload": post("/v2/repository/models/{model}/unload", tenant.ScopeAdmin, (*call).unloadModel),
	}
)

const (
	prefixV1         = "/v1/models/"
	prefixModelV2    = "/models/"
	prefixRepository = "/repository/models/"
	versionsPart     = "/versions/"
)

// find is the route of a request's path; false where the path is not of this package.
// GET /v1/models/{model} is both OpenAI's and TensorFlow Serving's: it is of this
// package where a classical model has the name.
func (s *Server) find(h *fasthttp.RequestHeader) (route, bool) {
	rt, ours := s.look(h)
	rt.model, rt.version = strings.Clone(rt.model), strings.Clone(rt.version)
	return rt, ours
}

// look is find for as long as the header is as it is.
func (s *Server) look(h *fasthttp.RequestHeader) (route, bool) {
	return s.findPath(edge.PathView(h.RequestURI()))
}

func (s *Server) findPath(path string) (route, bool) {
	if path == "/" {
		return route{endpoint: alive}, true
	}
	if !edge.IsNormal(path) {
		return route{}, false
	}
	if rest, ok := strings.CutPrefix(path, prefixV1); ok {
		return s.findV1(rest)
	}
	if rest, ok := strings.CutPrefix(path, "/v2"); ok && (rest == "" || rest[0] == '/') && !cohereV2[rest] {
		if rt, known := findV2(rest); known {
			return rt, true
		}
		return route{endpoint: unknownV2}, true // clients of V2 read this form of errors alone
	}
	return route{}, false
}

// cohereV2 are Cohere's paths below /v2, which are of api/openai.
var cohereV2 = map[string]bool{"/rerank": true, "/embed": true}

func (s *Server) findV1(rest string) (route, bool) {
	if name, verb, ok := cutLast(rest, ':'); ok && verbsV1[verb] != nil {
		model, version := splitVersion(name)
		return route{verbsV1[verb], model, version}, true
	}
	model, version := splitVersion(rest)
	if _, err := s.config.Models.Find(model, ""); isUnknown(err) {
		return route{}, false
	}
	return route{statusV1, model, version}, true
}

func findV2(rest string) (route, bool) {
	if e := serverV2[rest]; e != nil {
		return route{endpoint: e}, true
	}
	if model, ok := strings.CutPrefix(rest, prefixRepository); ok {
		model, verb, _ := strings.Cut(model, "/")
		e := repositoryV2["/"+verb]
		return route{endpoint: e, model: model}, e != nil
	}
	model, ok := strings.CutPrefix(rest, prefixModelV2)
	if !ok {
		return route{}, false
	}
	model, verb := cutSegment(model)
	version := ""
	if v, ok := strings.CutPrefix(verb, versionsPart); ok {
		version, verb = cutSegment(v)
	}
	e := modelV2[verb]
	return route{e, model, version}, e != nil
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
