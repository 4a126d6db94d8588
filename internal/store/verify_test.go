package store_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/api/conversation"
	"weir/internal/envelope"
	"weir/internal/reference"
	"weir/internal/store"
	"weir/internal/store/auditlog"
	"weir/internal/store/storetest"
	"weir/telemetry/audit"
)

// Some bits of a store's file are flipped: it does not open, or the check finds it. Nothing is found before.
func TestFlippedBitsAreFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	url := "sqlite:" + path
	o := opts{
		Keys:  store.Keys{Masters: envelope.Masters{secret(t, "m")}, URL: url + ".keys"},
		Audit: auditlog.Options{Key: audit.NewKey([]byte("apart"))},
	}
	s := openStore(t, url, o)
	keepEverything(t, s, "acme")
	addEntries(t, s, 20)
	for i := range 100 {
		r := &conversation.Response{Tenant: "acme", ID: "resp_" + strconv.Itoa(100+i), Status: "completed",
			Input: []byte(strings.Repeat("a prompt ", 300)), Object: []byte(strings.Repeat("an answer ", 300))}
		if err := s.KeepResponse(t.Context(), r, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if findings, err := s.Verify(t.Context()); err != nil || len(findings) > 0 {
		t.Fatalf("before: %q, %v", findings, err)
	}
	if err := s.Wipe(t.Context()); err != nil { // all is in the file
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, flips := range []int{5, 50} {
		for seed := range 6 {
			random := rand.New(rand.NewPCG(uint64(flips), uint64(seed)))
			damaged := append([]byte(nil), whole...)
			for range flips {
				damaged[random.IntN(len(damaged))] ^= 1 << random.IntN(8)
			}
			if !foundDamage(t, damaged, o) {
				t.Errorf("%d flipped bits are not found (seed %d)", flips, seed)
			}
		}
	}
}

// foundDamage reports whether a file is refused or has findings.
func foundDamage(t *testing.T, file []byte, o opts) bool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "damaged.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Failed = func(error) {} // as damage is met
	s, err := open(t.Context(), "sqlite:"+path, o)
	if err != nil {
		return true
	}
	defer func() { _ = s.Close(context.Background()) }() // what it says is no matter
	findings, err := s.Verify(t.Context())
	return err != nil || len(findings) > 0
}

// A row of PostgreSQL that was altered is found by the checksum that it carries.
func TestAlteredRowsAreFound(t *testing.T) {
	reference.Slow(t)
	eachSealed(t, func(t *testing.T, url string, keys store.Keys) {
		s := openStore(t, url, opts{Keys: keys})
		keepEverything(t, s, "acme")
		if findings, err := s.Verify(t.Context()); err != nil || len(findings) > 0 {
			t.Fatalf("before: %q, %v", findings, err)
		}
		storetest.Exec(t, s.DB, `UPDATE weir_responses SET object = input`)
		findings, err := s.Verify(t.Context())
		if err != nil || len(findings) != 1 || !strings.Contains(findings[0], `weir_responses: the row "resp_1" of tenant acme was altered`) {
			t.Errorf("%q, %v", findings, err)
		}
	})
}
