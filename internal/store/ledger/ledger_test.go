package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weir/internal/store"
	"weir/internal/store/storetest"

	"weir/api/usage"
)

var ledgerDay = time.Date(2026, 11, 22, 23, 59, 59, 0, time.UTC)

func wholeReport(t *testing.T, s *Store) usage.Report {
	t.Helper()
	report, err := s.Report(t.Context(), usage.Query{From: -1 << 31, To: 1<<31 - 1})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestLedgerAddsUp(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{FlushEvery: 5 * time.Millisecond})
		other := openStore(t, url, opts{FlushEvery: 7 * time.Millisecond})
		const each = 2000
		var wait sync.WaitGroup
		for w := range 8 {
			ledger := []*Store{s, other}[w%2]
			wait.Go(func() {
				for i := range each {
					ledger.Record(usage.Record{
						Ended: ledgerDay.Add(time.Duration(i%2) * time.Second), Tenant: fmt.Sprint("t", i%3), Model: "m",
						Input: 10, Cached: 4, Output: 2, Compute: 3 * time.Millisecond, Cost: 5,
					})
				}
			})
		}
		wait.Wait()
		if err := other.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		report := wholeReport(t, s)
		const n = 8 * each
		want := usage.Sums{Requests: n, Input: 10 * n, Cached: 4 * n, Output: 2 * n, Compute: usage.Seconds(n * 3 * time.Millisecond), Cost: 5 * n}
		if report.Total != want {
			t.Errorf("total %+v, want %+v", report.Total, want)
		}
		var rows []string
		for _, r := range report.Rows {
			rows = append(rows, r.Day.String()+" "+r.Tenant)
		}
		wantRows := []string{"2026-11-22 t0", "2026-11-22 t1", "2026-11-22 t2", "2026-11-23 t0", "2026-11-23 t1", "2026-11-23 t2"}
		if !slices.Equal(rows, wantRows) {
			t.Errorf("rows %v", rows)
		}
		day := usage.DayOf(ledgerDay)
		part, err := s.Report(t.Context(), usage.Query{Tenant: "t1", Model: "m", From: day, To: day})
		if err != nil || len(part.Rows) != 1 || part.Total != report.Rows[1].Sums {
			t.Errorf("the part is %+v, %v", part, err)
		}
		if none, err := s.Report(t.Context(), usage.Query{Model: "other", From: day, To: day}); err != nil || len(none.Rows) != 0 {
			t.Errorf("another model has %+v, %v", none, err)
		}
		if _, err := s.Report(t.Context(), usage.Query{Tenant: "nul\x00"}); err == nil {
			t.Error("NUL is taken")
		}
		if stats := s.Stats(); stats.Dropped != 0 || stats.Waiting != 0 || stats.Recorded != n/2 {
			t.Errorf("stats %+v", stats)
		}
	})
}

func TestLedgerIsWhole(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{FlushEvery: time.Hour})
		s.Record(usage.Record{Ended: ledgerDay, Tenant: "a\x00b\xff", Model: "m"}) // no text for a database
		s.Record(usage.Record{Ended: ledgerDay, Tenant: "good", Model: "m"})
		storetest.Close(t, s.DB)
		s.Record(usage.Record{Ended: ledgerDay})
		if stats := s.Stats(); stats.Recorded != 3 || stats.Dropped != 1 {
			t.Errorf("a closed ledger: %+v", stats)
		}
		again := openStore(t, url, opts{})
		if report := wholeReport(t, again); report.Total.Requests != 2 || report.Rows[0].Tenant != "a\ufffdb\ufffd" {
			t.Errorf("after Close: %+v", report)
		}
	})
}

func TestLedgerIsBounded(t *testing.T) {
	s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "weir.db"), opts{FlushEvery: time.Hour})
	for i := range maxPendingSums + 10 {
		s.Record(usage.Record{Ended: ledgerDay, Tenant: fmt.Sprint(i)})
	}
	s.Record(usage.Record{Ended: ledgerDay, Tenant: "0"}) // its sum is there
	if stats := s.Stats(); stats.Dropped != 10 || stats.Waiting != maxPendingSums {
		t.Errorf("%+v", stats)
	}
	if report := wholeReport(t, s); report.Total.Requests != maxPendingSums+1 {
		t.Errorf("%d requests in the report", report.Total.Requests)
	}
}

// A batch that the database has, though its writer heard of a failure, counts once.
func TestBatchInDoubtCountsOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{FlushEvery: time.Hour})
		s.Record(usage.Record{Ended: ledgerDay, Tenant: "a"})
		<-s.writing
		s.take()
		batch := slices.Clone(s.batch)
		if err := s.writeBatch(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.batch = batch // as if the commit's answer had been lost
		s.writing <- struct{}{}
		s.Record(usage.Record{Ended: ledgerDay, Tenant: "a"})
		if report := wholeReport(t, s); report.Total.Requests != 2 {
			t.Errorf("%d requests, want 2", report.Total.Requests)
		}
	})
}

