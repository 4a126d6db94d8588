package openai

import (
	"net/http"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/api/openai/relay"
)

// Where the candidate of a rollout fails a request, and the client has seen nothing of an answer yet, the stable version is
// asked once in its place. The failure counts for the candidate; nothing of it is billed.

// mayBeSpared reports whether another version may have to answer the request, so that its body is kept until then.
func (c *call) mayBeSpared() bool { return c.again && c.held != nil && c.held.Spare != nil }

// spares decides that the stable version is asked after a candidate's failure. One that no replica in the tenant's regions was there
// for has cost nothing, so the bound of such requests does not count it.
func (c *call) spares(fault *api.Error) bool {
	if !c.mayBeSpared() || c.server.running.IsDraining() {
		return false
	}
	switch fault.Status {
	case edge.StatusHungUp, http.StatusRequestTimeout, http.StatusConflict, http.StatusGatewayTimeout: // the client's, or its time is over
		return false
	}
	c.failed = fault.Status >= http.StatusBadRequest && (fault.Code == relay.NoReplicaInRegion || c.held.Spare())
	return c.failed
}

// failsToRead decides the same of a request that the candidate refuses before it runs: a chat that it cannot render, a
// prompt that is too long for it. The refusal counts for the candidate.
func (c *call) failsToRead(fault *api.Error) {
	if c.mayBeSpared() && c.spares(fault) {
		c.exchange.Refused(c, fault)
	}
}

// answerWith has a model answer, and where its candidate fails the stable version.
func (c *call) answerWith(e *endpoint, m *models.Model, o *job.Body, lowered degradation, more bool) *api.Error {
	return c.orSpared(o, func(o *job.Body) *api.Error { return c.answerBy(e, m, o, lowered, more) })
}

// orSpared answers a request, and where a candidate fails it once more: the stable version is chosen then.
func (c *call) orSpared(o *job.Body, answer func(o *job.Body) *api.Error) *api.Error {
	c.again = true
	fault := answer(o)
	if !c.failed {
		return fault
	}
	c.failed, c.spare = false, true
	for _, name := range []string{"X-Weir-Arm", "X-Weir-Version", "X-Weir-Attempts", "X-Weir-Replica", "X-Weir-Route-Reason", "Retry-After", "X-Should-Retry"} {
		c.ctx.Response.Header.Del(name)
	}
	return answer(o.Under(o.Notes))
}
