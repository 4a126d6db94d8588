package predict

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"weir/api"
	"weir/api/edge"
	"weir/internal/inference"
	"weir/internal/tensor"
	"weir/router"
)

// Who a request is, and which version answers it. A request has one id: that of the client's header x-request-id, else V2's own id,
// else ours (of a message in a gRPC stream: its own id, else ours). The answer, the prediction log, the server's log, traces and
// rollouts have that one.

// userHeader says whom a request is about: the same user gets the same version of a rollout. V2's parameter user says the same.
const userHeader = "X-Weir-User"

// maxUserBytes bounds what names a user.
const maxUserBytes = 256

// name takes the client's name for the request as its id, if it can be sent back.
func (j *job) name(own string) {
	if edge.IsPlain([]byte(own)) {
		j.id, j.named = own, true
	}
}

// isAbout says whom the request is about, unless it was said before.
func (j *job) isAbout(user string) *api.Error {
	if len(user) > maxUserBytes {
		return api.Refuse("invalid_value", fmt.Sprintf("the user has %d bytes; at most %d are taken: send an id or a hash", len(user), maxUserBytes))
	}
	if j.user == "" {
		j.user = user
	}
	return nil
}

// label writes into an answer's header which version answers, and as which arm of a rollout.
func (j *job) label(set func(name, value string)) {
	if j.about != nil && edge.IsPlain([]byte(j.about.Version)) {
		set("X-Weir-Version", j.about.Version)
	}
	if j.arm.Name != "" {
		set("X-Weir-Arm", j.arm.Name)
	}
}

// use finds the model of the job's request, if its tenant may use it. A model that the tenant may not use does not exist. Where the
// request names no version, a rollout may choose it, by what is known before the body is read; settle looks again.
func (s *Server) use(j *job, model, version string) *api.Error {
	j.asked, j.pinned = model, version != ""
	if !j.pinned {
		version, j.arm = s.choose(j)
	}
	return s.take(j, version)
}

// choose lets a rollout say which version answers the job.
func (s *Server) choose(j *job) (version string, arm router.Arm) {
	if c, ok := s.config.Models.(router.Chooser); ok {
		j.stickyKey = router.StickyKey{Tenant: j.Caller.Tenant.Name, User: j.user, Request: j.id, Residency: j.Caller.Tenant.Residency}
		return c.Choose(j.asked, j.stickyKey)
	}
	return "", arm
}

// spares decides that the stable version is asked after the candidate of a rollout has failed the job, and takes that. The failure
// counts for the candidate.
func (s *Server) spares(j *job, fault *api.Error) bool {
	c, ok := s.config.Models.(router.Chooser)
	if !ok || j.pinned || j.spared || !j.ran || s.running.IsDraining() {
		return false
	}
	switch fault.Status {
	case edge.StatusHungUp, http.StatusRequestTimeout, http.StatusConflict, http.StatusGatewayTimeout: // the client's, or its time is over
		return false
	}
	version, may := c.Spare(j.asked, j.arm)
	if !may {
		return false
	}
	before, predictor := j.about, j.predictor
	if s.take(j, version) != nil || !reflect.DeepEqual(before.Inputs, j.about.Inputs) { // it is not there, or takes other rows
		j.about, j.predictor = before, predictor
		return false
	}
	j.spared, j.arm = true, router.Arm{}
	return true
}

// settle chooses the version again for a request whose body is read: it may say whom it is about. again: the version takes other
// inputs than the one before, so that bodies whose form depends on them have to be read again.
func (s *Server) settle(j *job) (again bool, fault *api.Error) {
	if j.user == "" {
		j.user = entityOf(j.about, j.p.Inputs)
	}
	if j.pinned || j.stickyKey.User == j.user && j.stickyKey.Request == j.id {
		return false, nil
	}
	before := j.about
	version, arm := s.choose(j)
	if j.arm = arm; version == "" || version == before.Version {
		return false, nil
	}
	fault = s.take(j, version)
	return fault == nil && !reflect.DeepEqual(before.Inputs, j.about.Inputs), fault
}

// entityOf is whom the first row is about, by the inputs that name it; "" where one is missing.
func entityOf(about *router.Description, in []tensor.Tensor) string {
	var parts []string
	for _, name := range about.Entity {
		i := slices.IndexFunc(in, func(t tensor.Tensor) bool { return t.Name == name })
		if i < 0 {
			return ""
		}
		part, ok := in[i].Text(0)
		if !ok {
			return ""
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "\x00")
}

// take finds a version of the model that the job asks for, and holds it until the job ends or takes another one.
func (s *Server) take(j *job, version string) *api.Error {
	model := j.asked
	predictor, hold, err := s.config.Models.Acquire(model, version)
	if c, ok := s.config.Models.(router.Chooser); ok && isUnknown(err) && version != "" && !j.pinned && j.Caller.MayUse(model) {
		c.Lost(model, err) // a reload has taken the version away that a rollout has chosen
		j.arm = router.Arm{}
		return s.take(j, "")
	}
	if err == nil {
		about := predictor.Describe()
		if about != nil && j.Caller.MayUse(about.Name, model) {
			j.release()
			j.predictor, j.about, j.p.Hold = predictor, about, hold
			return nil
		}
		if hold != nil {
			hold.Release()
		}
		if about == nil && j.Caller.MayUse(model) {
			return edge.Fault(fmt.Errorf("%w: model %q was never loaded, or no server behind it has told what it takes", inference.ErrUnavailable, model))
		}
		err = fmt.Errorf("%w", router.ErrNoPredictor)
	}
	if isUnknown(err) || !j.Caller.MayUse(model) { // of a model that is not the tenant's nothing shows
		return notServed(model, version)
	}
	return edge.Fault(err)
}

// notServed refuses a request for a model that is not here, or not for the caller.
func notServed(model, version string) *api.Error {
	what := fmt.Sprintf("model %q", model)
	if version != "" {
		what += fmt.Sprintf(" of version %q", version)
	}
	e := api.Refuse("model_not_found", what+" is not served here, or not to this caller; POST /v2/repository/index lists what is")
	e.Param = "model"
	return e
}
