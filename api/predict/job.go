package predict

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/meter"
	"weir/internal/inference"
	"weir/internal/tensor"
	"weir/router"
	"weir/scheduler/quota"
)

// job is one predict request, whatever protocol brought it.
type job struct {
	*edge.Exchange

	id         string // the client's name for the request, or ours: in the answer, in logs, traces and rollouts
	named      bool   // id is the client's
	endpoint   string // for hooks
	asked      string // the client's name of the model
	predictor  router.Predictor
	about      *router.Description
	p          router.Prediction
	warnings   []string
	pinned     bool             // the request names its version
	user       string           // whom the request is about, by what the client says; "": it does not say
	stickyKey  router.StickyKey // that the version was last chosen by
	arm        router.Arm       // of the rollout that chose the version
	started    bool             // OnRequestStart has seen it
	ran        bool             // the version has had the request
	failedOver bool             // the candidate of a rollout has failed it: the stable version has it in its place
	parsed     time.Time
	computed   time.Time // the answer was there
}

// describe adds to what is told of a refusal what the job knows of its request.
func (j *job) describe(r *edge.Refusal) {
	r.Arm, r.Prediction, r.Started = j.arm, true, j.started
	if j.about != nil {
		r.Model, r.Version = j.about.Name, j.about.Version
	}
}

// release gives back the version that the job has found.
func (j *job) release() {
	if j.p.Hold != nil {
		j.p.Hold.Release()
		j.p.Hold = nil
	}
}

// isUnknown reports whether there is no such model.
func isUnknown(err error) bool { return errors.Is(err, router.ErrNoPredictor) }

// predict reserves what the job's rows cost, has them scored and settles. remaining is
// told what the caller has left, where there are limits.
func (s *Server) predict(ctx context.Context, j *job, remaining func(quota.Remaining, bool)) *api.Error {
	if fault := j.check(); fault != nil {
		return fault
	}
	if !s.running.Enter() {
		return edge.ShuttingDown()
	}
	defer s.running.Leave()
	notes := j.p.Notes
	fault := s.predictBy(ctx, j, remaining)
	if fault != nil && s.failsOver(j, fault) {
		j.p.Outputs, j.p.Notes = nil, notes
		return s.predictBy(ctx, j, remaining)
	}
	return fault
}

// predictBy has the version that was chosen score the job's rows.
func (s *Server) predictBy(ctx context.Context, j *job, remaining func(quota.Remaining, bool)) *api.Error {
	t := j.Caller.Tenant
	p := &j.p
	p.ID, p.Arm, p.Tenant, p.Weight, p.Signer = j.id, j.arm.Name, t.Name, t.Weight, s.config.Callers.SignerFor(t)
	p.Residency, p.Counted = t.Residency, s.config.Callers.Counted(j.id)
	p.Trial = j.Internal != nil && j.Internal.Trial
	rows := p.Inputs[0].Rows()
	grant, fault := s.reserve(j, rows, remaining)
	if fault != nil {
		return fault
	}
	j.parsed = time.Now()
	finish := edge.RequestFinish{RequestStart: edge.RequestStart{
		ID: j.id, Endpoint: j.endpoint, Model: j.about.Name, Version: j.about.Version, Arm: j.arm, Tenant: t.Name, Key: j.Caller.KeyID(), Class: p.Class,
		Prompts: 1, PromptTokens: int(rows), N: 1, Arrived: j.Arrived, Parsed: j.parsed, Submitted: j.parsed, Counted: j.Caller.Counted, Prediction: true, Trace: j.Trace,
	}, Status: statusOK}
	hooks := &s.config.Hooks
	j.started, j.ran = true, true
	if hooks.OnRequestStart != nil {
		hooks.OnRequestStart(finish.RequestStart)
	}
	err := s.run(ctx, j)
	j.computed = time.Now()
	if err != nil {
		fault = j.faultOf(ctx, err)
		finish.Status, finish.Code = fault.Status, fault.Code
		if fault.Status == edge.StatusHungUp && hooks.OnDisconnect != nil {
			hooks.OnDisconnect(j.about.Name)
		}
	} else {
		if j.arm.Name != "" {
			p.Notes = append(p.Notes, router.Note{Name: "arm", Value: j.arm.Name})
		}
		finish.Reasons = []inference.FinishReason{inference.FinishStop}
		finish.Admitted, finish.Compute = j.parsed.Add(p.Waited), p.Computed
	}
	if grant != nil {
		s.config.Meter.Settle(grant, quota.Use{Ran: err == nil, Input: rows})
	}
	if err == nil {
		finish.Cost = s.priceOf(j).Cost(rows, 0, 0)
	}
	finish.Finished = j.computed
	if hooks.OnRequestFinish != nil {
		hooks.OnRequestFinish(finish)
	}
	s.stats.count(j, rows, err == nil)
	return fault
}

