package edge

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/tenant"
)

// Route is one path of the API and what its callers need.
type Route struct {
	Pattern string       // labels metrics and logs: /v1/models/{id}
	Methods []string     // that it takes; GET is HEAD, too; none: all
	Open    bool         // callers are not asked who they are
	Scope   tenant.Scope // that callers need
	Infers  bool         // asks a model for what it computes: it is traced, and batches may have it
	Unknown bool         // stands for the paths that nothing is served at; the Mux refuses them

	// Bars says what else stands against a request whose caller is known, before its body is read; nil: nothing does.
	Bars func(h *fasthttp.RequestHeader, caller tenant.Caller) *api.Error
}

// Takes reports whether the route takes a method.
func (r *Route) Takes(method string) bool {
	return len(r.Methods) == 0 || slices.Contains(r.Methods, method) || method == http.MethodHead && slices.Contains(r.Methods, http.MethodGet)
}

// Allow lists the methods that the route takes, for people and for the header field of that name.
func (r *Route) Allow() string {
	methods := slices.Clone(r.Methods)
	if i := slices.Index(methods, http.MethodGet); i >= 0 {
		methods = slices.Insert(methods, i+1, http.MethodHead)
	}
	return strings.Join(methods, ", ")
}

// admit is what stands against a caller's request for the route.
func (r *Route) admit(h *fasthttp.RequestHeader, caller tenant.Caller) *api.Error {
	switch method := MethodName(h); {
	case !r.Takes(method):
		if method == otherMethod {
			method = fmt.Sprintf("%.20q", h.Method())
		}
		return api.Refuse("method_not_allowed", fmt.Sprintf("%s does not take %s; it takes %s", r.Pattern, method, r.Allow()))
	case !caller.Scope.Has(r.Scope):
		return LacksScope(r.Scope)
	case r.Bars != nil:
		return r.Bars(h, caller)
	}
	return nil
}

// explain adds the header field that a refusal's status asks for.
func (r *Route) explain(fault *api.Error, h *fasthttp.ResponseHeader) {
	switch fault.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		h.Set("Allow", r.Allow())
	}
}

// Params are what a path says where its route's pattern has a name in braces.
type Params struct{ Name, Version string }

func (p *Params) own() { p.Name, p.Version = strings.Clone(p.Name), strings.Clone(p.Version) }

// Endpoint answers the requests for one route.
type Endpoint interface {
	About() *Route
	// Begin makes the call that answers a request.
	Begin(x *Exchange) Call
}

// Call is one request on its way through a protocol.
type Call interface {
	// Serve answers the request, or says why not.
	Serve() *api.Error
	// Refuse answers with an error as the protocol's clients read it.
	Refuse(fault *api.Error)
	// Describe adds to what is told of a refusal what the call knows of the request.
	Describe(fault *api.Error, r *Refusal)
	// End gives back what the call holds, when all else is done.
	End()
}

// Protocol is a family of endpoints on the API listener.
type Protocol interface {
	// Find is the endpoint of a decoded path, nil where it is not the protocol's. The params are parts of the path.
	Find(path string) (Endpoint, Params)
	// Routes are those of the protocol, for callers who ask for a path that nothing is served at.
	Routes() []*Route
	// Hooks hear of the protocol's requests.
	Hooks() *Hooks
	// IsDraining reports whether new requests are refused.
	IsDraining() bool
	// Drain refuses new requests and waits for those that run; see api.Handler.
	Drain(ctx context.Context) error
}
