package server

import (
	"context"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"weir/configs"
	"weir/internal/server/state"
	"weir/telemetry"
	"weir/telemetry/audit"
)

// openStore opens the server's store, if there is one, or is to be.
func (s *Server) openStore(about *Config) error {
	exists, err := state.Exists(s.config.Store)
	if err != nil {
		return unusual(s.config.Store, err)
	}
	trouble := &telemetry.LogLimiter{Every: telemetry.TroubleEvery}
	options := state.Options{
		Lease: about.StoreLease, AnswerBytes: s.config.API.Idempotency.TenantBytes, ResponseBytes: s.config.API.Responses.TenantBytes,
		Failed: func(err error) {
			trouble.Do(func(held int) { s.log.Error("the store failed", zap.Error(err), zap.Int("times_before", held)) })
		},
	}
	switch {
	case exists:
		if s.store, err = state.Open(context.Background(), s.config.Store, options); err != nil {
			return unusual(s.config.Store, err)
		}
	case about.MakesStore && s.config.Store.URL == "":
		if s.store, err = state.Make(context.Background(), s.config.Store, options); err != nil {
			s.noStore = err
			s.log.Warn("there is no store: files and batches are off, and responses end with the process; --store sqlite:PATH names a place for one, "+
				"--store off says that none is wanted", zap.Error(err))
			return nil
		}
	default:
		return nil
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

// unusual says how a server comes to start whose store at the usual place cannot be opened. It never does so by itself: the store may have
// keys, without which all callers would be let in.
func unusual(c configs.Store, err error) error {
	if c.URL != "" {
		return err
	}
	return fmt.Errorf("%w; --store off starts without the store and its keys, --store sqlite:PATH with another one", err)
}

// storePlace says for people where the store is; empty: they have named it themselves, or want none.
func (s *Server) storePlace() string {
	address, err := state.URL(s.config.Store)
	switch {
	case s.noStore != nil:
		return fmt.Sprintf("none, so no files and batches: %v", s.noStore)
	case s.store == nil || s.config.Store.URL != "" || err != nil:
		return ""
	}
	return strings.TrimPrefix(address, state.SqliteScheme)
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
