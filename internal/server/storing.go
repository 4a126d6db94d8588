package server

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"weir/internal/server/state"
	"weir/telemetry"
	"weir/telemetry/audit"
)

// openStore opens the server's store, if there is one. lease is Config.StoreLease.
func (s *Server) openStore(lease time.Duration) error {
	exists, err := state.Exists(s.config.Store)
	if err != nil || !exists {
		return err
	}
	trouble := &telemetry.LogLimiter{Every: telemetry.TroubleEvery}
	s.store, err = state.Open(context.Background(), s.config.Store, state.Options{
		Lease: lease, AnswerBytes: s.config.API.Idempotency.TenantBytes, ResponseBytes: s.config.API.Responses.TenantBytes,
		Failed: func(err error) {
			trouble.Do(func(held int) { s.log.Error("the store failed", zap.Error(err), zap.Int("times_before", held)) })
		},
	})
	if err != nil {
		return err
	}
	s.closing.push("store", func(context.Context) error { return state.Close(s.store) })
	s.quotas.ledger, s.quotas.keys = s.store.Usage, s.store.Keys.List
	if address, err := state.URL(s.config.Store); err == nil && s.config.Store.DataKeys == "" && !strings.HasPrefix(address, state.SqliteScheme) {
		s.log.Warn("the data keys of tenants lie in the store's own database: a copy of it from before a tenant is forgotten stays readable; " +
			"--data-keys names another database")
	}
	if s.config.Store.Verify {
		if err := state.Verify(context.Background(), s.store); err != nil {
			return err
		}
	}
	return s.checkAudit()
}

// encryptClear encrypts what an earlier weir has left in clear.
func (s *Server) encryptClear(ctx context.Context) {
	rows, err := s.store.EncryptClear(ctx)
	files := 0
	if err == nil {
		files, err = s.batches.EncryptClear(ctx)
	}
	switch {
	case err != nil && ctx.Err() == nil:
		s.log.Error("texts that an earlier weir has left in clear are not encrypted; weir store encrypt tries again", zap.Error(err))
	case rows > 0 || files > 0:
		s.log.Info("texts that an earlier weir had left in clear are encrypted", zap.Int64("rows", rows), zap.Int("files", files))
	}
}

// checkAudit finds an audit log that was tampered with, or is no longer what this weir has noted. The process does not
// start on it: what it would add, and note as the head, would cover the traces up.
func (s *Server) checkAudit() error {
	ctx, cancel := context.WithTimeout(context.Background(), state.AuditTimeout)
	defer cancel()
	noted, err := s.store.Audit.Check(ctx)
	if err != nil {
		return state.AuditBroken(err)
	}
	head, err := s.store.Audit.Head(ctx)
	if err == nil && noted == (audit.Head{}) && head.Sequence > 0 {
		s.log.Warn("no head of the audit log was noted here before: that its end was cut off would not show this time; --audit-head names a file that stays",
			zap.String("head", head.String()))
	}
	return err
}
