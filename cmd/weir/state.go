package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"weir/api/tenant"
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
	address, err := storeURL(c)
	if err != nil {
		return nil, err
	}
	if c.URL == "" {
		if err := os.MkdirAll(filepath.Dir(strings.TrimPrefix(address, sqliteScheme)), 0o700); err != nil {
			return nil, fmt.Errorf("make the state directory: %w; set --store sqlite:PATH", err)
		}
	}
	pepper, err := pepperOf(c)
	if err != nil {
		return nil, err
	}
	if options.Audit, err = auditOf(c, pepper); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return store.Open(ctx, address, options)
}

func closeStore(s *store.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	return s.Close(ctx)
}

// pepperOf is the pepper of the store's keys: the setting, or what stands in a file
// beside the SQLite file, where the first who needs it makes one.
func pepperOf(c configs.Store) (tenant.Pepper, error) {
	if c.KeyPepper != "" {
		return tenant.NewPepper([]byte(c.KeyPepper))
	}
	address, err := storeURL(c)
	if err != nil {
		return tenant.Pepper{}, err
	}
	path, found := strings.CutPrefix(address, sqliteScheme)
	if !found {
		return tenant.Pepper{}, errors.New("store.key_pepper is not set; weirs that share a database need the same one: " +
			"set WEIR_KEY_PEPPER to a secret of at least 32 bytes, such as openssl rand -hex 32 gives")
	}
	path += ".pepper"
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = makePepper(path)
	}
	if err != nil {
		return tenant.Pepper{}, fmt.Errorf("the pepper of the keys: %w", err)
	}
	return tenant.NewPepper([]byte(strings.TrimSpace(string(text))))
}

// auditOf is how the audit log of the store is keyed, and where its head is noted: the setting's file, one beside
// the SQLite file, or one in the state directory, where there is one.
func auditOf(c configs.Store, pepper tenant.Pepper) (store.Audit, error) {
	secret, err := pepper.Derive("audit log")
	if err != nil {
		return store.Audit{}, err
	}
	a := store.Audit{Key: audit.NewKey(secret)}
	if c.AuditHead != "" {
		a.Heads = audit.NewHeads(c.AuditHead)
		return a, nil
	}
	address, err := storeURL(c)
	if err != nil {
		return a, err
	}
	if path, found := strings.CutPrefix(address, sqliteScheme); found {
		a.Heads = audit.NewHeads(path + ".audit-head")
		return a, nil
	}
	dir, err := stateDir()
	if err != nil || os.MkdirAll(dir, 0o700) != nil {
		return a, nil //nolint:nilerr // the server says that no head is noted
	}
	if u, err := url.Parse(address); err == nil {
		u.User = nil // one database, whoever asks
		sum := sha256.Sum256([]byte(u.String()))
		a.Heads = audit.NewHeads(filepath.Join(dir, "audit-head-"+hex.EncodeToString(sum[:8])))
	}
	return a, nil
}

// makePepper writes a new pepper whole or not at all, and takes that of whoever was
// faster.
func makePepper(path string) ([]byte, error) {
	secret := make([]byte, tenant.MinPepperBytes)
	_, _ = rand.Read(secret) // it never fails
	file, err := os.CreateTemp(filepath.Dir(path), ".pepper-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(file.Name()) }() // under its own name it stays
	_, err = file.WriteString(hex.EncodeToString(secret) + "\n")
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(file.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
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
	return s.checkAudit()
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
