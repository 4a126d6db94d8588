package admin

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/tenant"
	"weir/api/web"
	"weir/router"
	"weir/router/transfer"
)

func refuse(w http.ResponseWriter, e *api.Error) {
	w.Header().Set("Content-Type", "application/json")
	e.Headers(w.Header().Set)
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(e.AppendJSON(nil)) // a broken peer is no news
}

// scopeOf is what a path asks of its callers, any of the scopes; 0 is nothing.
func scopeOf(path string) tenant.Scope {
	if web.Console.Has(path) { // what it asks for has a scope
		return 0
	}
	switch path {
	case "/", "/health", "/ready", "/version", transfer.Path: // the last asks for a peer's statement itself
		return 0
	case "/metrics", router.BlockEventsPath: // both tell how busy a server is with what, and nothing of what it says
		return tenant.ScopeMetrics | tenant.ScopeAdmin
	}
	return tenant.ScopeAdmin
}

// callerKey is where a request's context has its caller.
type callerKey struct{}

// by says who sent a request, for the audit log: the key or the tenant, and the address.
func by(r *http.Request) string {
	caller, _ := r.Context().Value(callerKey{}).(tenant.Caller) // none: no proof was asked for
	return cmp.Or(caller.By(r.RemoteAddr), "admin listener, from "+r.RemoteAddr)
}

// caller checks the caller's scope. As long as no key has an admin scope, the listener asks for none, and only takes connections of
// this machine; a listener that other machines reach asks for the configuration's keys, too.
func (c Config) caller(r *http.Request) (caller tenant.Caller, fault *api.Error) {
	want := scopeOf(r.URL.Path)
	if want == 0 || c.Callers == nil || !c.Callers.Guarded() && !c.Exposed {
		return caller, nil
	}
	proof := tenant.Proof{Secret: tenant.SecretOf(r.Header.Get)}
	if r.TLS != nil {
		proof.Certificate = api.VerifiedPeer(*r.TLS)
	}
	caller, err := c.Callers.Identify(proof, time.Now())
	switch {
	case errors.Is(err, tenant.ErrUnverifiable):
		return caller, &api.Error{Status: http.StatusServiceUnavailable, Type: api.TypeUnavailable, Code: "identity_unavailable",
			Message: "callers cannot be verified now; retry"}
	case err != nil:
		if c.Denied != nil {
			c.Denied(tenant.Reason(err), r.RemoteAddr)
		}
		if tenant.IsUnlisted(err) {
			return caller, edge.UnlistedTenant()
		}
		if elsewhere, ok := errors.AsType[*tenant.ResidencyError](err); ok {
			return caller, edge.OtherRegion(elsewhere)
		}
		return caller, &api.Error{Status: http.StatusUnauthorized, Type: api.TypeInvalidRequest, Code: "invalid_api_key",
			Message: "a valid API key is needed; send the header Authorization: Bearer KEY"}
	case caller.Scope&want == 0:
		return caller, &api.Error{Status: http.StatusForbidden, Type: api.TypeInvalidRequest, Code: "insufficient_scope",
			Message: "this needs the scope " + strings.ReplaceAll(want.String(), ",", " or ") + ", which the key does not have"}
	}
	return caller, nil
}
