package rollouts

import (
	"net/http"
	"strings"
	"time"

	"weir/api/edge"
	"weir/internal/inference"
	"weir/router/rollout"
	"weir/telemetry/slo"
)

// observer takes in how requests ended.
type observer struct {
	control    *rollout.Controller
	objectives func() *slo.Objectives
	changed    func(list []rollout.Transition)
}

// displaced is the code of a request that no replica in the regions of its tenant was there for, which says nothing of an arm.
const displaced = "no_replica_in_region"

// refused takes in a request that an arm was to answer, and that was refused before it ran: a chat of a model that cannot chat, a prompt
// that is too long for it.
func (b *observer) refused(f *edge.Refusal) {
	o := &rollout.Outcome{
		Rollout: f.Arm.Rollout, Arm: rollout.ArmOf(f.Arm.Name), Key: f.Arm.Key, ID: f.ID, Tenant: f.Tenant, Failed: f.Status >= http.StatusInternalServerError,
	}
	if o.Denied, o.Throttled = denied(f.Status, ownLimit); o.Denied || o.Throttled || o.Failed {
		b.changed(b.control.Observe(f.Model, time.Now(), o))
	}
}

// ownLimit stands for whichever of a tenant's own limits refuses a request with 429 before it runs.
const ownLimit = "own"

// denied tells what an arm refuses. A limit of the tenant's own says nothing of an arm, and neither does a client that has left or
// whose own deadline passed.
func denied(status int, limit string) (denied, throttled bool) {
	switch {
	case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests && limit == "":
		return false, true
	case status == http.StatusTooManyRequests, status == edge.StatusHungUp, status == http.StatusRequestTimeout,
		status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return false, false
	}
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError, false
}

func (b *observer) observe(f *edge.RequestFinish) {
	if f.FromCache {
		return // no version computed it
	}
	o := &rollout.Outcome{
		Rollout: f.Arm.Rollout, Arm: rollout.ArmOf(f.Arm.Name), Key: f.Arm.Key, ID: answerID(f.ID), Tenant: f.Tenant,
		Failed: f.Status >= http.StatusInternalServerError, Empty: f.Empty, Refused: f.Refuses,
		TTFT: since(f.Arrived, f.FirstToken), ITL: meanGap(f), Output: f.OutputTokens, Cost: float64(f.Cost),
	}
	if o.Denied, o.Throttled = denied(f.Status, f.Limit); f.Status >= http.StatusBadRequest && !o.Denied && !o.Throttled && !o.Failed {
		return // the client is why it ended
	}
	if n := f.OutputTokens; n > 0 {
		o.Compute = f.Compute / time.Duration(n)
	} else if f.Prediction && f.PromptTokens > 0 {
		o.Compute = f.Compute / time.Duration(f.PromptTokens)
	}
	switch whole := f.Finished.Sub(f.Arrived); {
	case !f.FirstToken.IsZero() || o.Failed || o.Denied || o.Throttled:
	case f.OutputTokens == 0: // a prediction has one part
		o.TTFT = whole
	default: // other servers' tokens, which came together
		o.Whole = whole
	}
	for _, reason := range f.Reasons {
		o.Length = o.Length || reason == inference.FinishLength
	}
	o.Missed = b.objectives().Missed(o.TTFT, o.ITL)
	b.changed(b.control.Observe(f.Model, time.Now(), o))
}

func since(from, to time.Time) time.Duration {
	if to.IsZero() {
		return 0
	}
	return to.Sub(from)
}

// meanGap is the mean time between the tokens of a choice; 0 where there was none.
func meanGap(f *edge.RequestFinish) time.Duration {
	choices := len(f.Reasons)
	if gaps := f.OutputTokens - choices; gaps > 0 && !f.LastToken.IsZero() {
		return f.LastToken.Sub(f.FirstToken) * time.Duration(max(choices, 1)) / time.Duration(gaps)
	}
	return 0
}

// ownIDBytes is how long an id is that this server gives a request, as text.
const ownIDBytes = 24

// answerID is an answer's id without what says of which kind it is: the answer to a chat is chatcmpl-ID in its body and ID in its header.
func answerID(id string) string {
	if i := strings.LastIndexAny(id, "-_"); i >= 0 && len(id)-i-1 == ownIDBytes && strings.Trim(id[i+1:], "0123456789abcdef") == "" {
		return id[i+1:]
	}
	return id
}
