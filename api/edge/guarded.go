package edge

import (
	"errors"
	"runtime/debug"

	"weir/api"
)

// Guarded runs one part of what ends a request. A bug in it is told, and the other parts run all the same.
func (h *Hooks) Guarded(boundary string, part func()) {
	defer func() {
		if v := recover(); v != nil && h.OnPanic != nil {
			h.OnPanic(boundary, v, debug.Stack())
		}
	}()
	part()
}

// Interrupted is the fault of a request to a model that ended for one of the causes that a request's context has, nil where
// the cause is another.
func (h *Hooks) Interrupted(model string, cause error) *api.Error {
	switch {
	case errors.Is(cause, ErrHungUp):
		if h.OnDisconnect != nil {
			h.OnDisconnect(model)
		}
		return ClientGone()
	case errors.Is(cause, ErrCancelled):
		return Cancelled()
	case errors.Is(cause, ErrStopped):
		return ShuttingDown()
	}
	return nil
}
