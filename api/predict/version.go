package predict

import (
	"fmt"
	"net/http"
	"reflect"

	"weir/api"
	"weir/api/edge"
	"weir/internal/inference"
	"weir/router"
)

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

// failsOver decides that the stable version is asked after the candidate of a rollout has failed the job, and takes that. The failure
// counts for the candidate.
func (s *Server) failsOver(j *job, fault *api.Error) bool {
	c, ok := s.config.Models.(router.Chooser)
	if !ok || j.pinned || j.failedOver || !j.ran || s.running.IsDraining() {
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
	j.failedOver, j.arm = true, router.Arm{}
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
	what := "model " + quote(model)
	if version != "" {
		what += " of version " + quote(version)
	}
	e := api.Refuse("model_not_found", what+" is not served here, or not to this caller; POST /v2/repository/index lists what is")
	e.Param = "model"
	return e
}
