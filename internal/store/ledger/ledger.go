// Package ledger keeps what requests used in the store, per tenant, model and key by hour and by day.
package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"weir/api/usage"
	"weir/internal/store"
)

// maxPendingSums bounds the sums that wait for the database. A database that does not
// answer costs memory per tenant, model, key and hour, not per request.
const maxPendingSums = 16384

// usageKey is what usage is added up by.
type usageKey struct {
	tenant, model, key string
	hour               usage.Hour
}

var _ usage.Ledger = (*Ledger)(nil)

// Options of New. The zero value takes what stands beside each field.
type Options struct {
	FlushEvery time.Duration // 500 ms: usage that kill -9 may lose
}

// Ledger adds records up in memory and writes the sums in batches. A batch is written
// once even if the connection breaks at its commit: its number is written with it,
// and it is tried again as it is until the store has that number. Rows that the database refuses are dropped.
type Ledger struct {
	db      *store.DB
	options Options

	mu      sync.Mutex // held for the time of an addition
	pending map[usageKey]usage.Sums
	ended   bool
	stats   Stats

	writing chan struct{} // holds one token: who has it writes, and owns what follows
	batch   []usage.Row   // being written; nil between batches
	number  int64
	pruned  time.Time // when hours that are too old were last deleted
}

// New has the ledger of a store, which writes it in the background and, what is left, in its Close. What it could not write then is in
// the error, and counted in Stats.
func New(db *store.DB, options Options) *Ledger {
	if options.FlushEvery <= 0 {
		options.FlushEvery = 500 * time.Millisecond
	}
	l := &Ledger{db: db, options: options, pending: make(map[usageKey]usage.Sums), writing: make(chan struct{}, 1)}
	l.writing <- struct{}{}
	db.OnSweep(l.sweep)
	db.OnClose(l.end)
	db.Go(l.flushAll)
	return l
}

// Stats says how the ledger fares.
type Stats struct {
	Recorded uint64 // requests taken
	Dropped  uint64 // requests that were not kept: too many sums waited, the store was closed, or the database refused them
	Waiting  int    // sums that the database does not have yet
	Failures uint64 // batches that could not be written at once; they are tried again
}

// Stats returns the counts so far.
func (l *Ledger) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	stats := l.stats
	stats.Waiting += len(l.pending)
	return stats
}

// Record counts a request, in memory. The database has it some time later, see
// Options.FlushEvery, or after Flush.
func (l *Ledger) Record(r usage.Record) {
	key := usageKey{storableText(r.Tenant), storableText(r.Model), storableText(r.Key), usage.HourOf(r.Ended)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Recorded++
	sums, known := l.pending[key]
	if l.ended || !known && len(l.pending) >= maxPendingSums {
		l.stats.Dropped++
		return
	}
	sums.Count(&r)
	l.pending[key] = sums
}

// storableText: one text that the database refuses must not hold up all others.
func storableText(text string) string {
	if store.Storable(text) {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}

// Flush writes all that was recorded before the call.
func (l *Ledger) Flush(ctx context.Context) error {
	select {
	case <-l.writing:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.writing <- struct{}{} }()
	if l.batch != nil { // one that failed before
		if err := l.writeBatch(ctx); err != nil {
			return err
		}
	}
	l.take()
	if l.batch == nil {
		return nil
	}
	return l.writeBatch(ctx)
}

// take turns what is pending into the next batch, in one order for all processes, so
// that none waits for another's rows in a circle.
func (l *Ledger) take() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		return
	}
	for key, sums := range l.pending {
		l.batch = append(l.batch, usage.Row{
			Tenant: key.tenant, Model: key.model, Day: key.hour.Day(), Hour: key.hour, Key: key.key, Sums: sums,
		})
	}
	clear(l.pending)
	slices.SortFunc(l.batch, func(a, b usage.Row) int {
		return cmp.Or(cmp.Compare(a.Hour, b.Hour), strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Model, b.Model),
			strings.Compare(a.Key, b.Key))
	})
	l.number++
	l.stats.Waiting = len(l.batch)
}

// writeBatch writes the batch. What the database refuses of it is dropped, so that the rest, and what comes later, is written.
func (l *Ledger) writeBatch(ctx context.Context) error {
	err := l.db.Transact(ctx, func(tx *sql.Tx) error { return l.addUsage(ctx, tx, l.number, l.batch) })
	for refused, ok := errors.AsType[*refusedRow](err); ok; refused, ok = errors.AsType[*refusedRow](err) {
		l.db.Failed(l.drop(refused))
		err = l.db.Transact(ctx, func(tx *sql.Tx) error { return l.addUsage(ctx, tx, l.number, l.batch) })
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.stats.Failures++
		return fmt.Errorf("usage of %d tenants, models and days is not written yet: %w", len(l.batch), err)
	}
	l.batch = nil
	l.stats.Waiting = 0
	return nil
}

// refusedRow is a row whose values the database does not take. Its transaction is undone.
type refusedRow struct {
	row usage.Row // of a day, or of an hour and a key
	err error
}

func (e *refusedRow) Error() string { return e.err.Error() }
func (e *refusedRow) Unwrap() error { return e.err }

// drop takes a row out of the batch, or those that a day's sum is of. The error says what is lost.
func (l *Ledger) drop(refused *refusedRow) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, lost := &refused.row, int64(0)
	l.batch = slices.DeleteFunc(l.batch, func(b usage.Row) bool {
		whole := r.Hour == 0 || r.Hour == b.Hour && r.Key == b.Key
		found := whole && r.Day == b.Day && r.Tenant == b.Tenant && r.Model == b.Model
		if found {
			lost += b.Requests
		}
		return found
	})
	l.stats.Dropped += uint64(max(lost, 0))
	l.stats.Waiting = len(l.batch)
	return fmt.Errorf("the usage of %d requests of tenant %q and model %q on %v is lost, since the database refuses it: %+v: %w",
		lost, r.Tenant, r.Model, r.Day, r.Sums, refused.err)
}

