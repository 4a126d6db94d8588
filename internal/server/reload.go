package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"weir/api/admin"
	"weir/configs"
	"weir/internal/console"
	"weir/internal/server/state"
	"weir/telemetry"
)

// readConfig reads the configuration again from the sources that the process was
// started with. Flags and environment are as they were; the file may have changed.
type readConfig func() (c configs.Config, warnings []string, err error)

// reloader changes what can be changed of a running server's configuration. What is
// not valid changes nothing: the last good configuration stays.
type reloader struct {
	s     *Server
	read  readConfig
	parts []livePart

	applied func() // is called each time that the configuration which was read last took effect

	mu      sync.Mutex
	running configs.Config // the settings that are in force
}

// livePart prepares a part of the server for a new configuration. Once every part
// is prepared, commit puts the new values into force; commit cannot fail.
type livePart func(c configs.Config) (commit func(), err error)

// newReloader makes the reloader of a server whose parts are there.
func newReloader(s *Server, about *Config) *reloader {
	return &reloader{s: s, read: about.Read, applied: about.Applied, running: s.config, parts: []livePart{
		logLevel(s.level), s.watchers.Tenants.Access.Rate, s.callers.tenants, s.ports.tls.files, s.prices.live(s.edge), s.brownout.live,
		s.watchers.Traces.Objectives, s.quotas.terms, s.fleets.prepare,
	}}
}

// reload reads the configuration, applies it and reports what changed, to the log
// and metrics too. why says who asked. The error is that of the configuration. What drops all
// tenants is an error but with dropTenants.
func (r *reloader) reload(ctx context.Context, why string, dropTenants bool) (admin.Reloaded, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	report, err := r.apply(ctx, why, dropTenants)
	r.s.metrics.ObserveReload(err == nil, time.Now())
	if err != nil {
		r.s.log.Error("the configuration was not reloaded; the last good one stays in force", zap.String("by", why), zap.Error(err))
		return admin.Reloaded{}, err
	}
	r.s.log.Info("configuration reloaded", zap.String("by", why),
		zap.Strings("applied", report.Applied), zap.Strings("needs_restart", report.NeedsRestart))
	for _, w := range report.Warnings {
		r.s.log.Warn(w)
	}
	return report, nil
}

func (r *reloader) apply(ctx context.Context, why string, dropTenants bool) (report admin.Reloaded, err error) {
	next, warnings, err := r.read()
	if err == nil {
		err = r.checkExposure(ctx, next)
	}
	if err != nil {
		return report, err
	}
	if n := len(r.running.Tenants); n > 0 && len(next.Tenants) == 0 && !dropTenants {
		return report, fmt.Errorf("the configuration has no tenants any more, and the one in force limits %d of them; a file that was cut off looks like that, too. "+
			"If it is meant: POST /admin/reload?drop_tenants=true, or restart", n)
	}
	commits := make([]func(), len(r.parts))
	var errs []error
	for i, part := range r.parts {
		commits[i], err = part(next)
		errs = append(errs, err)
	}
	classical, release, err := r.s.predictors.prepare(ctx, next)
	if err := errors.Join(append(errs, err)...); err != nil {
		if release != nil {
			release()
		}
		return report, err
	}
	models, abandon, err := r.s.languages.prepare(ctx, next) // last: it may read gigabytes
	if err != nil {
		release()
		return report, err
	}
	report = admin.Reloaded{Applied: []string{}, NeedsRestart: []string{}, Warnings: warnings}
	for _, c := range configs.Changes(r.running, next) {
		if c.Live {
			report.Applied = append(report.Applied, c.Key)
		} else {
			report.NeedsRestart = append(report.NeedsRestart, c.Key)
		}
	}
	more := state.Details{"applied": report.Applied, "needs_restart": report.NeedsRestart, "config": next.Digest()}
	if err := r.s.audit.Add(ctx, why, state.ActionConfigReload, "", more); err != nil {
		abandon()
		release()
		return report, err
	}
	models()
	classical()
	for _, commit := range commits {
		commit()
	}
	r.running.TakeLive(next)
	r.applied()
	if len(report.NeedsRestart) > 0 {
		report.Warnings = append(report.Warnings, "changed settings that need a restart: "+strings.Join(report.NeedsRestart, ", "))
	}
	return report, nil
}

// checkExposure refuses settings that would take the last key from listeners that other machines reach. These stay where they are until a
// restart, wherever the settings move them.
func (r *reloader) checkExposure(ctx context.Context, next configs.Config) error {
	after := r.running
	after.TakeLive(next)
	if err := state.CheckExposure(ctx, after); err != nil {
		return console.ConfigError(fmt.Errorf("listeners stay where they are until a restart: %w", err))
	}
	return nil
}

// logLevel is the live part of the log.
func logLevel(of zap.AtomicLevel) livePart {
	return func(c configs.Config) (commit func(), err error) {
		level, err := telemetry.ParseLogLevel(c.Log.Level)
		return func() { of.SetLevel(level) }, err
	}
}
