package openai

import (
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/tenant"
)

// identify finds the caller of a request. The fault is the same whatever is wrong
// with the proof; why is for the log.
func (s *Server) identify(h *fasthttp.RequestHeader, peer *x509.Certificate) (c tenant.Caller, fault *api.Error, why string) {
	c, err := s.callers.Identify(tenant.Proof{
		Secret:      tenant.SecretOf(func(name string) string { return string(h.Peek(name)) }),
		Certificate: peer,
	}, time.Now())
	switch {
	case err == nil:
		return c, nil, ""
	case errors.Is(err, tenant.ErrUnverifiable):
		return c, unverifiable(), tenant.Reason(err)
	}
	return c, invalidKey(), tenant.Reason(err)
}

func invalidKey() *api.Error {
	return &api.Error{Status: http.StatusUnauthorized, Type: api.TypeInvalidRequest, Code: "invalid_api_key",
		Message: "a valid API key is needed; send the header Authorization: Bearer KEY"}
}

func unverifiable() *api.Error {
	return &api.Error{Status: http.StatusServiceUnavailable, Type: api.TypeUnavailable, Code: "identity_unavailable",
		Message:    "callers cannot be verified now, since the server's own database or the tokens' issuer does not answer; retry",
		RetryAfter: time.Second}
}

func lacksScope(want tenant.Scope) *api.Error {
	return &api.Error{Status: http.StatusForbidden, Type: api.TypeInvalidRequest, Code: "insufficient_scope", NoRetry: true,
		Message: "this needs the scope " + want.String() + ", which the key does not have; use one made with --scope " + want.String()}
}
