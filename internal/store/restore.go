package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Restoring is what Restore reads and may do. Backups are read twice: first to check them.
type Restoring struct {
	Store Opener
	Log   Chain  // checks the audit log
	Keys  Opener // of the data keys; nil: those that the server has are the right ones, or there are none
	Force bool   // what is in the store is dropped
}

// ErrNotEmpty says that a backup is to be restored over a store.
var ErrNotEmpty = errors.New("there is a store already")

// Restore puts a backup where url says, into either database, and checks it before and after. The store is opened
// with options from then on. Nothing is changed where the backup is damaged, or its audit log is not whole.
func Restore(ctx context.Context, url string, options Options, r Restoring) (BackupSummary, error) {
	t, err := parseTarget(url)
	if err != nil {
		return BackupSummary{}, err
	}
	s := newDB(options)
	backed, err := s.restore(ctx, t, r)
	if err = errors.Join(err, s.closePools()); err != nil {
		return backed, fmt.Errorf("restore into %s: %w", t.shown, err)
	}
	return backed, nil
}

func (s *DB) restore(ctx context.Context, t target, r Restoring) (BackupSummary, error) {
	dialect := sqliteDialect
	if t.postgres != nil {
		dialect = postgresDialect
	}
	steps, backed, bound, err := checkBackup(r.Store, r.Log, dialect)
	if err != nil {
		return backed, err
	}
	if err := s.connect(ctx, t); err != nil {
		return backed, err
	}
	apart := s.options.Keys.URL != ""
	mine := func(table string) bool { return !apart || !isKeyTable(table) }
	if !r.Force { // before the data keys are touched
		if err := s.Transact(ctx, func(tx *sql.Tx) error { return s.clear(ctx, tx, false, mine) }); err != nil {
			return backed, err
		}
	}
	if bound != "" && apart {
		if err := s.restoreKeys(ctx, r, bound); err != nil {
			return backed, err
		}
	}
	return backed, s.Transact(ctx, func(tx *sql.Tx) error {
		if err := s.clear(ctx, tx, r.Force, mine); err != nil {
			return err
		}
		for done := false; !done; {
			if done, err = s.migrateStep(ctx, tx, steps); err != nil {
				return err
			}
		}
		if err := load(ctx, tx, r.Store, backupStore); err != nil {
			return err
		}
		if bound == "" || apart {
			return nil
		}
		if r.Keys == nil {
			return errNeedsKeys(bound)
		}
		if err := makeKeyTables(ctx, tx, s.dialect); err != nil {
			return err
		}
		return load(ctx, tx, r.Keys, backupKeys)
	})
}

func errNeedsKeys(bound string) error {
	return fmt.Errorf("%w (%s) are not in the backup of the store: give the backup of the data keys that was made with it (--keys FILE)", ErrKeys, bound)
}

// checkBackup reads a whole backup: its digest, the chain of its audit log. bound is the store of data keys that it needs.
func checkBackup(open Opener, log Chain, dialect *dialect) (steps []migration, backed BackupSummary, bound string, err error) {
	if steps, err = migrations(dialect.folder); err != nil {
		return nil, backed, "", err
	}
	var schema int
	rows := func(yield func(Row) bool) {
		schema, backed, err = readBackup(open, backupStore, func(table backupTable, row []any) error {
			switch table.Table {
			case "weir_key_store":
				bound, _ = row[0].(string)
			case chainTable:
				if !yield(Row{table.Columns, row}) {
					return errStopped
				}
			}
			return nil
		})
	}
	broken := log.CheckRows(rows, func() string { return backed.Audit })
	switch {
	case err != nil && !errors.Is(err, errStopped):
		return nil, backed, "", err
	case broken != nil:
		return nil, backed, "", fmt.Errorf("the backup's audit log, by this server's pepper: %w; restore with the pepper that the store had", broken)
	case schema < 1 || schema > len(steps):
		return nil, backed, "", fmt.Errorf("%w: the backup is of version %d, this weir knows versions up to %d; restore it with the newer weir", ErrNewer, schema, len(steps))
	}
	return steps[:schema], backed, bound, nil
}

// errStopped ends the reading of a backup whose reader has had enough.
var errStopped = errors.New("stopped")

// restoreKeys puts the data keys into their own database, unless those that the store needs are there: keys of
// tenants that were forgotten since the backup do not come back then.
func (s *DB) restoreKeys(ctx context.Context, r Restoring, bound string) error {
	k := &dataKeys{}
	if err := k.connectTo(ctx, s.options.Keys.URL, false); err != nil {
		return err
	}
	err := k.Transact(ctx, func(tx *sql.Tx) error {
		tables, err := k.tablesOf(ctx, tx)
		if err != nil {
			return err
		}
		if slices.Contains(tables, keyTables[0]) {
			var id string
			if err := tx.QueryRowContext(ctx, `SELECT id FROM weir_data_key_store`).Scan(&id); err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			} else if id == bound {
				return nil
			}
		}
		if r.Keys == nil {
			return errNeedsKeys(bound)
		}
		if err := k.clear(ctx, tx, r.Force, isKeyTable); err != nil {
			return fmt.Errorf("the data keys: %w", err)
		}
		if err := makeKeyTables(ctx, tx, k.dialect); err != nil {
			return err
		}
		return load(ctx, tx, r.Keys, backupKeys)
	})
	return errors.Join(err, k.close())
}

// load inserts the rows of a backup.
func load(ctx context.Context, tx *sql.Tx, open Opener, kind string) error {
	var table string
	var insert *sql.Stmt
	defer func() {
		if insert != nil {
			_ = insert.Close() // the transaction's end says what failed
		}
	}()
	_, _, err := readBackup(open, kind, func(t backupTable, row []any) error {
		if t.Table != table {
			if insert != nil {
				if err := insert.Close(); err != nil {
					return err
				}
			}
			marks := make([]string, len(t.Columns))
			for i := range marks {
				marks[i] = fmt.Sprintf("$%d", i+1)
			}
			var err error
			insert, err = tx.PrepareContext(ctx, fmt.Sprintf(`INSERT INTO %s ("%s") VALUES (%s)`, t.Table, strings.Join(t.Columns, `", "`), strings.Join(marks, ", ")))
			if err != nil {
				return fmt.Errorf("the table %s: %w", t.Table, err)
			}
			table = t.Table
		}
		if _, err := insert.ExecContext(ctx, row...); err != nil {
			return fmt.Errorf("a row of %s: %w", t.Table, err)
		}
		return nil
	})
	return err
}
