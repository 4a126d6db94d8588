package openai

import (
	"context"

	"weir/api"
	"weir/api/edge"
)

// gone is closed when the call's answer is not wanted any more: the client hung up, or the sender of the
// internal request has ended it.
func (c *call) gone() <-chan struct{} {
	if c.internal != nil {
		return c.internal.Gone
	}
	return api.Watch(c.ctx)
}

// watch is the channel that says that the client hung up: of an execution under a key
// it is nil, which never does.
func (c *call) watch() <-chan struct{} {
	if c.key.execution != nil {
		return nil
	}
	return c.gone()
}

// context ends with edge.ErrHungUp when the client hangs up or the sender of the internal request ends it, and with edge.ErrStopped when the server stops. The
// caller ends it with the call.
func (c *call) context() (context.Context, context.CancelCauseFunc) {
	ctx, cancel := c.untilStopped()
	c.untilHangUp(ctx, cancel)
	return ctx, cancel
}

func (c *call) untilStopped() (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(c.server.running.Context())
}

// untilHangUp ends a context when the client hangs up or the sender of the internal request ends it; never that of an execution under an idempotency key.
func (c *call) untilHangUp(ctx context.Context, cancel context.CancelCauseFunc) {
	switch {
	case c.key.execution != nil:
	case c.internal != nil:
		go watchFor(ctx, cancel, edge.ErrHungUp, c.internal.Gone)
	default:
		api.OnHangUp(c.ctx, func() { cancel(edge.ErrHungUp) })
	}
}

// watchFor ends a context when something happens, until it has ended.
func watchFor(ctx context.Context, cancel context.CancelCauseFunc, why error, happens <-chan struct{}) {
	select {
	case <-happens:
		cancel(why)
	case <-ctx.Done():
	}
}