// run calls the predictor. A panic of it is the request's error alone.
func (s *Server) run(ctx context.Context, j *job) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: panic", inference.ErrInternal)
			s.panicked("predict", v)
		}
	}()
	if err := j.predictor.Predict(ctx, &j.p); err != nil {
		return err
	}
	return j.checkOutputs()
}

// faultOf is what the client is told of a predictor's error: why its context ended
// comes first.
func (j *job) faultOf(ctx context.Context, err error) *api.Error {
	if w, ok := ctx.(interface{ cause() error }); ok {
		if why := w.cause(); why != nil {
			err = why
		}
	}
	switch {
	case errors.Is(err, errHungUp), errors.Is(err, context.Canceled):
		return edge.ClientGone()
	case errors.Is(err, errStopped):
		return edge.ShuttingDown()
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w: the prediction was due before it was computed", inference.ErrDeadline)
	}
	return edge.Fault(err)
}

// check refuses what no predictor need look at.
func (j *job) check() *api.Error {
	in := j.p.Inputs
	if len(in) == 0 {
		return api.Refuse("missing_required_parameter", "the request has no inputs; GET /v2/models/"+j.about.Name+" names those of the model")
	}
	rows := in[0].Rows()
	if j.about.MaxRows > 0 && rows > int64(j.about.MaxRows) {
		return api.Refuse("request_never_fits", fmt.Sprintf("the request has %d rows; model %s takes at most %d at once, so send them in parts",
			rows, j.about.Name, j.about.MaxRows))
	}
	for _, name := range j.p.Wanted {
		if !hasOutput(j.about, name) {
			return api.Refuse("invalid_value", fmt.Sprintf("model %s has no output %s; it has %s", j.about.Name, quote(name), outputNames(j.about)))
		}
	}
	return nil
}

func hasOutput(d *router.Description, name string) bool {
	for i := range d.Outputs {
		if d.Outputs[i].Name == name {
			return true
		}
	}
	return false
}

func outputNames(d *router.Description) string {
	list := make([]string, len(d.Outputs))
	for i := range d.Outputs {
		list[i] = d.Outputs[i].Name
	}
	return strings.Join(list, ", ")
}

// checkOutputs wants the outputs that were asked for, in their order: what a predictor
// breaks here is a bug of the predictor.
func (j *job) checkOutputs() error {
	for i, name := range j.p.Wanted {
		if i >= len(j.p.Outputs) || j.p.Outputs[i].Name != name {
			return j.reorder()
		}
	}
	return nil
}

func (j *job) reorder() error {
	ordered := make([]tensor.Tensor, 0, len(j.p.Wanted))
	for _, name := range j.p.Wanted {
		found := false
		for i := range j.p.Outputs {
			if j.p.Outputs[i].Name == name {
				ordered, found = append(ordered, j.p.Outputs[i]), true
			}
		}
		if !found {
			return fmt.Errorf("%w: output %q is missing", inference.ErrInternal, name)
		}
	}
	j.p.Outputs = ordered
	return nil
}

// reserve takes what the rows cost from the tenant's limits; they count as input
// tokens. A nil grant is that of a tenant without limits.
func (s *Server) reserve(j *job, rows int64, remaining func(quota.Remaining, bool)) (*quota.Grant, *api.Error) {
	if s.config.Meter == nil {
		return nil, nil
	}
	who := j.Caller.Holder(j.about.Name, j.about.Name)
	if who.Unlimited() {
		return nil, nil
	}
	grant, err := s.config.Meter.Reserve(who, quota.Ask{Input: rows, Price: s.priceOf(j)})
	if err != nil {
		if r, ok := errors.AsType[*quota.Refusal](err); ok {
			remaining(r.Remaining, false)
		}
		return nil, meter.Fault(err)
	}
	remaining(grant.Remaining, grant.Degraded)
	return &grant, nil
}

// warn notes what is ignored; a strict server refuses.
func (j *job) warn(strict bool, name string) *api.Error {
	if strict {
		return api.Refuse("unknown_parameter", fmt.Sprintf("unknown parameter %s; leave it out, or run the server without --strict to have such fields ignored", name))
	}
	if len(j.warnings) < maxWarnings {
		j.warnings = append(j.warnings, "ignored "+name)
	}
	return nil
}

// maxWarnings bounds the header that names what was ignored.
const maxWarnings = 16