// refusesValues reports whether an error is about the values of a statement, whose connection and table are well.
func refusesValues(err error) bool {
	if failed, ok := errors.AsType[*sqlite.Error](err); ok {
		code := failed.Code() & 0xff
		return code == sqlite3.SQLITE_CONSTRAINT || code == sqlite3.SQLITE_MISMATCH || code == sqlite3.SQLITE_TOOBIG
	}
	failed, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(failed.Code, "22") || strings.HasPrefix(failed.Code, "23")) // data exceptions, and constraints
}

// addUsage adds a batch to the tables, unless they have it.
func (l *Ledger) addUsage(ctx context.Context, tx *sql.Tx, number int64, batch []usage.Row) error {
	result, err := tx.ExecContext(ctx, l.db.SQL(`INSERT INTO weir_usage_batches (writer, batch, at) VALUES ($1, $2, NOW)
		ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, at = excluded.at
		WHERE weir_usage_batches.batch < excluded.batch`), l.db.Owner(), number)
	if err != nil {
		return err
	}
	if changed, err := result.RowsAffected(); err != nil || changed == 0 {
		return err
	}
	if err := addSums(ctx, tx, "weir_usage", "day, tenant, model", byDay(batch), func(r *usage.Row) []any {
		return []any{int64(r.Day), r.Tenant, r.Model}
	}); err != nil {
		return err
	}
	return addSums(ctx, tx, "weir_usage_hours", "hour, tenant, model, key", batch, func(r *usage.Row) []any {
		return []any{int64(r.Hour), r.Tenant, r.Model, r.Key}
	})
}

// byDay adds up rows of hours and keys, and keeps one order for all processes.
func byDay(batch []usage.Row) []usage.Row {
	sums := make(map[usage.Row]usage.Sums)
	for i := range batch {
		r := &batch[i]
		day := usage.Row{Tenant: r.Tenant, Model: r.Model, Day: r.Day}
		s := sums[day]
		s.Add(r.Sums)
		sums[day] = s
	}
	days := make([]usage.Row, 0, len(sums))
	for day, s := range sums {
		day.Sums = s
		days = append(days, day)
	}
	slices.SortFunc(days, func(a, b usage.Row) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Model, b.Model))
	})
	return days
}

const sumColumns = "requests, input, cached, output, compute_ns, cost_micros"

// addSums adds rows to a table with these columns as its primary key.
func addSums(ctx context.Context, tx *sql.Tx, table, key string, rows []usage.Row, keyOf func(*usage.Row) []any) error {
	columns := strings.Split(sumColumns, ", ")
	values, sets := make([]string, strings.Count(key, ",")+1+len(columns)), make([]string, len(columns))
	for i := range values {
		values[i] = fmt.Sprintf("$%d", i+1)
	}
	for i, c := range columns {
		sets[i] = fmt.Sprintf("%s = %s.%s + excluded.%s", c, table, c, c)
	}
	add, err := tx.PrepareContext(ctx, fmt.Sprintf("INSERT INTO %s (%s, %s) VALUES (%s) ON CONFLICT (%s) DO UPDATE SET %s",
		table, key, sumColumns, strings.Join(values, ", "), key, strings.Join(sets, ", ")))
	if err != nil {
		return err
	}
	defer add.Close()
	for i := range rows {
		r := &rows[i]
		if _, err := add.ExecContext(ctx, append(keyOf(r), r.Requests, r.Input, r.Cached, r.Output, int64(r.Compute), int64(r.Cost))...); refusesValues(err) {
			return &refusedRow{*r, err}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// pruneHours deletes usage by hour that is too old, once an hour.
func (l *Ledger) pruneHours(ctx context.Context) error {
	now := time.Now()
	if now.Sub(l.pruned) < time.Hour {
		return nil
	}
	_, err := l.db.Write.ExecContext(ctx, `DELETE FROM weir_usage_hours WHERE hour < $1`, int64(usage.HourOf(now.Add(-usage.KeptHours))))
	if err == nil {
		l.pruned = now
	}
	return err
}

// flushAll writes what is pending every FlushEvery, and after failures ever more
// seldom, up to every 30 seconds.
func (l *Ledger) flushAll(ctx context.Context) {
	const most = 30 * time.Second
	wait := l.options.FlushEvery
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if l.db.InBackground(ctx, func(ctx context.Context) error { return errors.Join(l.Flush(ctx), l.pruneHours(ctx)) }) {
			wait = l.options.FlushEvery
		} else {
			wait = min(2*wait, most)
		}
		timer.Reset(wait)
	}
}

// end writes what is left and takes nothing more.
func (l *Ledger) end(ctx context.Context) error {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	err := l.Flush(ctx)
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var lost int64
	for _, r := range l.batch {
		lost += r.Requests
	}
	for _, sums := range l.pending {
		lost += sums.Requests
	}
	l.stats.Dropped += uint64(lost)
	return fmt.Errorf("the usage of %d requests is lost: %w", lost, err)
}

// sweep deletes the batch numbers of ledgers that wrote nothing for a month.
func (l *Ledger) sweep(ctx context.Context) error {
	const month = 30 * 24 * time.Hour
	_, err := l.db.Write.ExecContext(ctx, l.db.SQL(`DELETE FROM weir_usage_batches WHERE at < NOW - $1 AND writer <> $2`),
		month.Microseconds(), l.db.Owner())
	return err
}
