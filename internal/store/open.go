package store

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// busyTimeout is how long a statement waits for other processes' transactions.
	busyTimeout = 10 * time.Second
	// readers are the connections that read a SQLite file beside the one that writes.
	readers = 4
	// postgresConnections bounds the connections of one process to its server.
	postgresConnections = 8
)

// How a commit reaches the disk of a SQLite file: at once, or with the next one that does.
const (
	synced   = "FULL"
	unsynced = "NORMAL"
)

// openSQLite opens the file, and makes it where there is none.
func (d *database) openSQLite(ctx context.Context, t target) error {
	err := makePrivate(t.path)
	if err != nil {
		return err
	}
	d.dialect = sqliteDialect
	if d.Write, err = sql.Open("sqlite", t.dsn(true, synced)); err != nil {
		return err
	}
	d.Write.SetMaxOpenConns(1)
	if d.brief, err = sql.Open("sqlite", t.dsn(true, unsynced)); err != nil {
		return err
	}
	d.brief.SetMaxOpenConns(1)
	if d.Read, err = sql.Open("sqlite", t.dsn(false, synced)); err != nil {
		return err
	}
	d.Read.SetMaxOpenConns(readers)
	d.Read.SetMaxIdleConns(readers)
	return awaitFile(ctx, d.Write)
}

// makePrivate makes an empty file of mode 0600 where there is none; SQLite gives the files
// beside it the same mode. It never opens a file that may be in use: its closing would
// end the locks that SQLite holds in this process, as POSIX has it.
func makePrivate(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".weir-*") // mode 0600
	if err != nil {
		return err
	}
	err = file.Close()
	if err == nil {
		err = os.Link(file.Name(), path)
	}
	if errors.Is(err, os.ErrExist) { // made by another process meanwhile
		err = nil
	}
	return errors.Join(err, os.Remove(file.Name()))
}

// awaitFile makes the first connection, which turns a new file to write-ahead logging.
// That step alone does not wait for another process at the same step: SQLite says at
// once that the file is busy.
func awaitFile(ctx context.Context, db *sql.DB) error {
	for deadline := time.Now().Add(busyTimeout); ; {
		err := db.PingContext(ctx)
		var failed *sqlite.Error
		if !errors.As(err, &failed) || failed.Code()&0xff != sqlite3.SQLITE_BUSY || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5*time.Millisecond + rand.N(20*time.Millisecond)):
		}
	}
}

func (d *database) openPostgres(config *pgx.ConnConfig) {
	d.dialect = postgresDialect
	d.Write = stdlib.OpenDB(*config)
	d.Write.SetMaxOpenConns(postgresConnections)
	d.Write.SetMaxIdleConns(postgresConnections)
	d.Write.SetConnMaxIdleTime(5 * time.Minute)
	d.Read, d.brief = d.Write, d.Write
}
