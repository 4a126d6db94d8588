package store

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxURLBytes bounds the URL of a store.
const maxURLBytes = 4096

const urlForms = "a store is sqlite:PATH or postgres://USER@HOST/DATABASE"

// target is where a store is: a file, or a server.
type target struct {
	path     string          // of the SQLite file, or ""
	postgres *pgx.ConnConfig // or nil
	shown    string          // for messages: without a password
}

// parseTarget reads the URL of a store. It touches no store; for a server it may read
// the files and variables that libpq's rules name (PGPASSFILE, sslrootcert).
func parseTarget(text string) (target, error) {
	if len(text) > maxURLBytes {
		return target{}, fmt.Errorf("the store's URL has %d bytes; at most %d are read", len(text), maxURLBytes)
	}
	scheme, rest, found := strings.Cut(text, ":")
	switch {
	case !found:
		return target{}, fmt.Errorf("the store %q has no scheme; %s", text, urlForms)
	case scheme == "sqlite":
		return sqliteTarget(rest)
	case scheme == "postgres" || scheme == "postgresql":
		return postgresTarget(text)
	}
	return target{}, fmt.Errorf("the store's scheme %q is unknown; %s", scheme, urlForms)
}

func sqliteTarget(path string) (target, error) {
	shown := "sqlite:" + path
	switch {
	case path == "":
		return target{}, errors.New("the store sqlite: names no file; " + urlForms)
	case path == ":memory:":
		return target{}, errors.New("the store sqlite::memory: would be lost at the end; name a file")
	case strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///"):
		return target{}, fmt.Errorf("the store %q names a host; write sqlite:PATH, with the path as it is", shown)
	case strings.ContainsAny(path, "?#\x00"):
		return target{}, fmt.Errorf("the store %q has a character that its path may not have (? # NUL); settings cannot follow the path", shown)
	}
	return target{path: path, shown: shown}, nil
}

func postgresTarget(text string) (target, error) {
	u, err := url.Parse(text)
	if err != nil { // url.Error would repeat the text, password and all
		return target{}, errors.New("the store's postgres URL cannot be read; " + urlForms + ", with special characters percent-encoded")
	}
	shown := (&url.URL{Scheme: "postgres", Host: u.Host, Path: u.Path}).String()
	if u.Host == "" && u.Query().Get("host") == "" {
		return target{}, fmt.Errorf("the store %s names no host; %s", shown, urlForms)
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		return target{}, fmt.Errorf("the store %s: %s", shown, withoutURL(err, u))
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "weir"
	}
	return target{postgres: config, shown: shown}, nil
}

// withoutURL keeps the reason of a failed parse and not the text that was parsed,
// in which no redaction finds every form of a password.
func withoutURL(err error, u *url.URL) string {
	text := err.Error()
	if i := strings.LastIndex(text, "`: "); i >= 0 {
		text = text[i+len("`: "):]
	}
	password, _ := u.User.Password()
	for _, secret := range []string{password, u.Query().Get("password")} {
		if secret != "" && strings.Contains(text, secret) {
			return "a setting in the URL cannot be read"
		}
	}
	return text
}

// dsn names the file for the driver: writers begin with the write lock, so that no
// transaction has to be given up when it turns from reading to writing, and every
// commit is synced. Readers cannot write.
func (t target) dsn(writer bool, synchronous string) string {
	settings := url.Values{
		"_busy_timeout": {strconv.FormatInt(busyTimeout.Milliseconds(), 10)},
		"_synchronous":  {synchronous},
		"_foreign_keys": {"on"},
		"_dqs":          {"false"},
		"_defensive":    {"true"},
		"_error_rc":     {"true"},
		"_pragma":       {"secure_delete(1)"}, // what is deleted is overwritten: answers and prompts
	}
	if writer {
		settings.Set("_txlock", "immediate")
		settings.Set("_journal_mode", "WAL") // a property of the file
	} else {
		settings.Set("_query_only", "on")
	}
	// Opaque keeps a relative path relative: file:name, where file:///name is absolute.
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: t.path}).EscapedPath(), RawQuery: settings.Encode()}).String()
}
