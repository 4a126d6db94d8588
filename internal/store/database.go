package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// database is an open SQLite file or PostgreSQL database.
type database struct {
	Write, Read *sql.DB // the same pool with PostgreSQL
	// brief writes what is worth nothing after a power cut, such as leases: a SQLite file is not synced for it, so that a server without
	// requests leaves the disk alone.
	brief   *sql.DB
	dialect *dialect
	ahead   time.Duration // Options.ClockAhead
}

// dialect is what differs between the databases beyond the driver.
type dialect struct {
	folder string // of the migrations
	now    string // expression: the database's clock in microseconds
	// migrationLock makes a transaction the only one that migrates; "" where each
	// writing transaction is alone.
	migrationLock string
	// tableLock keeps other writers off a table for a transaction; "" where a writing transaction is alone.
	tableLock string

	tables    string            // query: names of weir's tables, in order
	guards    string            // query: names and texts of the audit log's triggers
	dropGuard map[string]string // statement by kind of guard, for its name
}

var sqliteDialect = &dialect{
	folder: "sqlite",
	now:    "CAST(1000000 * unixepoch('now', 'subsec') AS INTEGER)",

	tables:    `SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'weir!_%' ESCAPE '!' ORDER BY name`,
	guards:    `SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'weir_audit'`,
	dropGuard: map[string]string{"TRIGGER": "DROP TRIGGER IF EXISTS %s"},
}

var postgresDialect = &dialect{
	folder:        "postgres",
	now:           "CAST(1000000 * extract(epoch FROM clock_timestamp()) AS bigint)",
	migrationLock: "SELECT pg_advisory_xact_lock(hashtext('weir ' || current_schema()))",
	tableLock:     "LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE",

	tables: `SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE 'weir!_%' ESCAPE '!' ORDER BY tablename`,
	// A trigger's text is not kept as it was written; its function's is.
	guards: `SELECT tgname, '' FROM pg_trigger WHERE tgrelid = 'weir_audit'::regclass AND NOT tgisinternal AND tgenabled = 'O'
		UNION ALL SELECT proname, prosrc FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'weir!_audit!_%' ESCAPE '!'`,
	dropGuard: map[string]string{"TRIGGER": "DROP TRIGGER IF EXISTS %s ON weir_audit", "FUNCTION": "DROP FUNCTION IF EXISTS %s()"},
}

func (d *database) connect(ctx context.Context, t target) error {
	if t.postgres == nil {
		return d.openSQLite(ctx, t)
	}
	d.openPostgres(t.postgres)
	return nil
}

func (d *database) closePools() error {
	var errs []error
	for _, db := range []*sql.DB{d.Read, d.brief, d.Write} { // the last connection to close empties SQLite's log
		if db != nil {
			errs = append(errs, db.Close()) // twice, with PostgreSQL, is once
		}
	}
	return errors.Join(errs...)
}

// IsPostgres reports whether the database is on a server, not in a file.
func (d *database) IsPostgres() bool { return d.dialect == postgresDialect }

// Transact runs f in a transaction that writes.
func (d *database) Transact(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := d.Write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	return tx.Commit()
}

// ignoreDone: a context that ended has rolled the transaction back already.
func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// LockTable keeps other writers off a table until the transaction ends.
func (d *database) LockTable(ctx context.Context, tx *sql.Tx, table string) error {
	if d.dialect.tableLock == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf(d.dialect.tableLock, table))
	return err
}

// SQL puts the database's clock where the text says NOW.
func (d *database) SQL(text string) string {
	now := d.dialect.now
	if d.ahead != 0 {
		now = fmt.Sprintf("(%s + (%d))", now, d.ahead.Microseconds())
	}
	return strings.ReplaceAll(text, "NOW", now)
}

// Wipe empties SQLite's log, in which rows that were deleted would stay for a while. In
// the file itself they are overwritten (secure_delete). A reader that is at work puts
// the emptying off to a later checkpoint. PostgreSQL has autovacuum.
func (d *database) Wipe(ctx context.Context) error {
	if d.dialect != sqliteDialect {
		return nil
	}
	_, err := d.Write.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return err
}

// snapshot begins a transaction that sees the database as it is at one moment.
func (d *database) snapshot(ctx context.Context) (*sql.Tx, error) {
	if d.dialect == sqliteDialect { // a transaction's first read is its moment
		return d.Read.BeginTx(ctx, nil)
	}
	return d.Read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
}

// checkPages asks SQLite. PostgreSQL has checksums of its own.
func (d *database) checkPages(ctx context.Context, what string) (findings []string, err error) {
	if d.dialect != sqliteDialect {
		return nil, nil
	}
	lines, err := d.strings(ctx, fmt.Sprintf(`PRAGMA integrity_check(%d)`, maxFindings))
	for _, line := range lines {
		if line != "ok" {
			findings = append(findings, what+": "+line)
		}
	}
	return findings, err
}
