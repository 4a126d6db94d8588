package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/store"
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
	url, err := storeURL(c)
	if err != nil {
		return nil, err
	}
	if c.URL == "" {
		if err := os.MkdirAll(filepath.Dir(strings.TrimPrefix(url, sqliteScheme)), 0o700); err != nil {
			return nil, fmt.Errorf("make the state directory: %w; set --store sqlite:PATH", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return store.Open(ctx, url, options)
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
	url, err := storeURL(c)
	if err != nil {
		return tenant.Pepper{}, err
	}
	path, found := strings.CutPrefix(url, sqliteScheme)
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
	if err == nil {
		s.ledger = s.store
	}
	return err
}

func (s *server) closeStore() error {
	if s.store == nil {
		return nil
	}
	return closeStore(s.store)
}
