package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/api/tenant"
	"weir/internal/reference"
	"weir/telemetry/audit"
)

// eachDatabase runs a test against both databases, each time with a new, empty store.
func eachDatabase(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "weir.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, postgresSchema(t)) })
}

// postgresSchema makes a schema that only this test uses, and returns its URL.
func postgresSchema(t testing.TB) string {
	t.Helper()
	server := reference.Postgres.Get(t)
	db, err := sql.Open("pgx", server)
	if err != nil {
		t.Fatal(err)
	}
	schema := "weir_test_" + strings.ToLower(rand.Text())
	if _, err := db.Exec("CREATE SCHEMA " + schema); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := db.Exec("DROP SCHEMA " + schema + " CASCADE")
		for range 5 {
			if err == nil || !strings.Contains(err.Error(), "40P01") {
				break
			}
			// The server still ends what a killed process had begun.
			_, err = db.Exec("DROP SCHEMA " + schema + " CASCADE")
		}
		if err != nil {
			t.Error(err)
		}
		db.Close()
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String()
}

// openStore opens a store that is closed with the test. Failures in the background
// fail the test unless options hears of them.
func openStore(t *testing.T, url string, options Options) *Store {
	t.Helper()
	if options.Failed == nil {
		options.Failed = func(err error) { t.Errorf("in the background: %v", err) }
	}
	s, err := Open(t.Context(), url, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestFileIsPrivateAndItsSettingsHold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%41.db")
	s := openStore(t, "sqlite:"+path, Options{})
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for setting, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000", "query_only": "1", "secure_delete": "1"} {
		for name, db := range map[string]*sql.DB{"write": s.write, "read": s.read} {
			var got string
			if err := db.QueryRow("PRAGMA " + setting).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if (got == want) == (setting == "query_only" && name == "write") {
				t.Errorf("%s of %s is %s", setting, name, got)
			}
		}
	}
	if _, err := s.read.Exec(`DELETE FROM weir_keys`); err == nil {
		t.Error("a reader writes")
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database at all\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"sqlite:" + folder + "/missing/weir.db": "no such file",
		"sqlite:" + folder:                      "unable to open",
		"sqlite:" + text:                        "not a database",
		"postgres://weir:topsecret@127.0.0.1:1/db?connect_timeout=2":    "127.0.0.1",
		"postgres://weir@127.0.0.1:1/db?password=topsecret&sslmode=bad": "sslmode",
	} {
		s, err := Open(t.Context(), url, Options{})
		if err == nil {
			closeStore(t, s)
			t.Errorf("%s opens", url)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// Several weirs start at once on an empty store: each must find the tables.
func TestManyOpenAnEmptyStoreAtOnce(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				s, err := Open(t.Context(), url, Options{})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Append(t.Context(), audit.Change{Actor: "a", Action: "start"}); err != nil {
					t.Error(err)
				}
				closeStore(t, s)
			})
		}
		wait.Wait()
		s := openStore(t, url, Options{})
		if head, err := s.VerifyAudit(t.Context()); err != nil || head.Sequence != 8 {
			t.Errorf("head %v, %v", head, err)
		}
	})
}

func TestClosedStoreRefuses(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		before := goleak.IgnoreCurrent()
		s, err := Open(t.Context(), url, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.List(t.Context(), ""); err != nil { // so that there is a reader
			t.Fatal(err)
		}
		closeStore(t, s)
		closeStore(t, s)
		if _, err := s.Find(t.Context(), "0000000000"); err == nil || errors.Is(err, tenant.ErrNoKey) {
			t.Errorf("a closed store answers: %v", err)
		}
		goleak.VerifyNone(t, before)
	})
}

func TestContextsEndWaiting(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		s := openStore(t, url, Options{})
		tx, err := s.write.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if err := s.lockTable(t.Context(), tx, "weir_audit"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		started := time.Now()
		if _, err := s.Append(ctx, audit.Change{Actor: "a", Action: "b"}); err == nil {
			t.Error("it wrote past a lock")
		}
		if waited := time.Since(started); waited > 5*time.Second {
			t.Errorf("the end of the context was noticed after %v", waited)
		}
	})
}

func testKey(id, name, label string, created time.Time) tenant.Key {
	k := tenant.Key{ID: fmt.Sprintf("%010s", id), Tenant: name, Label: label, Scope: tenant.ScopeInference | tenant.ScopeMetrics, Created: created}
	copy(k.Hash[:], rand.Text())
	return k
}

func TestAuditLogIsAChainAndAppendOnly(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		s := openStore(t, url, Options{})
		const writers, each = 6, auditPage/6 + 10 // more than a page
		var wait sync.WaitGroup
		for w := range writers {
			wait.Go(func() {
				other := openStore(t, url, Options{}) // as another process has it
				for i := range each {
					change := audit.Change{Time: time.Now(), Actor: fmt.Sprint(w), Action: "add", Object: fmt.Sprint(i), Details: `{"ü":1}`}
					if _, err := other.Append(t.Context(), change); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		head, err := s.VerifyAudit(t.Context())
		if err != nil || head.Sequence != writers*each {
			t.Fatalf("head %v, %v", head, err)
		}
		next := make(map[string]int) // each writer's entries are in its order
		for e, err := range s.Entries(t.Context(), 0) {
			if err != nil || e.Object != fmt.Sprint(next[e.Actor]) {
				t.Fatalf("%v, %v", e, err)
			}
			next[e.Actor]++
		}
		for _, tamper := range []string{
			`UPDATE weir_audit SET actor = 'x' WHERE sequence = 3`, `DELETE FROM weir_audit WHERE sequence = 3`, `DELETE FROM weir_audit`,
		} {
			if _, err := s.write.Exec(tamper); err == nil || !strings.Contains(err.Error(), "never") {
				t.Errorf("%s: %v", tamper, err)
			}
		}
		if _, err := s.Append(t.Context(), audit.Change{Actor: "nul\x00", Action: "b"}); err == nil {
			t.Error("NUL is taken")
		}
		breakAuditLog(t, s)
		if _, err := s.VerifyAudit(t.Context()); !errors.Is(err, audit.ErrBroken) {
			t.Errorf("an altered entry is not found: %v", err)
		}
	})
}

// breakAuditLog does what an intruder with the database's own rights can do.
func breakAuditLog(t *testing.T, s *Store) {
	t.Helper()
	statements := []string{`DROP TRIGGER weir_audit_no_update`, `UPDATE weir_audit SET actor = 'nobody' WHERE sequence = 3`}
	if s.dialect == postgresDialect {
		statements[0] = `DROP TRIGGER weir_audit_append_only ON weir_audit`
	}
	for _, statement := range statements {
		if _, err := s.write.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
}
