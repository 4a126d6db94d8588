package store

import (
	"database/sql"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

const (
	// busyTimeout is how long a statement waits for other processes' transactions.
	busyTimeout = 10 * time.Second
	// readers are the connections that read a SQLite file beside the one that writes.
	readers = 4
	// postgresConnections bounds the connections of one process to its server.
	postgresConnections = 8
)

// openSQLite opens the file, made with mode 0600 where there is none; SQLite gives the
// files beside it the same mode.
func (s *Store) openSQLite(t target) error {
	file, err := os.OpenFile(t.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("the store %s: %w", t.shown, err)
	}
	if err := file.Close(); err != nil {
		return err
	}
	s.dialect = sqliteDialect
	if s.write, err = sql.Open("sqlite", t.dsn(true)); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if s.read, err = sql.Open("sqlite", t.dsn(false)); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers)
	return nil
}

func (s *Store) openPostgres(config *pgx.ConnConfig) {
	s.dialect = postgresDialect
	s.write = stdlib.OpenDB(*config)
	s.write.SetMaxOpenConns(postgresConnections)
	s.write.SetMaxIdleConns(postgresConnections)
	s.write.SetConnMaxIdleTime(5 * time.Minute)
	s.read = s.write
}
