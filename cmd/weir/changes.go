package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.uber.org/zap"

	"weir/telemetry/audit"
)

// Actions of the audit log.
const (
	actionKeyCreate     = "key.create"
	actionKeyChange     = "key.change"
	actionKeyRotate     = "key.rotate"
	actionKeyRevoke     = "key.revoke"
	actionDenied        = "signin.denied"
	actionConfigReload  = "config.reload"
	actionCacheReset    = "prefix_cache.reset"
	actionTenantCreate  = "tenant.create"
	actionTenantChange  = "tenant.change"
	actionTenantDelete  = "tenant.delete"
	actionTenantForget  = "tenant.forget"
	actionTenantRead    = "tenant.read_prompts"
	actionModelLoad     = "model.load"
	actionModelUnload   = "model.unload"
	actionModelAlias    = "model.alias"
	actionModelRollback = "model.rollback"
	actionDeploy        = "deployment.apply"
	actionUndeploy      = "deployment.delete"
	actionRollout       = "rollout." // and what it came to
	actionBrownoutLower = "brownout.lower"
	actionBrownoutRaise = "brownout.raise"
	actionModeration    = "moderation"
	actionRotateKeys    = "store.rotate_keys"
	actionStoreBackup   = "store.backup"
	actionStoreRestore  = "store.restore"
	actionStart         = "process.start"
	actionStop          = "process.stop"
)

// details are what an entry says more; never a secret.
type details map[string]any

// addEntry adds a change to an audit log, before the change: one that cannot be noted is
// not made. A change that fails afterwards has its entry all the same, and one more that says so: see auditFailure.
func addEntry(ctx context.Context, log audit.Log, by, action, object string, more details) (audit.Entry, error) {
	change, err := changeOf(by, action, object, more)
	if err != nil {
		return audit.Entry{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	entry, err := log.Append(ctx, change)
	if err != nil {
		return entry, fmt.Errorf("the change cannot be written into the audit log, so it is not made: %w", err)
	}
	return entry, nil
}

// changeOf is what an entry holds, as of now.
func changeOf(by, action, object string, more details) (audit.Change, error) {
	text, err := json.Marshal(more)
	return audit.Change{Time: time.Now(), Actor: by, Action: action, Object: object, Details: string(text)}, err
}

// audit is addEntry on the server's store. A server without one keeps no audit log.
func (s *server) audit(ctx context.Context, by, action, object string, more details) error {
	if s.store == nil {
		return nil
	}
	_, err := addEntry(ctx, s.store, by, action, object, more)
	return err
}

// auditFailure adds that a change was asked for and not made.
func (s *server) auditFailure(ctx context.Context, by, action, object string, more details, why error) {
	all := details{"failed": why.Error()}
	maps.Copy(all, more)
	if err := s.audit(ctx, by, action, object, all); err != nil {
		s.log.Error("a change that failed is not in the audit log as failed", zap.String("action", action), zap.String("object", object), zap.Error(errors.Unwrap(err)))
	}
}

// auditRule adds what a rule of the configuration did by itself. It was done whether or
// not the entry can be written.
func (s *server) auditRule(action, rule string, more details) {
	if err := s.audit(context.Background(), "rule:brownout", action, rule, more); err != nil {
		s.log.Error("what a rule did is not in the audit log", zap.String("action", action), zap.Error(errors.Unwrap(err)))
	}
}

// actor is the process itself, in entries about its start and end.
const actor = "weir serve"

// noteStart adds the process's start. Without that entry it does not start.
func (s *server) noteStart(version string) error {
	err := s.audit(context.Background(), actor, actionStart, s.listener.Addr().String(),
		details{"version": version, "config": s.config.Digest(), "by": commandLine()})
	if err == nil {
		s.logHead()
	}
	return err
}

// noteStop adds the process's end.
func (s *server) noteStop() {
	if s.store == nil {
		return
	}
	if err := s.audit(context.Background(), actor, actionStop, s.listener.Addr().String(), nil); err != nil {
		s.log.Error("the end of the process is not in the audit log", zap.Error(errors.Unwrap(err)))
	}
	s.logHead()
}

// logHead writes the head of the audit log into the log, which may be kept where the
// store's owner cannot change it.
func (s *server) logHead() {
	if s.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
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
func (s *server) logHeads(ctx context.Context) {
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
