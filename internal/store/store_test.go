package store_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/api/tenant"
	"weir/internal/store/storetest"
	"weir/telemetry/audit"
)

func TestFileIsPrivateAndItsSettingsHold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%41.db")
	s := openStore(t, "sqlite:"+path, opts{})
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for setting, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000", "query_only": "1", "secure_delete": "1"} {
		for name, db := range map[string]*sql.DB{"write": s.Write, "read": s.Read} {
			var got string
			if err := db.QueryRow("PRAGMA " + setting).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if (got == want) == (setting == "query_only" && name == "write") {
				t.Errorf("%s of %s is %s", setting, name, got)
			}
		}
	}
	var got string
	if err := s.Brief().QueryRow("PRAGMA synchronous").Scan(&got); err != nil || got != "1" {
		t.Errorf("leases are written with synchronous %s, so that a server without requests syncs the disk each second: %v", got, err)
	}
	if _, err := s.Read.Exec(`DELETE FROM weir_keys`); err == nil {
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
		s, err := open(t.Context(), url, opts{})
		if err == nil {
			storetest.Close(t, s.DB)
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
	storetest.Each(t, func(t *testing.T, url string) {
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				s, err := open(t.Context(), url, opts{})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Append(t.Context(), audit.Change{Actor: "a", Action: "start"}); err != nil {
					t.Error(err)
				}
				storetest.Close(t, s.DB)
			})
		}
		wait.Wait()
		s := openStore(t, url, opts{})
		if head, err := s.Log.Verify(t.Context()); err != nil || head.Sequence != 8 {
			t.Errorf("head %v, %v", head, err)
		}
	})
}

func TestClosedStoreRefuses(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		before := goleak.IgnoreCurrent()
		s, err := open(t.Context(), url, opts{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.List(t.Context(), ""); err != nil { // so that there is a reader
			t.Fatal(err)
		}
		storetest.Close(t, s.DB)
		storetest.Close(t, s.DB)
		if _, err := s.Find(t.Context(), "0000000000"); err == nil || errors.Is(err, tenant.ErrNoKey) {
			t.Errorf("a closed store answers: %v", err)
		}
		goleak.VerifyNone(t, before)
	})
}

func TestContextsEndWaiting(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{})
		tx, err := s.Write.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if err := s.LockTable(t.Context(), tx, "weir_audit"); err != nil {
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