// The server cuts all connections again and again: nothing is lost or counted twice.
func TestLedgerOutlivesItsConnections(t *testing.T) {
	url := storetest.Postgres(t)
	s := openStore(t, url, opts{FlushEvery: time.Millisecond, Failed: func(error) {}})
	admin := openStore(t, url, opts{Failed: func(error) {}})
	const n = 3000
	for i := range n {
		s.Record(usage.Record{Ended: ledgerDay, Tenant: fmt.Sprint(i % 50)})
		if i%100 == 0 {
			if _, err := admin.Write.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE pid <> pg_backend_pid() AND application_name = current_setting('application_name') AND query LIKE '%weir_usage%'`); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	for err := errors.New("first"); err != nil; {
		err = s.Flush(t.Context())
	}
	if report := wholeReport(t, admin); report.Total.Requests != n {
		t.Errorf("%d requests, want %d; %+v", report.Total.Requests, n, s.Stats())
	}
	t.Logf("%+v", s.Stats())
}

func TestLossAtCloseIsCounted(t *testing.T) {
	db, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "weir.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{db, New(db, Options{FlushEvery: time.Hour})}
	s.Record(usage.Record{Ended: ledgerDay})
	s.Record(usage.Record{Ended: ledgerDay})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ended); err == nil {
		t.Error("the loss is silent")
	}
	if stats := s.Stats(); stats.Dropped != 2 {
		t.Errorf("%+v", stats)
	}
}

// Usage is kept by hour and key, too; sums per day are the same whichever way they are asked for, and a key's rows go with
// it alone. What is too old goes, and the days stay.
func TestLedgerByHourAndKey(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{FlushEvery: time.Hour})
		old := time.Now().Add(-usage.KeptHours - 48*time.Hour)
		for i := range 40 {
			at := ledgerDay.Add(time.Duration(i) * 15 * time.Minute)
			if i%10 == 9 {
				at = old
			}
			s.Record(usage.Record{Ended: at, Tenant: fmt.Sprint("t", i%2), Model: "m", Key: fmt.Sprint("key", i%4), Input: 10, Output: int64(i)})
		}
		s.Record(usage.Record{Ended: ledgerDay, Model: "m", Input: 1})
		from, to := usage.DayOf(ledgerDay), usage.DayOf(ledgerDay)+1
		sum := func(q usage.Query, rows int) usage.Sums {
			t.Helper()
			q.From, q.To = from, to
			report, err := s.Report(t.Context(), q)
			if err != nil || len(report.Rows) != rows {
				t.Fatalf("%+v has %d rows, want %d: %v", q, len(report.Rows), rows, err)
			}
			return report.Total
		}
		all := sum(usage.Query{}, 4)
		for _, q := range []struct {
			usage.Query
			rows int
		}{{usage.Query{Hours: true}, 22}, {usage.Query{Keys: true}, 6}, {usage.Query{Hours: true, Keys: true}, 37}} {
			if got := sum(q.Query, q.rows); got != all {
				t.Errorf("%+v adds up to %+v, the days to %+v", q.Query, got, all)
			}
		}
		if one := sum(usage.Query{Key: "key1", Tenant: "t1"}, 1); one.Requests != 8 || one != sum(usage.Query{Key: "key1", Hours: true}, 8) {
			t.Errorf("key1 has %+v", one)
		}
		if none := sum(usage.Query{Alone: true}, 1); none.Input != 1 {
			t.Errorf("the tenant without a name has %+v", none)
		}
		from, to = usage.DayOf(old), usage.DayOf(old)
		before := sum(usage.Query{}, 1)
		if before != sum(usage.Query{Keys: true}, 2) {
			t.Error("hours of long ago differ from their day")
		}
		if err := s.pruneHours(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left := sum(usage.Query{Keys: true}, 0); left.Requests != 0 || before != sum(usage.Query{}, 1) {
			t.Errorf("after %v there are %+v", usage.KeptHours, left)
		}
	})
}

// Sums that the database has no room for are lost alone, and are told: what others used is stored, and what comes later.
func TestRowsThatTheDatabaseRefuses(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		var told []error
		s := openStore(t, url, opts{FlushEvery: time.Hour, Failed: func(err error) { told = append(told, err) }})
		record := func(tenant, key string, input int64) {
			s.Record(usage.Record{Ended: ledgerDay, Tenant: tenant, Model: "m", Key: key, Input: input})
		}
		record("huge", "k", math.MaxInt64)
		record("other", "k", 1)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			record("huge", "k", 5)
			record("huge", "l", 5)
			record("other", "k", 1)
			record("zulu", "k", 1)
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		got := map[string]usage.Sums{}
		for _, r := range wholeReport(t, s).Rows {
			got[r.Tenant] = r.Sums
		}
		want := map[string]usage.Sums{"huge": {Requests: 1, Input: math.MaxInt64}, "other": {Requests: 3, Input: 3}, "zulu": {Requests: 2, Input: 2}}
		if !maps.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		if stats := s.Stats(); stats.Dropped != 4 || stats.Waiting != 0 || len(told) != 2 || !strings.Contains(told[0].Error(), `2 requests of tenant "huge"`) {
			t.Errorf("%+v, told %v", stats, told)
		}
	})
}

// Rows that no process will ask for again are deleted: leases of processes that died, and the batch
// numbers of their ledgers. The store's own stay.
func TestTracesOfTheDeadAreSwept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, url string) {
		s := openStore(t, url, opts{})
		s.Record(usage.Record{Ended: ledgerDay})
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		storetest.Exec(t, s.DB, s.SQL(`INSERT INTO weir_owners (id, expires) VALUES ('dead', 1), ('young', NOW - 1000000)`))
		storetest.Exec(t, s.DB, s.SQL(`INSERT INTO weir_usage_batches VALUES ('dead', 1, 1), ('young', 1, NOW - 1000000)`))
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		for query, want := range map[string][]string{
			`SELECT id FROM weir_owners`:            {"young", s.Owner()},
			`SELECT writer FROM weir_usage_batches`: {"young", s.Owner()},
		} {
			got := storetest.Texts(t, s.DB, query)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", query, got, want)
			}
		}
	})
}
