package auditlog

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/store/storetest"
	"weir/telemetry/audit"
)

func TestAuditLogIsAChainAndAppendOnly(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{})
		const writers, each = 6, auditPage/6 + 10 // more than a page
		var wait sync.WaitGroup
		for w := range writers {
			wait.Go(func() {
				other := openStore(t, url, opts{}) // as another process has it
				for i := range each {
					change := audit.Change{Time: time.Now(), Actor: fmt.Sprint(w), Action: "add", Object: fmt.Sprint(i), Details: `{"ü":1}`}
					if _, err := other.Append(t.Context(), change); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		head, err := s.Log.Verify(t.Context())
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
			if _, err := s.Write.Exec(tamper); err == nil || !strings.Contains(err.Error(), "never") {
				t.Errorf("%s: %v", tamper, err)
			}
		}
		if _, err := s.Append(t.Context(), audit.Change{Actor: "nul\x00", Action: "b"}); err == nil {
			t.Error("NUL is taken")
		}
		breakAuditLog(t, s)
		if _, err := s.Log.Verify(t.Context()); !errors.Is(err, audit.ErrBroken) {
			t.Errorf("an altered entry is not found: %v", err)
		}
	})
}

// breakAuditLog does what an intruder with the database's own rights can do.
func breakAuditLog(t *testing.T, s *Store) {
	t.Helper()
	statements := []string{`DROP TRIGGER weir_audit_no_update`, `UPDATE weir_audit SET actor = 'nobody' WHERE sequence = 3`}
	if s.IsPostgres() {
		statements[0] = `DROP TRIGGER weir_audit_append_only ON weir_audit`
	}
	for _, statement := range statements {
		if _, err := s.Write.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
}
