package store_test

import (
	"context"
	"io"
	"testing"
	"time"

	"weir/api/replay"
	"weir/api/usage"
	"weir/telemetry/audit"
	"weir/telemetry/transcript"

	"weir/internal/store"
	"weir/internal/store/answers"
	"weir/internal/store/auditlog"
	"weir/internal/store/batches"
	"weir/internal/store/deployments"
	"weir/internal/store/ledger"
	"weir/internal/store/storetest"
	"weir/internal/store/tenants"
)

type opts struct {
	Lease, FlushEvery time.Duration
	AnswerBytes       int64
	Audit             auditlog.Options
	Keys              store.Keys
	Failed            func(error)
}

func (o *opts) store() store.Options {
	return store.Options{Lease: o.Lease, Keys: o.Keys, Failed: o.Failed}
}

// Names that no method has.
type (
	tenantsOf     = tenants.Records
	deploymentsOf = deployments.Records
	rolloutsOf    = deployments.Rollouts
	transcriptsOf = answers.Transcripts
	batchesOf     = batches.Batches
)

// Store is a store with all its subjects.
type Store struct {
	*store.DB
	*auditlog.Log
	*tenants.Keys
	*tenantsOf
	*ledger.Ledger
	*deploymentsOf
	*rolloutsOf
	*answers.Claims
	*answers.Responses
	*transcriptsOf
	*batchesOf
	*batches.Cipher
}

func (s *Store) Verify(ctx context.Context) ([]string, error) {
	return s.DB.Verify(ctx, s.Findings)
}

func (s *Store) Backup(ctx context.Context, to io.Writer) (store.BackupSummary, error) {
	return s.DB.Backup(ctx, to, s.Log)
}

func open(ctx context.Context, url string, o opts) (*Store, error) {
	db, err := store.Open(ctx, url, o.store())
	if err != nil {
		return nil, err
	}
	return storeOf(ctx, db, o)
}

func storeOf(ctx context.Context, db *store.DB, o opts) (*Store, error) {
	log, err := auditlog.Open(ctx, db, o.Audit)
	if err != nil {
		_ = db.Close(ctx)
		return nil, err
	}
	records := deployments.NewRecords(db, log)
	return &Store{
		db, log, tenants.NewKeys(db), tenants.NewRecords(db), ledger.New(db, ledger.Options{FlushEvery: o.FlushEvery}), records, deployments.NewRollouts(records),
		answers.NewClaims(db, o.AnswerBytes), answers.NewResponses(db, 0), answers.NewTranscripts(db), batches.New(db), batches.NewCipher(db),
	}, nil
}

// openStore opens a store that is closed with the test.
func openStore(t testing.TB, url string, o opts) *Store {
	t.Helper()
	s, err := storeOf(t.Context(), storetest.Open(t, url, o.store()), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// restore restores a backup, and notes the head of its audit log.
func restore(ctx context.Context, url string, o opts, r store.Restoring) (store.BackupSummary, error) {
	r.Log = o.Audit
	backed, err := store.Restore(ctx, url, o.store(), r)
	if err != nil {
		return backed, err
	}
	return backed, o.Audit.Restored(backed.Audit)
}

func addEntries(t *testing.T, s *Store, count int) {
	t.Helper()
	for range count {
		if _, err := s.Append(t.Context(), audit.Change{Time: time.Now(), Actor: "a", Action: "b"}); err != nil {
			t.Fatal(err)
		}
	}
}

var ledgerDay = time.Date(2026, 11, 22, 23, 59, 59, 0, time.UTC)

func request(key string, body byte) replay.Request {
	return replay.Request{Tenant: "acme", Key: key, Fingerprint: [32]byte{body}, TTL: time.Hour}
}

// begin asks for an execution and checks what is answered.
func begin(t *testing.T, s *Store, r replay.Request, want replay.State) replay.Outcome {
	t.Helper()
	got, err := s.Begin(t.Context(), r)
	if err != nil || got.State != want {
		t.Fatalf("%s: state %v, want %v; %v", r.Key, got.State, want, err)
	}
	return got
}

func finish(t *testing.T, s *Store, c replay.Claim, answer []byte) {
	t.Helper()
	if err := s.Finish(t.Context(), c, answer); err != nil {
		t.Fatal(err)
	}
}

// passLeases lets the leases of all processes but that of s run out, as if their time had passed.
func passLeases(t *testing.T, s *Store) {
	t.Helper()
	storetest.Exec(t, s.DB, `UPDATE weir_owners SET expires = 1, claims = 1 WHERE id <> '`+s.Owner()+`'`)
}

func wholeReport(t *testing.T, s *Store) usage.Report {
	t.Helper()
	report, err := s.Report(t.Context(), usage.Query{From: -1 << 31, To: 1<<31 - 1})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func transcripts(t *testing.T, s *Store, tenant string) (list []transcript.Record) {
	t.Helper()
	for r, err := range s.Transcripts(t.Context(), tenant) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}
