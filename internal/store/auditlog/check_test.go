package auditlog

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/internal/store/storetest"

	"weir/telemetry/audit"
)

// noted opens a store whose audit log is keyed, and whose heads are noted in a file.
func noted(t *testing.T, url, file string) (*Store, Options) {
	t.Helper()
	o := Options{Key: audit.NewKey([]byte("apart from the database")), Heads: audit.NewHeads(file)}
	return openStore(t, url, opts{Audit: o}), o
}

func addEntries(t *testing.T, s *Store, count int) {
	t.Helper()
	for range count {
		if _, err := s.Append(t.Context(), audit.Change{Time: time.Now(), Actor: "a", Action: "b"}); err != nil {
			t.Fatal(err)
		}
	}
}

// dropGuards takes off what keeps the database from changing entries.
func dropGuards(t *testing.T, s *Store) {
	t.Helper()
	if s.IsPostgres() {
		storetest.Exec(t, s.DB, `DROP TRIGGER weir_audit_append_only ON weir_audit; DROP TRIGGER weir_audit_stay_keyed ON weir_audit`)
		return
	}
	storetest.Exec(t, s.DB, `DROP TRIGGER weir_audit_no_update; DROP TRIGGER weir_audit_no_delete; DROP TRIGGER weir_audit_stay_keyed`)
}

// putGuardsBack hides that they were dropped.
func putGuardsBack(t *testing.T, s *Store) {
	t.Helper()
	if err := s.restoreGuards(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What somebody with all rights on the database can do to the audit log is found and named, at the start and by
// weir audit verify.
func TestTamperedAuditLogsAreFound(t *testing.T) {
	reference.Slow(t)
	for _, c := range []struct {
		name, want string
		tamper     func(t *testing.T, s *Store)
	}{
		{"the end is cut off", "ends with entry 6, but entry 8 was noted", func(t *testing.T, s *Store) {
			storetest.Exec(t, s.DB, `DELETE FROM weir_audit WHERE sequence > 6`)
		}},
		{"all is deleted", "ends with entry 0, but entry 8 was noted", func(t *testing.T, s *Store) {
			storetest.Exec(t, s.DB, `DELETE FROM weir_audit`)
		}},
		{"recomputed from some entry on", "was altered", func(t *testing.T, s *Store) { recompute(t, s, 3, audit.NewKey([]byte("a guess"))) }},
		{"recomputed without a key", "entry 3 is not keyed, and entries before it are", func(t *testing.T, s *Store) { recompute(t, s, 3, audit.Key{}) }},
		{"recomputed without a key from the beginning", "entry 8 is not the one whose hash was noted", func(t *testing.T, s *Store) {
			recompute(t, s, 1, audit.Key{})
		}},
		{"cut off, and others put there", "entry 8 is not the one whose hash was noted", func(t *testing.T, s *Store) {
			storetest.Exec(t, s.DB, `DELETE FROM weir_audit WHERE sequence > 6`)
			o := s.options
			o.Heads = nil // a weir with the key that notes elsewhere
			addEntries(t, &Store{s.DB, &Log{s.DB, o}}, 4)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, url string) {
				s, _ := noted(t, url, filepath.Join(t.TempDir(), "heads"))
				addEntries(t, s, 8)
				if _, err := s.Check(t.Context()); err != nil {
					t.Fatalf("before: %v", err)
				}
				dropGuards(t, s)
				c.tamper(t, s)
				putGuardsBack(t, s)
				if _, err := s.Check(t.Context()); !errors.Is(err, audit.ErrBroken) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("at the start: %v", err)
				}
				if _, err := s.Log.Verify(t.Context()); !errors.Is(err, audit.ErrBroken) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("verify: %v", err)
				}
			})
		})
	}
}

// recompute rebuilds the chain from an entry on, with another name among the actors.
func recompute(t *testing.T, s *Store, from int64, key audit.Key) {
	t.Helper()
	var last audit.Head
	for e, err := range s.Entries(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Sequence >= from {
			c := e.Change
			c.Actor = "nobody"
			e = key.Next(last, c)
			if _, err := s.Write.Exec(`UPDATE weir_audit SET actor = $1, previous = $2, hash = $3 WHERE sequence = $4`,
				e.Actor, e.Previous[:], e.Hash[:], e.Sequence); err != nil {
				t.Fatal(err)
			}
		}
		last = e.Head()
	}
}

