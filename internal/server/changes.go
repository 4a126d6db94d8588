package server

import (
	"context"
	"errors"
	"maps"
	"time"

	"weir/internal/server/state"

	"go.uber.org/zap"
)

// audit is addEntry on the server's store. A server without one keeps no audit log.
func (s *Server) audit(ctx context.Context, by, action, object string, more state.Details) error {
	if s.store == nil {
		return nil
	}
	_, err := state.AddEntry(ctx, s.store, by, action, object, more)
	return err
}

// auditFailure adds that a change was asked for and not made.
func (s *Server) auditFailure(ctx context.Context, by, action, object string, more state.Details, why error) {
	all := state.Details{"failed": why.Error()}
	maps.Copy(all, more)
	if err := s.audit(ctx, by, action, object, all); err != nil {
		s.log.Error("a change that failed is not in the audit log as failed", zap.String("action", action), zap.String("object", object), zap.Error(errors.Unwrap(err)))
	}
}

// auditRule adds what a rule of the configuration did by itself. It was done whether or
// not the entry can be written.
func (s *Server) auditRule(action, rule string, more state.Details) {
	if err := s.audit(context.Background(), "rule:brownout", action, rule, more); err != nil {
		s.log.Error("what a rule did is not in the audit log", zap.String("action", action), zap.Error(errors.Unwrap(err)))
	}
}

// actor is the process itself, in entries about its start and end.
const actor = "weir serve"

// noteStart adds the process's start. Without that entry it does not start.
func (s *Server) noteStart(version string) error {
	err := s.audit(context.Background(), actor, state.ActionStart, s.listener.Addr().String(),
		state.Details{"version": version, "config": s.config.Digest(), "by": state.CommandLine()})
	if err == nil {
		s.logHead()
	}
	return err
}

// noteStop adds the process's end.
func (s *Server) noteStop() {
	if s.store == nil {
		return
	}
	if err := s.audit(context.Background(), actor, state.ActionStop, s.listener.Addr().String(), nil); err != nil {
		s.log.Error("the end of the process is not in the audit log", zap.Error(errors.Unwrap(err)))
	}
	s.logHead()
}

// logHead writes the head of the audit log into the log, which may be kept where the
// store's owner cannot change it.
func (s *Server) logHead() {
	if s.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), state.Timeout)
	defer cancel()
	head, err := s.store.Head(ctx)
	if err != nil {
		s.log.Error("the head of the audit log cannot be read", zap.Error(err))
		return
	}
	s.log.Info("head of the audit log", zap.String("head", head.String()))
}

// headEvery is how often the head is logged.
const headEvery = 24 * time.Hour

// logHeads logs the head every day until ctx ends.
func (s *Server) logHeads(ctx context.Context) {
	tick := time.NewTicker(headEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.logHead()
		}
	}
}
