package relay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/job"
	"weir/router"
)

// Refused passes an upstream's refusal on: as it is where it has the form of the path's errors, and otherwise, a page of a
// proxy first of all, what it says in that form. What says that this server is not welcome there, or asks wrongly, is no
// fault of the client's.
func (p *Exchange) Refused(ctx *fasthttp.RequestCtx, j *job.Job) *api.Error {
	status, whole := p.Answer.Status, p.Answer.Whole
	if status < 400 || p.Answer.Fault != nil && p.Answer.Fault.Lasting() {
		return p.broken(cmp.Or[error](p.Answer.Fault, fmt.Errorf("status %d: %.200q", status, whole)))
	}
	if p.Answer.Fault != nil && p.Answer.Fault.FaultKind() == noEndpoint {
		fault := api.Refuse("unsupported_endpoint", fmt.Sprintf("the servers behind this model do not have %s (status %d)", p.Route.Name(), status))
		p.Result.Status, p.Result.Code = fault.Status, fault.Code
		return fault
	}
	status = p.statusOf(status)
	p.Result.Status, p.Result.Code = status, upstreamCode(p.Answer)
	fault := RefusalOf(p.Answer)
	fault.Status = status
	switch {
	case j != nil:
		return j.Explain(fault)
	case !p.Route.HasErrorForm(whole):
		return fault
	}
	Advise(ctx.Response.Header.Set, status, p.Result.Code, p.Answer.Header)
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.Response.SetBodyRaw(whole)
	return nil
}

// RefusedBy notes an upstream's refusal of which the client hears nothing, because another version is asked.
func (p *Exchange) RefusedBy() *api.Error {
	fault := RefusalOf(p.Answer)
	p.Result.Status, p.Result.Code = fault.Status, fault.Code
	return fault
}

// noEndpoint is the kind of a fault of servers that do not have a path, and are well otherwise.
const noEndpoint = "no_endpoint"

// RefusalOf is an upstream's refusal of a chat as an error of this server's.
func RefusalOf(a *router.Answer) *api.Error {
	message, param := refusalText(a.Whole)
	if message == "" {
		message = "the server behind this model refuses the request"
		if a.Fault != nil {
			message = "the server behind this model " + a.Fault.Told()
		}
	}
	advice := router.RetryAdviceOf(a.Status, a.Header, time.Now())
	fault := &api.Error{
		Status: a.Status, Type: api.TypeInvalidRequest, Code: upstreamCode(a), Param: param, Message: message,
		RetryAfter: advice.After, NoRetry: advice.Never,
	}
	switch {
	case a.Status == http.StatusTooManyRequests:
		fault.Type = api.TypeRateLimit
	case a.Status >= http.StatusInternalServerError:
		fault.Type = api.TypeServer
	}
	return fault
}

// refusalText is what an upstream's error says, in the forms that servers have: {"error":{"message"}}, {"error":"…"},
// {"message"} and {"detail"}. It is empty for anything else, such as HTML.
func refusalText(body []byte) (message, param string) {
	var said struct {
		Error           json.RawMessage
		Message, Detail any
	}
	var inner struct{ Message, Param any }
	if json.Unmarshal(body, &said) != nil {
		return "", ""
	}
	var text any
	_ = json.Unmarshal(said.Error, &text)  // what has another form says nothing
	_ = json.Unmarshal(said.Error, &inner) // as above
	for _, v := range []any{inner.Message, text, said.Message, said.Detail} {
		if message, _ = v.(string); message != "" {
			break
		}
	}
	param, _ = inner.Param.(string)
	return message[:min(len(message), maxRefusalBytes)], param
}

// maxRefusalBytes of an upstream's message are told.
const maxRefusalBytes = 4 << 10

// upstreamCode is the code of an upstream's error object, or the one that another weir names beside an error of Messages, which has none.
func upstreamCode(a *router.Answer) string {
	var said struct {
		Error struct{ Code any }
	}
	_ = json.Unmarshal(a.Whole, &said) // a body of another kind has no code
	code, _ := said.Error.Code.(string)
	for _, code := range [...]string{code, a.Header.Get("X-Weir-Reason")} {
		if code != "" && edge.IsPlain([]byte(code)) {
			return code
		}
	}
	return "upstream_error"
}

// Advise says whether and when to try again after an upstream's refusal: what the
// upstream says, or else what its status means.
func Advise(set func(name, value string), status int, code string, said http.Header) {
	advice := router.RetryAdviceOf(status, said, time.Now())
	e := api.Error{Status: status, Code: code, RetryAfter: advice.After, NoRetry: advice.Never}
	e.Headers(set)
	if v := said.Get("X-Should-Retry"); v == "true" || v == "false" {
		set("X-Should-Retry", v)
	}
}
