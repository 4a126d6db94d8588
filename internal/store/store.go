// Package store is the database of what must outlive the process: a SQLite file, or a PostgreSQL database that several weirs share. It
// opens and migrates it, has the transactions, the lease of this process, the encryption of tenants' texts, backups and their checks. What
// the tables hold of each subject is read and written by a package of its own below this one, with the types of its users:
// store/tenants, store/ledger and so on.
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
	"time"
)

// Options of Open. The zero value takes what stands beside each field.
type Options struct {
	Lease time.Duration // 15 s: what a process holds is another's this long after its death; its idempotency keys after a fifth
	Keys  Keys          // what encrypts texts of tenants
	// Failed hears of failures in the background, which is where usage is written and
	// the lease renewed. It is called on the store's goroutines.
	Failed func(error)
	// ClockAhead is added to the database's clock: for tests of clocks that differ.
	ClockAhead time.Duration
}

func (o Options) filled() Options {
	if o.Lease <= 0 {
		o.Lease = 15 * time.Second
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	return o
}

// DB is an open store. All methods may be called at the same time.
type DB struct {
	database
	sealing
	tasks
	options Options
	owner   string // this DB among all that ever were
}

// Open opens a store, and creates or migrates its tables. url is sqlite:PATH or
// postgres://USER:PASSWORD@HOST/DATABASE with pgx's settings (sslmode, search_path).
func Open(ctx context.Context, url string, options Options) (*DB, error) {
	t, err := parseTarget(url)
	if err != nil {
		return nil, err
	}
	s := newDB(options)
	if err := s.begin(ctx, t); err != nil {
		return nil, errors.Join(fmt.Errorf("the store %s: %w", t.shown, err), s.keys.close(), s.closePools())
	}
	return s, nil
}

func newDB(options Options) *DB {
	options = options.filled()
	s := &DB{database: database{ahead: options.ClockAhead}, tasks: tasks{failed: options.Failed}, options: options, owner: rand.Text()}
	s.sealing.database = &s.database
	return s
}

// begin connects, brings the tables up to date and starts what runs in the background.
func (s *DB) begin(ctx context.Context, t target) error {
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
	if s.keys, err = s.openKeys(ctx, s.options.Keys); err != nil {
		return err
	}
	if err := s.renewLease(ctx); err != nil {
		return err
	}
	s.tasks.begin(ctx)
	s.Go(s.keepLease)
	return nil
}

// Owner names this DB among all that ever were: rows that it holds by its lease have the name.
func (s *DB) Owner() string { return s.owner }

// Close ends what runs in the background, then what OnClose was told of, gives up the lease and closes the database. It
// waits for the database as long as ctx allows.
func (s *DB) Close(ctx context.Context) error {
	t := &s.tasks
	t.closing.Do(func() {
		s.Stop()
		t.closed = errors.Join(t.end(ctx), s.endLease(ctx), s.keys.close(), s.closePools())
	})
	return t.closed
}
