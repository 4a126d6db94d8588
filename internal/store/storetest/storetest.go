// Package storetest is what tests of stores share. A test runs against both databases, and an Example makes a store that it closes itself:
//
//	storetest.Each(t, func(t *testing.T, url string) {
//		db := storetest.Open(t, url, store.Options{}) // closed with the test
//		…
//	})
//
//	db, done := storetest.Fresh(ctx, store.Options{})
//	defer done()
package storetest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/internal/store"
)

// Each runs a test against both databases, each time with a new, empty store.
func Each(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "weir.db")) })
	t.Run("postgres", func(t *testing.T) { test(t, Postgres(t)) })
}

// Postgres makes a schema that only this test uses, and returns its URL.
func Postgres(t testing.TB) string {
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
	query.Set("application_name", schema) // tells the connections of this test from those of others
	u.RawQuery = query.Encode()
	return u.String()
}

// ahead is by how much the databases' clocks are ahead of this process's.
var ahead time.Duration

// ClocksDiffer runs tests with the databases' clocks 30 s ahead of this process's, and 30 s behind.
func ClocksDiffer(t *testing.T, tests map[string]func(t *testing.T)) {
	t.Helper()
	t.Cleanup(func() { ahead = 0 })
	for _, by := range []time.Duration{30 * time.Second, -30 * time.Second} {
		ahead = by
		for name, test := range tests {
			t.Run(by.String()+"/"+name, test)
		}
	}
}

// Open opens a store that is closed with the test. Failures in the background
// fail the test unless options hears of them.
func Open(t testing.TB, url string, options store.Options) *store.DB {
	t.Helper()
	if options.Failed == nil {
		options.Failed = func(err error) { t.Errorf("in the background: %v", err) }
	}
	options.ClockAhead = ahead
	s, err := store.Open(t.Context(), url, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(t, s) })
	return s
}

// Close closes a store.
func Close(t testing.TB, s *store.DB) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// Exec runs a statement.
func Exec(t testing.TB, s *store.DB, statement string) {
	t.Helper()
	if _, err := s.Write.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// Texts are the first column of a query's rows, as text.
func Texts(t testing.TB, s *store.DB, query string) (found []string) {
	t.Helper()
	rows, err := s.Write.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text sql.NullString
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		found = append(found, text.String)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// WaitUntil fails the test where something has not come to pass within 20 seconds.
func WaitUntil(t testing.TB, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never came to that")
		}
	}
}
