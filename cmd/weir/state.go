package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"weir/configs"
	"weir/internal/store"
	"weir/telemetry/audit"
)

const (
	sqliteScheme = "sqlite:"
	storeFile    = "weir.db" // in the state directory
)

// errNoHome: there is no place for weir's own files.
var errNoHome = errors.New("the state directory cannot be found")

// storeTimeout bounds opening and closing the store, and each of a verb's questions.
const storeTimeout = 15 * time.Second

// stateDir is where weir keeps its own files: systemd's StateDirectory, or the
// user's.
func stateDir() (string, error) {
	if dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); dir != "" {
		return dir, nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "weir"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%w: %w; set --store sqlite:PATH", errNoHome, err)
	}
	return filepath.Join(home, ".local", "state", "weir"), nil
}

// modelsDir is where models are kept: the setting, a folder in systemd's StateDirectory, or one among the user's data.
func modelsDir(c configs.Registry) (string, error) {
	if c.Dir != "" {
		return c.Dir, nil
	}
	if dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); dir != "" {
		return filepath.Join(dir, "models"), nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "weir", "models"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%w: %w; set --models-dir", errNoHome, err)
	}
	return filepath.Join(home, ".local", "share", "weir", "models"), nil
}

// storeURL is the store's URL, by default that of a file in the state directory.
func storeURL(c configs.Store) (string, error) {
	if c.URL != "" {
		return c.URL, nil
	}
	dir, err := stateDir()
	if err != nil {
		return "", err
	}
	return sqliteScheme + filepath.Join(dir, storeFile), nil
}

// storeExists is false only for a SQLite file at its default place that nobody has
// made yet.
func storeExists(c configs.Store) (bool, error) {
	if c.URL != "" {
		return true, nil
	}
	dir, err := stateDir()
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, storeFile))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoHome) {
		return false, nil
	}
	return err == nil, err
}

// openStore opens the store, with its folder where that is weir's own.
func openStore(ctx context.Context, c configs.Store, options store.Options) (*store.Store, error) {
	address, options, err := storeAt(c, options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return store.Open(ctx, address, options)
}

// storeAt is where the store is and what opens it.
func storeAt(c configs.Store, options store.Options) (string, store.Options, error) {
	address, err := storeURL(c)
	if err != nil {
		return "", options, err
	}
	if c.URL == "" {
		if err := os.MkdirAll(filepath.Dir(strings.TrimPrefix(address, sqliteScheme)), 0o700); err != nil {
			return "", options, fmt.Errorf("make the state directory: %w; set --store sqlite:PATH", err)
		}
	}
	pepper, err := pepperOf(c)
	if err != nil {
		return "", options, err
	}
	if options.Audit, err = auditOf(c, pepper); err != nil {
		return "", options, err
	}
	options.Keys, err = dataKeysOf(c, pepper)
	return address, options, err
}

func closeStore(s *store.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	return s.Close(ctx)
}

// checkExposure asks the store, where there is one, whether it has keys.
func checkExposure(ctx context.Context, c configs.Config) error {
	if err := c.CheckExposure(true); err != nil {
		return err
	}
	if c.CheckExposure(false) == nil {
		return nil
	}
	issued, err := hasKeys(ctx, c.Store)
	if err != nil {
		return err
	}
	return c.CheckExposure(issued)
}

func hasKeys(ctx context.Context, c configs.Store) (bool, error) {
	exists, err := storeExists(c)
	if err != nil || !exists {
		return false, err
	}
	s, err := openStore(ctx, c, store.Options{})
	if err != nil {
		return false, err
	}
	keys, err := s.List(ctx, "")
	return len(keys) > 0, errors.Join(err, closeStore(s))
}

// openStore opens the server's store, if there is one.
func (s *server) openStore() error {
	exists, err := storeExists(s.config.Store)
	if err != nil || !exists {
		return err
	}
	trouble := &quietly{every: troubleEvery}
	s.store, err = openStore(context.Background(), s.config.Store, store.Options{
		AnswerBytes: s.config.API.Idempotency.TenantBytes, HistoryBytes: s.config.API.Responses.TenantBytes,
		Failed: func(err error) {
			trouble.do(func(held int) { s.log.Error("the store failed", zap.Error(err), zap.Int("times_before", held)) })
		},
	})
	if err != nil {
		return err
	}
	s.ledger = s.store
	if address, err := storeURL(s.config.Store); err == nil && s.config.Store.DataKeys == "" && !strings.HasPrefix(address, sqliteScheme) {
		s.log.Warn("the data keys of tenants lie in the store's own database: a copy of it from before a tenant is forgotten stays readable; " +
			"--data-keys names another database")
	}
	if s.config.Store.Verify {
		if err := verifyStore(context.Background(), s.store); err != nil {
			return errors.Join(err, s.closeStore())
		}
	}
	return s.checkAudit()
}

// encryptClear encrypts what an earlier weir has left in clear.
func (s *server) encryptClear(ctx context.Context) {
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
func (s *server) checkAudit() error {
	ctx, cancel := context.WithTimeout(context.Background(), auditTimeout)
	defer cancel()
	noted, err := s.store.CheckAudit(ctx)
	if err != nil {
		return errors.Join(auditBroken(err), s.closeStore())
	}
	head, err := s.store.Head(ctx)
	if err == nil && noted == (audit.Head{}) && head.Sequence > 0 {
		s.log.Warn("no head of the audit log was noted here before: that its end was cut off would not show this time; --audit-head names a file that stays",
			zap.String("head", head.String()))
	}
	return err
}

// auditTimeout bounds reading the whole audit log.
const auditTimeout = 5 * time.Minute

// auditBroken says what to do about a broken audit log.
func auditBroken(err error) error {
	if !errors.Is(err, audit.ErrBroken) {
		return err
	}
	return fmt.Errorf("%w; find out who changed the database, or go back to a copy of it; once that is known, weir audit accept --reason TEXT notes it and goes on", err)
}

func (s *server) closeStore() error {
	if s.store == nil {
		return nil
	}
	return closeStore(s.store)
}
