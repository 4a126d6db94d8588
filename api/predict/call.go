package predict

import (
	"net/http"
	"runtime/debug"
	"strings"
	"time"

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
	route *route
	terms requestTerms
}

// The fields that every prediction reads.
var (
	userField     = api.NewField(userHeader)
	classField    = api.NewField(classHeader)
	deadlineField = api.NewField(deadlineHeader)
	schemaField   = api.NewField(schemaHeader)
	lengthField   = api.NewField(headerLength)
)

// Begin implements edge.Endpoint.
func (rt *route) Begin(x *edge.Exchange) edge.Call {
	return &call{Server: rt.server, route: rt, job: job{Exchange: x, id: x.Name, named: x.Named, endpoint: rt.Pattern}}
}

// Serve implements edge.Call.
func (c *call) Serve() *api.Error { return c.once(func() *api.Error { return c.route.serve(c) }) }

// End implements edge.Call.
func (c *call) End() { c.release() }

// Describe implements edge.Call.
func (c *call) Describe(_ *api.Error, r *edge.Refusal) { c.describe(r) }

// once executes a prediction, or answers it with what its idempotency key stands for. The key stands for the path and the body:
// another version that the model's name means by now is no other request.
func (c *call) once(execute func() *api.Error) *api.Error {
	if c.config.Keys == nil || !c.route.Infers || len(c.Ctx.Request.Header.PeekAll(edge.KeyHeader)) == 0 {
		return execute()
	}
	if fault := c.mayReplay(); fault != nil {
		return fault
	}
	return c.config.Keys.Once(c.Ctx, c.Caller.Tenant, string(c.Ctx.Path()), errorBody, execute)
}

// mayReplay refuses a caller that may not use the model: what another key of its tenant was answered is not for it.
func (c *call) mayReplay() *api.Error {
	if c.Caller.UsesAll() {
		return nil
	}
	names := []string{c.Params.Name}
	if p, err := c.config.Models.Find(c.Params.Name, c.Params.Version); err == nil {
		if about := p.Describe(); about != nil {
			names = append(names, about.Name)
		}
	}
	if c.Caller.MayUse(names...) {
		return nil
	}
	return notServed(c.Params.Name, c.Params.Version)
}

// errorBody is an error in the form that all predict protocols share.
func errorBody(fault *api.Error) []byte {
	return append(api.AppendString([]byte(`{"error":`), fault.Message), '}')
}

// Refuse implements edge.Call.
func (c *call) Refuse(fault *api.Error) {
	r := &c.Ctx.Response
	r.ResetBody()
	c.Ctx.SetStatusCode(fault.Status)
	c.Ctx.SetContentType("application/json")
	fault.Headers(r.Header.Set)
	c.Ctx.SetBody(errorBody(fault))
}

// model finds the model of the call's path.
func (c *call) model() *api.Error {
	if fault := c.isAbout(string(userField.Of(&c.Ctx.Request.Header))); fault != nil {
		return fault
	}
	fault := c.use(&c.job, c.Params.Name, c.Params.Version)
	c.label(c.Ctx.Response.Header.Set)
	return fault
}

// settled is the version that answers, now that the body is read: see Server.settle.
func (c *call) settled() (again bool, fault *api.Error) {
	about, arm := c.about, c.arm
	if again, fault = c.settle(&c.job); c.about != about || c.arm != arm {
		answer := &c.Ctx.Response.Header
		answer.Del("X-Weir-Arm")
		c.label(answer.Set)
	}
	return again, fault
}

// score runs the call's prediction and says in the response's header what there is to
// say of it.
func (c *call) score() *api.Error {
	head := &c.Ctx.Request.Header
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
	answer := &c.Ctx.Response.Header
	if len(c.warnings) > 0 {
		answer.Set("X-Weir-Warnings", strings.Join(c.warnings, ", "))
	}
	w := &watchedContext{call: c, aborted: c.running.Aborted(), deadline: c.p.DoneBy}
	defer w.stop()
	fault := c.predict(w, &c.job, func(left quota.Remaining, degraded bool) {
		meter.WriteRemaining(answer.Set, left)
		if degraded {
			answer.Set("X-Weir-Quota", "local")
		}
	})
	if c.failedOver {
		answer.Del("X-Weir-Arm")
		c.label(answer.Set)
	}
	for _, n := range c.p.Notes {
		answer.Set("X-Weir-"+n.Name, n.Value)
	}
	return fault
}

func (c *call) json(v any) *api.Error {
	api.WriteJSON(c.Ctx, statusOK, v)
	return nil
}

func (s *Server) panicked(where string, value any) {
	if h := s.config.Hooks.OnPanic; h != nil {
		h(where, value, debug.Stack())
	}
}

// created is the time that model lists show: that of the server's start.
var created = time.Now().Unix()
