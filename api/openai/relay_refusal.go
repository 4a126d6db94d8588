package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
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
	case status < 400, status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusNotFound:
		return p.broken(fmt.Errorf("status %d: %.200q", status, whole))
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

// refusalOf is an upstream's refusal of a chat as an error of this server's.
func refusalOf(a *router.Answer) *api.Error {
	var said struct {
		Error struct{ Message, Param string }
	}
	_ = json.Unmarshal(a.Whole, &said) // a body of another kind says nothing
	fault := &api.Error{
		Status: a.Status, Type: api.TypeInvalidRequest, Code: upstreamCode(a.Whole), Param: said.Error.Param,
		Message:    cmp.Or(said.Error.Message, fmt.Sprintf("the server behind this model refuses the request with the status %d", a.Status)),
		RetryAfter: upstreamWait(a.Header, time.Now()),
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
	e := api.Error{Status: status, Code: code, RetryAfter: upstreamWait(said, time.Now())}
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

// longestUpstreamWait bounds what an upstream may ask for: a day.
const longestUpstreamWait = 24 * time.Hour

// upstreamWait is the time that an upstream's answer asks to wait: retry-after-ms, or
// Retry-After as seconds, fractions allowed, or as a date. 0 is none.
func upstreamWait(h http.Header, now time.Time) time.Duration {
	if ms, ok := positive(h.Get("Retry-After-Ms")); ok {
		return scaled(ms, time.Millisecond)
	}
	after := h.Get("Retry-After")
	if s, ok := positive(after); ok {
		return scaled(s, time.Second)
	}
	if at, err := http.ParseTime(after); err == nil {
		return min(max(at.Sub(now), 0), longestUpstreamWait)
	}
	return 0
}

func positive(text string) (float64, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return f, err == nil && f > 0
}

func scaled(n float64, unit time.Duration) time.Duration {
	return time.Duration(min(n*float64(unit), float64(longestUpstreamWait)))
}
