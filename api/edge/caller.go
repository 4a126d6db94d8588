package edge

import (
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/tenant"
	"weir/router"
)

var (
	callerField  = api.NewField(router.CallerHeader)
	countedField = api.NewField(router.CountedHeader)
	secretFields = func() map[string]api.Field {
		fields := map[string]api.Field{}
		for _, name := range tenant.SecretHeaders {
			fields[name] = api.NewField(name)
		}
		return fields
	}()
)

// ProofOf is what the head of a request shows of its caller, whose verified certificate
// is peer, nil for none. look: the head will be read again.
func ProofOf(h *fasthttp.RequestHeader, peer *x509.Certificate, look bool) tenant.Proof {
	return tenant.Proof{
		Secret:      tenant.SecretOf(func(name string) string { return string(secretFields[name].Of(h)) }),
		Certificate: peer,
		Caller:      string(callerField.Of(h)), Look: look,
		Counted: string(countedField.Of(h)), Request: string(requestIDField.Of(h)),
	}
}

// Identify finds the caller of a request. The fault is the same whatever is wrong
// with the proof; why is for the log. A good proof of a tenant that is not configured gets a fault of its own.
func Identify(a *tenant.Authenticator, p tenant.Proof) (c tenant.Caller, fault *api.Error, why string) {
	c, err := a.Identify(p, time.Now())
	switch {
	case err == nil:
		return c, nil, ""
	case errors.Is(err, tenant.ErrUnverifiable):
		return c, unverifiable(), tenant.Reason(err)
	case tenant.IsUnlisted(err):
		return c, UnlistedTenant(), tenant.Reason(err)
	}
	if elsewhere, ok := errors.AsType[*tenant.ResidencyError](err); ok {
		return c, OtherRegion(elsewhere), tenant.Reason(err)
	}
	return c, invalidKey(), tenant.Reason(err)
}

func invalidKey() *api.Error {
	return &api.Error{Status: http.StatusUnauthorized, Type: api.TypeInvalidRequest, Code: "invalid_api_key",
		Message: "a valid API key is needed; send the header Authorization: Bearer KEY"}
}

// UnlistedTenant refuses a key that is good, and whose tenant is not one of this server.
func UnlistedTenant() *api.Error {
	return &api.Error{Status: http.StatusForbidden, Type: api.TypeInvalidRequest, Code: "tenant_not_configured", NoRetry: true,
		Message: "the key is good, and its tenant is not configured on this server: the operator adds it to the list tenants of the configuration, or an entry *, " +
			"or makes it with POST /admin/tenants"}
}

// OtherRegion refuses a key that is good, and whose tenant's data must not come to this server.
func OtherRegion(e *tenant.ResidencyError) *api.Error {
	return &api.Error{Status: http.StatusForbidden, Type: api.TypeInvalidRequest, Code: "region_not_allowed", NoRetry: true,
		Message: e.Error() + "; ask a server of the tenant's residency"}
}

func unverifiable() *api.Error {
	return &api.Error{Status: http.StatusServiceUnavailable, Type: api.TypeUnavailable, Code: "identity_unavailable",
		Message:    "callers cannot be verified now, since the server's own database or the tokens' issuer does not answer; retry",
		RetryAfter: time.Second}
}

// LacksScope refuses a caller who is known and may not do this.
func LacksScope(want tenant.Scope) *api.Error {
	return &api.Error{Status: http.StatusForbidden, Type: api.TypeInvalidRequest, Code: "insufficient_scope", NoRetry: true,
		Message: "this needs the scope " + want.String() + ", which the key does not have; use one made with --scope " + want.String()}
}
