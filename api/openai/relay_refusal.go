package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/router"
)

// refused passes an upstream's refusal on, in the client's words where the upstream was asked in
// others. What says that this server is not welcome there, or asks wrongly, is no fault of
// the client's.
func (p *passage) refused(c *call, j *job) *api.Error {
	status, whole := p.answer.Status, p.answer.Whole
	switch {
	case status < 400, status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound,
		status == http.StatusMethodNotAllowed, status == http.StatusProxyAuthRequired:
		return p.broken(&statusFault{status, whole})
	}
	p.result.Status, p.result.Code = status, upstreamCode(whole)
	if j != nil {
		return j.explain(refusalOf(p.answer))
	}
	advise(c.ctx.Response.Header.Set, status, p.result.Code, p.answer.Header)
	c.ctx.SetStatusCode(status)
	c.ctx.SetContentType(p.answer.Header.Get("Content-Type"))
	c.ctx.SetBody(whole)
	return nil
}

// statusFault is an answer that says that this server is not welcome there.
type statusFault struct {
	status int
	body   []byte
}

func (f *statusFault) Error() string { return fmt.Sprintf("status %d: %.200q", f.status, f.body) }

// FaultKind implements router.UpstreamFault.
func (f *statusFault) FaultKind() string { return fmt.Sprintf("misconfigured: status %d", f.status) }

var _ router.UpstreamFault = (*statusFault)(nil)

// refusalOf is an upstream's refusal of a chat as an error of this server's.
func refusalOf(a *router.Answer) *api.Error {
	var said struct {
		Error struct{ Message, Param string }
	}
	_ = json.Unmarshal(a.Whole, &said) // a body of another kind says nothing
	fault := &api.Error{
		Status: a.Status, Type: api.TypeInvalidRequest, Code: upstreamCode(a.Whole), Param: said.Error.Param,
		Message:    cmp.Or(said.Error.Message, fmt.Sprintf("the server behind this model refuses the request with the status %d", a.Status)),
		RetryAfter: router.WaitOf(a.Header, time.Now()),
	}
	switch {
	case a.Status == http.StatusTooManyRequests:
		fault.Type = api.TypeRateLimit
	case a.Status >= statusInternal:
		fault.Type = api.TypeServer
	}
	transient := a.Status == http.StatusTooManyRequests || a.Status >= statusInternal && a.Status != http.StatusNotImplemented
	if transient {
		fault.RetryAfter = cmp.Or(fault.RetryAfter, time.Second)
	}
	fault.NoRetry = fault.RetryAfter == 0
	return fault
}

// upstreamCode is the code of an upstream's error object.
func upstreamCode(body []byte) string {
	var said struct {
		Error struct{ Code any }
	}
	_ = json.Unmarshal(body, &said) // a body of another kind has no code
	if code, ok := said.Error.Code.(string); ok && edge.IsPlain([]byte(code)) {
		return code
	}
	return "upstream_error"
}

// advise says whether and when to try again after an upstream's refusal: what the
// upstream says, or else what its status means.
func advise(set func(name, value string), status int, code string, said http.Header) {
	e := api.Error{Status: status, Code: code, RetryAfter: router.WaitOf(said, time.Now())}
	transient := status == http.StatusTooManyRequests || status >= statusInternal && status != http.StatusNotImplemented
	if e.RetryAfter == 0 && transient {
		e.RetryAfter = time.Second
	}
	e.NoRetry = !transient && e.RetryAfter == 0
	e.Headers(set)
	if v := said.Get("X-Should-Retry"); v == "true" || v == "false" {
		set("X-Should-Retry", v)
	}
}
