package openai

import (
	"net/http"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/job"
	"weir/api/openai/relay"
)

// Where the candidate of a rollout fails a request, and the client has seen nothing of an answer yet, the stable version is
// asked once in its place. The failure counts for the candidate; nothing of it is billed.

// canFailOver reports whether another version may have to answer the request, so that its body is kept until then.
func (l *lease) canFailOver() bool { return l.again && l.held != nil && l.held.Spare != nil }

// failOver decides that the stable version is asked after a candidate's failure. One that no replica in the tenant's regions was there
// for has cost nothing, so the bound of such requests does not count it.
func (l *lease) failOver(fault *api.Error) bool {
	if !l.canFailOver() || l.server.running.IsDraining() {
		return false
	}
	switch fault.Status {
	case edge.StatusHungUp, http.StatusRequestTimeout, http.StatusConflict, http.StatusGatewayTimeout: // the client's, or its time is over
		return false
	}
	l.failed = fault.Status >= http.StatusBadRequest && (fault.Code == relay.NoReplicaInRegion || l.held.Spare())
	return l.failed
}

// failOverUnread decides the same of a request that the candidate refuses before it runs: a chat that it cannot render, a
// prompt that is too long for it. The refusal counts for the candidate.
func (l *lease) failOverUnread(fault *api.Error) {
	if l.canFailOver() && l.failOver(fault) {
		l.exchange.Refused(l.call, fault)
	}
}

// withFailover answers a request, and where a candidate fails it once more: the stable version is chosen then.
func (l *lease) withFailover(o *job.Body, answer func(o *job.Body) *api.Error) *api.Error {
	l.again = true
	fault := answer(o)
	if !l.failed {
		return fault
	}
	l.failed, l.stable = false, true
	for _, name := range []string{"X-Weir-Arm", "X-Weir-Version", "X-Weir-Attempts", "X-Weir-Replica", "X-Weir-Route-Reason", "Retry-After", "X-Should-Retry"} {
		l.ctx.Response.Header.Del(name)
	}
	return answer(o.Under(o.Notes))
}