func TestMissingGuardsAreFoundAndPutBack(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, _ := noted(t, url, filepath.Join(t.TempDir(), "heads"))
		addEntries(t, s, 3)
		broken := []string{`DROP TRIGGER weir_audit_no_delete`,
			`DROP TRIGGER weir_audit_no_update; CREATE TRIGGER weir_audit_no_update BEFORE UPDATE ON weir_audit BEGIN SELECT 1; END`}
		if s.IsPostgres() {
			broken = []string{`DROP TRIGGER weir_audit_append_only ON weir_audit`, `ALTER TABLE weir_audit DISABLE TRIGGER weir_audit_stay_keyed`,
				`CREATE OR REPLACE FUNCTION weir_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$`}
		}
		for _, statement := range broken {
			storetest.Exec(t, s.DB, statement)
			if _, err := s.Check(t.Context()); !errors.Is(err, audit.ErrBroken) || !strings.Contains(err.Error(), "weir_audit_") {
				t.Errorf("%s: %v", statement, err)
			}
			putGuardsBack(t, s)
			if _, err := s.Check(t.Context()); err != nil {
				t.Errorf("put back: %v", err)
			}
		}
		if _, err := s.Write.Exec(`DELETE FROM weir_audit`); err == nil {
			t.Error("the guards that were put back let entries be removed")
		}
	})
}

// A process that dies before it notes its entry leaves the file behind the log: that is no tampering.
func TestHeadsBehindTheLogAreGood(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, o := noted(t, url, filepath.Join(t.TempDir(), "heads"))
		addEntries(t, s, 5)
		early, err := s.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		addEntries(t, s, 3)
		if err := o.Heads.Replace(early); err != nil {
			t.Fatal(err)
		}
		if last, err := s.Check(t.Context()); err != nil || last != early {
			t.Errorf("%v, %v", last, err)
		}
	})
}

// A chain of an earlier weir goes on with the key, and says where it began. Weirs without the key add no more.
func TestOlderAuditLogsAreKeyed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		old := openStore(t, url, opts{})
		addEntries(t, old, 2)
		before, err := old.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "heads")
		s, _ := noted(t, url, file)
		again, _ := noted(t, url, file) // the second start adds nothing
		addEntries(t, again, 1)
		var actions []string
		for e, err := range s.Entries(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			actions = append(actions, e.Action)
			if e.Action == audit.ActionKeyed && e.Object != before.String() {
				t.Errorf("it is keyed from %s on, not from %s", e.Object, before)
			}
		}
		if got := strings.Join(actions, " "); got != "b b audit.keyed b" {
			t.Error(got)
		}
		if _, err := s.Log.Verify(t.Context(), before); err != nil {
			t.Error(err)
		}
		if _, err := old.Append(t.Context(), audit.Change{Actor: "a", Action: "b"}); err == nil || !strings.Contains(err.Error(), "keyed") {
			t.Errorf("a weir without the key adds: %v", err)
		}
	})
}

// What was wrong is accepted by an entry, and found again where it changes once more.
func TestAcceptedAuditLogs(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s, _ := noted(t, url, filepath.Join(t.TempDir(), "heads"))
		addEntries(t, s, 8)
		if found, err := s.Accept(t.Context(), "ops", "nothing"); err != nil || found != "" {
			t.Errorf("a whole log: %v, %v", found, err)
		}
		dropGuards(t, s)
		storetest.Exec(t, s.DB, `DELETE FROM weir_audit WHERE sequence > 6; UPDATE weir_audit SET actor = 'x' WHERE sequence = 3`)
		found, err := s.Accept(t.Context(), "ops", "restored")
		if err != nil || !strings.Contains(found, "entry 3 was altered") {
			t.Fatalf("%v, %v", found, err)
		}
		if _, err := s.Check(t.Context()); err != nil {
			t.Errorf("accepted, at the start: %v", err)
		}
		if head, err := s.Log.Verify(t.Context()); err != nil || head.Sequence != 7 {
			t.Errorf("accepted: %v, %v", head, err)
		}
		dropGuards(t, s)
		storetest.Exec(t, s.DB, `UPDATE weir_audit SET actor = 'y' WHERE sequence = 3`)
		if _, err := s.Log.Verify(t.Context()); !errors.Is(err, audit.ErrBroken) {
			t.Errorf("changed after it was accepted: %v", err)
		}
	})
}
