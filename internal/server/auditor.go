package server

import (
	"context"
	"errors"
	"maps"
	"time"

	"go.uber.org/zap"

	"weir/internal/server/state"
	"weir/telemetry/audit"
)

// auditor writes what the server, its operators and its rules change into the audit log. A server without a store keeps none.
type auditor struct {
	kept  auditLog // nil: none
	log   *zap.Logger
	begun bool   // the log has the process's start
	place string // this server, in entries about itself: the address of its API
}

// auditLog is what the auditor needs of the store.
type auditLog interface {
	audit.Log
	Head(ctx context.Context) (audit.Head, error)
}

// Add adds a change before it is made.
func (a *auditor) Add(ctx context.Context, by, action, object string, more state.Details) error {
	if a.kept == nil {
		return nil
	}
	_, err := state.AddEntry(ctx, a.kept, by, action, object, more)
	return err
}

// Failed adds that a change was asked for and not made.
func (a *auditor) Failed(ctx context.Context, by, action, object string, more state.Details, why error) {
	all := state.Details{"failed": why.Error()}
	maps.Copy(all, more)
	if err := a.Add(ctx, by, action, object, all); err != nil {
		a.log.Error("a change that failed is not in the audit log as failed", zap.String("action", action), zap.String("object", object), zap.Error(errors.Unwrap(err)))
	}
}

// rule adds what a rule of the configuration did by itself. It was done whether or not the entry can be written.
func (a *auditor) rule(action, rule string, more state.Details) {
	if err := a.Add(context.Background(), "rule:brownout", action, rule, more); err != nil {
		a.log.Error("what a rule did is not in the audit log", zap.String("action", action), zap.Error(errors.Unwrap(err)))
	}
}

// denied adds callers who were denied.
func (a *auditor) denied(more state.Details) {
	if err := a.Add(context.Background(), actor, state.ActionDenied, a.place, more); err != nil {
		a.log.Error("callers who were denied are not in the audit log", zap.Error(errors.Unwrap(err)))
	}
}

// actor is the process itself, in entries about its start and end.
const actor = "weir serve"

// start adds the process's start. Without that entry it does not start.
func (a *auditor) start(version, config string) error {
	err := a.Add(context.Background(), actor, state.ActionStart, a.place, state.Details{"version": version, "config": config, "by": state.CommandLine()})
	if a.begun = err == nil; a.begun {
		a.logHead()
	}
	return err
}

// stop adds the process's end.
func (a *auditor) stop() {
	if a.kept == nil || !a.begun {
		return
	}
	if err := a.Add(context.Background(), actor, state.ActionStop, a.place, nil); err != nil {
		a.log.Error("the end of the process is not in the audit log", zap.Error(errors.Unwrap(err)))
	}
	a.logHead()
}

// logHead writes the head of the audit log into the log, which may be kept where the store's owner cannot change it.
func (a *auditor) logHead() {
	if a.kept == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
	defer cancel()
	head, err := a.kept.Head(ctx)
	if err != nil {
		a.log.Error("the head of the audit log cannot be read", zap.Error(err))
		return
	}
	a.log.Info("head of the audit log", zap.String("head", head.String()))
}

// headEvery is how often the head is logged.
const headEvery = 24 * time.Hour

// logHeads logs the head every day until ctx ends.
func (a *auditor) logHeads(ctx context.Context) {
	tick := time.NewTicker(headEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.logHead()
		}
	}
}
