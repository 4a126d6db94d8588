// Package store keeps what must outlive the process: keys, usage, idempotency keys
// and the audit log, in a SQLite file or in a PostgreSQL database that several weirs
// share. It implements the interfaces of the packages that use it.
//
// SQLite: one connection writes, in transactions that begin with the write lock,
// several read; write-ahead log, each commit synced (synchronous=FULL), so that what
// was acknowledged survives kill -9 and a power cut. Several processes of one machine
// may share the file. PostgreSQL: as durable as the server is configured.
//
// Times are microseconds since 1970. Where processes must agree on the time (leases,
// expiry of idempotency keys), it is the database's.
package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"weir/api/replay"
	"weir/api/tenant"
	"weir/api/usage"
	"weir/telemetry/audit"
)

var (
	_ tenant.Keys   = (*Store)(nil)
	_ usage.Ledger  = (*Store)(nil)
	_ replay.Claims = (*Store)(nil)
	_ audit.Log     = (*Store)(nil)
)

// Options of Open. The zero value takes what stands beside each field.
type Options struct {
	Lease      time.Duration // 15 s: what a process holds is another's this long after its death; its idempotency keys after a fifth
	FlushEvery time.Duration // 500 ms: usage that kill -9 may lose
	// AnswerBytes bounds the answers of one tenant's idempotency keys; the oldest go first.
	// Each process lets them grow by a sixteenth before it looks. 0: no bound.
	AnswerBytes  int64
	HistoryBytes int64 // bounds one tenant's responses likewise; the longest unused go first
	Audit        Audit // how the audit log is keyed
	Keys         Keys  // what encrypts texts of tenants
	// Failed hears of failures in the background, which is where usage is written and
	// the lease renewed. It is called on the store's goroutines.
	Failed func(error)
}

func (o Options) filled() Options {
	if o.Lease <= 0 {
		o.Lease = 15 * time.Second
	}
	if o.FlushEvery <= 0 {
		o.FlushEvery = 500 * time.Millisecond
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return o
}

// Store is an open store. All methods may be called at the same time.
type Store struct {
	database
	keys    *dataKeys // nil: nothing is encrypted
	options Options
	owner   string // this Store among all that ever were

	ledger ledger
	doubts doubts
	grown  grown

	grownHistory grown // likewise, of responses

	stop       context.CancelFunc // of what runs in the background
	background sync.WaitGroup
	closing    sync.Once
	closed     error // what Close returns
}

// backgroundTimeout bounds each statement that no caller waits for.
const backgroundTimeout = 30 * time.Second

// Open opens a store, and creates or migrates its tables. url is sqlite:PATH or
// postgres://USER:PASSWORD@HOST/DATABASE with pgx's settings (sslmode, search_path).
func Open(ctx context.Context, url string, options Options) (*Store, error) {
	t, err := parseTarget(url)
	if err != nil {
		return nil, err
	}
	s := &Store{options: options.filled(), owner: rand.Text()}
	if err := s.begin(ctx, t); err != nil {
		return nil, errors.Join(fmt.Errorf("the store %s: %w", t.shown, err), s.keys.close(), s.closePools())
	}
	return s, nil
}

// begin connects, brings the tables up to date and starts what runs in the background.
func (s *Store) begin(ctx context.Context, t target) error {
	if err := s.connect(ctx, t); err != nil {
		return err
	}
	steps, err := migrations(s.dialect.folder)
	if err != nil {
		return err
	}
	if err := s.migrate(ctx, steps); err != nil {
		return err
	}
	if s.keys, err = s.openKeys(ctx); err != nil {
		return err
	}
	if err := s.keyAudit(ctx); err != nil {
		return fmt.Errorf("key the audit log: %w", err)
	}
	if err := s.renewLease(ctx); err != nil {
		return err
	}
	s.ledger.init()
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.background.Go(func() { s.flushUsage(background) })
	s.background.Go(func() { s.keepLease(background) })
	return nil
}

// Close writes the usage that is left, gives up the lease and closes the database. It
// waits for the database as long as ctx allows. What it could not write is in the
// error, and counted in UsageStats.
func (s *Store) Close(ctx context.Context) error {
	s.closing.Do(func() {
		s.stop()
		s.background.Wait()
		s.closed = errors.Join(s.endLedger(ctx), s.endLease(ctx), s.keys.close(), s.closePools())
	})
	return s.closed
}

// micros is a time as the tables keep it; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// checkText: PostgreSQL keeps neither NUL nor broken UTF-8, so neither does SQLite.
func checkText(what, text string) error {
	const most = 1024
	switch {
	case len(text) > most:
		return fmt.Errorf("the %s has %d bytes; the store keeps at most %d", what, len(text), most)
	case !storable(text):
		return fmt.Errorf("the %s %.60q is no UTF-8 text without NUL", what, text)
	}
	return nil
}

func storable(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }
