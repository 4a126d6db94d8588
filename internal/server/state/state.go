package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"weir/configs"
	"weir/internal/store"
	"weir/internal/store/auditlog"
	"weir/telemetry/audit"
)

const (
	// SqliteScheme begins the URL of a store in a file.
	SqliteScheme = "sqlite:"
	storeFile    = "weir.db" // in the state directory
)

// errNoHome: there is no place for weir's own files.
var errNoHome = errors.New("the state directory cannot be found")

// Timeout bounds opening and closing the store, and each of a verb's questions.
const Timeout = 15 * time.Second

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

// ModelsDir is where models are kept: the setting, a folder in systemd's StateDirectory, or one among the user's data.
func ModelsDir(c configs.Registry) (string, error) {
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

// errOff: there is no store, by the settings.
var errOff = errors.New("the store is switched off (--store off): leave the setting out for the usual place, or name one: --store sqlite:PATH")

// URL is the store's URL, by default that of a file in the state directory.
func URL(c configs.Store) (string, error) {
	switch c.URL {
	case "":
	case configs.StoreOff:
		return "", errOff
	default:
		return c.URL, nil
	}
	dir, err := stateDir()
	if err != nil {
		return "", err
	}
	return SqliteScheme + filepath.Join(dir, storeFile), nil
}

// Exists is false only for a SQLite file at its default place that has not been
// made yet, and where the store is switched off.
func Exists(c configs.Store) (bool, error) {
	if c.URL != "" {
		return c.URL != configs.StoreOff, nil
	}
	dir, err := stateDir()
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, storeFile))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, errNoHome) {
		return false, nil
	}
	return err == nil, err
}

// Open opens the store, with its folder where that is weir's own.
func Open(ctx context.Context, c configs.Store, options Options) (*Store, error) {
	p, err := placeOf(c, options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return p.open(ctx, options)
}

// Make opens the store at its default place, where there was none yet. It makes none on a network file system, where a SQLite file that
// several machines open is damaged.
func Make(ctx context.Context, c configs.Store, options Options) (*Store, error) {
	dir, err := stateDir()
	if err != nil {
		return nil, err
	}
	if err := makeStateDir(dir); err != nil {
		return nil, err
	}
	if kind := networkFileSystem(dir); kind != "" {
		return nil, fmt.Errorf("%s is on a network file system (%s), where a SQLite file does not belong", dir, kind)
	}
	return Open(ctx, c, options)
}

func makeStateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	return nil
}

// Restore puts a backup where the store is, and notes its audit log's head.
func Restore(ctx context.Context, c configs.Store, r store.Restoring) (store.BackupSummary, error) {
	p, err := placeOf(c, Options{})
	if err != nil {
		return store.BackupSummary{}, err
	}
	r.Log = p.audit
	backed, err := store.Restore(ctx, p.url, p.options, r)
	if err != nil {
		return backed, err
	}
	return backed, p.audit.Restored(backed.Audit)
}

// place is where the store is, and what opens it.
type place struct {
	url     string
	options store.Options
	audit   auditlog.Options
}

func placeOf(c configs.Store, options Options) (p place, err error) {
	p.options = store.Options{Lease: options.Lease, Failed: options.Failed}
	if p.url, err = URL(c); err != nil {
		return p, err
	}
	if c.URL == "" {
		if err := makeStateDir(filepath.Dir(strings.TrimPrefix(p.url, SqliteScheme))); err != nil {
			return p, fmt.Errorf("%w; set --store sqlite:PATH", err)
		}
	}
	pepper, err := Pepper(c)
	if err != nil {
		return p, err
	}
	if p.audit, err = auditOf(c, pepper); err != nil {
		return p, err
	}
	p.options.Keys, err = dataKeysOf(c, pepper)
	return p, err
}

// Close closes a store, within Timeout.
func Close(s *Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	return s.Close(ctx)
}

// CheckExposure asks the store, where there is one, whether it has keys.
func CheckExposure(ctx context.Context, c configs.Config) error {
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
	exists, err := Exists(c)
	if err != nil || !exists {
		return false, err
	}
	s, err := Open(ctx, c, Options{})
	if err != nil {
		return false, err
	}
	keys, err := s.Keys.List(ctx, "")
	return len(keys) > 0, errors.Join(err, Close(s))
}

// AuditTimeout bounds reading the whole audit log.
const AuditTimeout = 5 * time.Minute

// AuditBroken says what to do about a broken audit log.
func AuditBroken(err error) error {
	if !errors.Is(err, audit.ErrBroken) {
		return err
	}
	return fmt.Errorf("%w; find out who changed the database, or go back to a copy of it; once that is known, weir audit accept --reason TEXT notes it and goes on", err)
}
