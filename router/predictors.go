package router

import (
	"context"
	"errors"
)

// ErrNoPredictor says that no classical model has a name, or no version of it.
var ErrNoPredictor = errors.New("no such model")

// Predictors are the classical models of a server: requests find them by name, and
// operators load and unload them. Implementations are safe for concurrent use.
type Predictors interface {
	// Find returns a version of a model, for version "" the one that answers by
	// default. Errors wrap ErrNoPredictor, or inference.ErrUnavailable where the model
	// is known and cannot be used now.
	Find(name, version string) (Predictor, error)
	// Acquire finds a version for a request that it is to answer, as Prediction.Hold: the version stays until that is released, whatever
	// the configuration says meanwhile. The hold is nil where nothing of the version is in memory here.
	Acquire(name, version string) (Predictor, Hold, error)
	// Index lists all versions of all models, loaded or not, sorted by name.
	Index() []ModelState
	// Load makes a known model available, again where it is already. It returns when
	// the model answers, or why it does not. by says who asked, for the audit log.
	Load(ctx context.Context, name, by string) error
	// Unload takes a model away once its running requests have ended.
	Unload(ctx context.Context, name, by string) error
}

// ModelState says whether a version of a classical model can be used.
type ModelState struct {
	Name, Version string
	Ready         bool
	Reason        string // why it is not ready; "" where it was not asked for yet
	Unloaded      bool   // an operator took it away
}

// Chooser decides which version of a model answers a request that names none.
type Chooser interface {
	// Choose returns the version, "" for that which answers by default, and the rollout's arm
	// that it is.
	Choose(model string, by StickyKey) (version string, arm Arm)
	// Spare decides whether the stable version answers a request that a rollout's candidate has failed, and returns
	// it, "" for that which answers by default.
	Spare(model string, arm Arm) (version string, may bool)
	// Lost hears that a version which Choose has named is not there any more.
	Lost(model string, why error)
}

// StickyKey is who asks, as far as rollouts care: the same one gets the same version.
type StickyKey struct {
	Tenant  string
	User    string // whom the request is about; "": it does not say
	Request string // its id

	Residency []string // regions of the servers that may get the request; none: all
}

// Arm is the part of a rollout that a request was given to. The zero Arm is of none.
type Arm struct {
	Rollout string // its id: what happens to the request counts in no other one
	Name    string // as clients read it
	Key     uint64 // of what always gets the same arm
}
