package predict

import (
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/meter"
	"weir/scheduler/quota"
)

const statusOK = http.StatusOK

// call is one request over HTTP on its way through a handler.
type call struct {
	*Server
	job
	ctx   *fasthttp.RequestCtx
	route *route
	why   string // the caller was denied; for the log
	terms terms
}

// The fields that every prediction reads.
var (
	requestIDField   = api.NewField("X-Request-Id")
	traceParentField = api.NewField("Traceparent")
	traceStateField  = api.NewField("Tracestate")
	codingField      = api.NewField("Content-Encoding")
	userField        = api.NewField(userHeader)
	classField       = api.NewField(classHeader)
	deadlineField    = api.NewField(deadlineHeader)
	schemaField      = api.NewField(schemaHeader)
	lengthField      = api.NewField(headerLength)
)

// identify gives the call its id, the client's name for it or else ours, and begins its
// trace.
func (c *call) identify() {
	c.endpoint = c.route.pattern
	head, answer := &c.ctx.Request.Header, &c.ctx.Response.Header
	if c.name(string(requestIDField.Of(head))); !c.named {
		c.id = c.ids.Next()
	}
	answer.Set("X-Request-Id", c.id)
	if h := c.config.Hooks.StartTrace; h != nil && c.route.infers {
		c.trace = h(string(traceParentField.Of(head)), string(traceStateField.Of(head)))
		if c.trace.Header != "" {
			answer.Set("Traceresponse", c.trace.Header)
		}
	}
}

// once executes a prediction, or answers it with what its idempotency key stands for. The key stands for the path and the body:
// another version that the model's name means by now is no other request.
func (c *call) once(execute func() *api.Error) *api.Error {
	if c.config.Keys == nil || !c.route.infers || len(c.ctx.Request.Header.PeekAll(edge.KeyHeader)) == 0 {
		return execute()
	}
	if fault := c.mayReplay(); fault != nil {
		return fault
	}
	return c.config.Keys.Once(c.ctx, c.caller.Tenant, string(c.ctx.Path()), errorBody, execute)
}

// mayReplay refuses a caller that may not use the model: what another key of its tenant was answered is not for it.
func (c *call) mayReplay() *api.Error {
	if c.caller.UsesAll() {
		return nil
	}
	names := []string{c.route.model}
	if p, err := c.config.Models.Find(c.route.model, c.route.version); err == nil {
		if about := p.Describe(); about != nil {
			names = append(names, about.Name)
		}
	}
	if c.caller.MayUse(names...) {
		return nil
	}
	return notServed(c.route.model, c.route.version)
}

// errorBody is an error in the form that all predict protocols share.
func errorBody(fault *api.Error) []byte {
	return append(api.AppendString([]byte(`{"error":`), fault.Message), '}')
}

// refuse answers with an error.
func (c *call) refuse(fault *api.Error) {
	r := &c.ctx.Response
	r.ResetBody()
	c.ctx.SetStatusCode(fault.Status)
	c.ctx.SetContentType("application/json")
	fault.Headers(r.Header.Set)
	switch fault.Status {
	case http.StatusUnauthorized:
		r.Header.Set("WWW-Authenticate", "Bearer")
	case http.StatusMethodNotAllowed:
		r.Header.Set("Allow", c.route.method)
	}
	c.ctx.SetBody(errorBody(fault))
	if h := c.config.Hooks.OnRefused; h != nil && fault.Status != edge.StatusHungUp {
		r := c.refusal(string(r.Header.Peek("X-Request-Id")), c.route.pattern, fault)
		r.Method, r.Remote, r.Reason = edge.MethodName(&c.ctx.Request.Header), c.ctx.RemoteAddr().String(), c.why
		r.Early = c.route.infers && !c.started
		h(r)
	}
}

// model finds the model of the call's path.
func (c *call) model() *api.Error {
	if fault := c.isAbout(string(userField.Of(&c.ctx.Request.Header))); fault != nil {
		return fault
	}
	fault := c.use(&c.job, c.route.model, c.route.version)
	c.label(c.ctx.Response.Header.Set)
	return fault
}

// settled is the version that answers, now that the body is read: see Server.settle.
func (c *call) settled() (again bool, fault *api.Error) {
	about, arm := c.about, c.arm
	if again, fault = c.settle(&c.job); c.about != about || c.arm != arm {
		answer := &c.ctx.Response.Header
		answer.Del("X-Weir-Arm")
		c.label(answer.Set)
	}
	return again, fault
}

// score runs the call's prediction and says in the response's header what there is to
// say of it.
func (c *call) score() *api.Error {
	head := &c.ctx.Request.Header
	c.terms.class = strings.TrimSpace(string(classField.Of(head)))
	c.terms.deadline = strings.TrimSpace(string(deadlineField.Of(head)))
	if c.config.ClientTimeouts {
		c.terms.waits = edge.ClientTimeout(head)
	}
	if schema := schemaField.Of(head); len(schema) > 0 {
		c.p.Schema = string(schema)
	}
	if fault := c.terms.apply(&c.job); fault != nil {
		return fault
	}
	answer := &c.ctx.Response.Header
	if len(c.warnings) > 0 {
		answer.Set("X-Weir-Warnings", strings.Join(c.warnings, ", "))
	}
	w := &watched{call: c, aborted: c.running.Aborted(), deadline: c.p.DoneBy}
	defer w.stop()
	fault := c.predict(w, &c.job, func(left quota.Remaining, degraded bool) {
		meter.WriteRemaining(answer.Set, left)
		if degraded {
			answer.Set("X-Weir-Quota", "local")
		}
	})
	if c.spared {
		answer.Del("X-Weir-Arm")
		c.label(answer.Set)
	}
	for _, n := range c.p.Notes {
		answer.Set("X-Weir-"+n.Name, n.Value)
	}
	return fault
}

// body is the request's body with its content coding undone.
func (c *call) body() ([]byte, *api.Error) {
	coding := codingField.Of(&c.ctx.Request.Header)
	if len(coding) == 0 {
		return c.ctx.Request.Body(), nil
	}
	return c.decoded(string(coding))
}

func (c *call) json(v any) *api.Error {
	api.WriteJSON(c.ctx, statusOK, v)
	return nil
}

func (s *Server) panicked(where string, value any) {
	if h := s.config.Hooks.OnPanic; h != nil {
		h(where, value, debug.Stack())
	}
}

// created is the time that model lists show: that of the server's start.
var created = time.Now().Unix()
