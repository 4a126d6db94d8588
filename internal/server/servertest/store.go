package servertest

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/server/keychain"
	"weir/internal/server/state"
)

// Tamper executes statements on a SQLite file as somebody would who owns it.
func Tamper(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path) // internal/store has registered the driver
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// RefuseEntries and TakeEntries make the audit log fail and work again.
const (
	RefuseEntries = `CREATE TRIGGER full BEFORE INSERT ON weir_audit BEGIN SELECT RAISE(ABORT, 'no room'); END`
	TakeEntries   = `DROP TRIGGER full`
)

// DeleteEntries takes all entries away, and leaves no other trace.
var DeleteEntries = []string{
	`DROP TRIGGER weir_audit_no_delete`, `DELETE FROM weir_audit`,
	`CREATE TRIGGER weir_audit_no_delete BEFORE DELETE ON weir_audit
BEGIN
	SELECT RAISE(ABORT, 'entries of the audit log are never removed');
END`,
}

// storeAt are the settings of the store at a URL, with the secrets of the environment.
func storeAt(t testing.TB, url string) configs.Store {
	t.Helper()
	sources := configs.New()
	if _, err := sources.ReadEnv(os.Environ()); err != nil {
		t.Fatal(err)
	}
	c, err := sources.Config()
	if err != nil {
		t.Fatal(err)
	}
	c.Store.URL = url
	return c.Store
}

// WithStore opens the store at a URL, as the command line does; an empty one is that of the user.
func WithStore(t testing.TB, url string, do func(s *state.Store)) {
	t.Helper()
	s, err := state.Open(t.Context(), storeAt(t, url), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	do(s)
	if err := state.Close(s); err != nil {
		t.Fatal(err)
	}
}

// withKeys makes and revokes keys of a store.
func withKeys(t testing.TB, url string, do func(k *keychain.Keychain)) {
	t.Helper()
	WithStore(t, url, func(s *state.Store) {
		do(&keychain.Keychain{Config: storeAt(t, url), Keys: s.Keys, Audit: s.Audit, Tenants: func(context.Context) (*tenant.Directory, error) { return tenant.NewDirectory(nil) }})
	})
}

// NewKey makes a key of a store, for inference where it has no scope.
func NewKey(t testing.TB, url string, q keychain.Request) (key string) {
	t.Helper()
	q.Label, q.Scope = cmp.Or(q.Label, "default"), cmp.Or(q.Scope, "inference")
	withKeys(t, url, func(k *keychain.Keychain) {
		issued, _, _, err := k.Create(t.Context(), state.CommandLine(), q)
		if err != nil {
			t.Fatal(err)
		}
		key = issued.Text
	})
	return key
}

// RevokeKey ends a key of a store.
func RevokeKey(t testing.TB, url, id string) {
	t.Helper()
	withKeys(t, url, func(k *keychain.Keychain) {
		if _, err := k.Revoke(t.Context(), state.CommandLine(), id); err != nil {
			t.Fatal(err)
		}
	})
}

// AuditLog is the audit log of a store, a line an entry: number, time, who, action, object and details.
func AuditLog(t testing.TB, url string) string {
	t.Helper()
	var lines strings.Builder
	WithStore(t, url, func(s *state.Store) {
		for e, err := range s.Audit.Entries(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&lines, e.Sequence, e.Time.Format(time.RFC3339), e.Actor, e.Action, e.Object, e.Details)
		}
	})
	return lines.String()
}

// AuditHead checks the audit log of a store, and names its last entry.
func AuditHead(t testing.TB, url string) (head string) {
	t.Helper()
	WithStore(t, url, func(s *state.Store) {
		last, err := s.Audit.Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		head = last.String()
	})
	return head
}
