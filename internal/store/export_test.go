package store

import (
	"context"
	"database/sql"
)

// What tests from outside see of the inside.
type (
	Dialect   = dialect
	Migration = migration
)

var (
	SqliteDialect   = sqliteDialect
	PostgresDialect = postgresDialect
	Migrations      = migrations
)

const (
	DeletedRows = deletedRows
	KeyRest     = keyRest
	ResealRows  = resealRows
)

func NewMigration(version int, name, text string) Migration { return Migration{version, name, text} }

func (d *dialect) Folder() string { return d.folder }

func (d *database) Brief() *sql.DB { return d.brief }

func (d *database) Dialect() *dialect { return d.dialect }

func (s *DB) Migrate(ctx context.Context, steps []migration) error { return s.migrate(ctx, steps) }

func (s *DB) ClosePools() error { return s.closePools() }

func (s *DB) DataKeys() *dataKeys { return s.keys }

func (k *dataKeys) Destroy(ctx context.Context, tenant string) error { return k.destroy(ctx, tenant) }

func (k *dataKeys) IDs(ctx context.Context) ([]string, error) {
	return k.strings(ctx, `SELECT id FROM weir_data_keys`)
}

// Wrapped are the encrypted bytes of all data keys.
func (k *dataKeys) Wrapped(ctx context.Context) (list [][]byte, err error) {
	all, err := k.list(ctx, `SELECT tenant, id, master, wrapped FROM weir_data_keys`)
	for _, w := range all {
		list = append(list, w.Bytes)
	}
	return list, err
}

// Connected is a database without tables.
func Connected(ctx context.Context, url string) (*DB, error) {
	t, err := parseTarget(url)
	if err != nil {
		return nil, err
	}
	s := newDB(Options{})
	return s, s.connect(ctx, t)
}

// SealedColumn is a column that holds texts of tenants.
type SealedColumn struct {
	Table, Column string
	Binary        bool
}

// SealedColumns are all of them.
func SealedColumns() (list []SealedColumn) {
	for i := range sealedTables {
		for _, column := range sealedTables[i].columns() {
			list = append(list, SealedColumn{sealedTables[i].name, column, sealedTables[i].binary})
		}
	}
	return list
}

func (d *database) Snapshot(ctx context.Context) (*sql.Tx, error) { return d.snapshot(ctx) }

func (d *database) BackupTables(ctx context.Context, tx *sql.Tx) ([]string, error) {
	return d.backupTables(ctx, tx)
}

// CheckBackup reads a whole backup of a store, as before a restore.
func CheckBackup(open Opener, log Chain) error {
	_, _, _, err := checkBackup(open, log, sqliteDialect)
	return err
}
