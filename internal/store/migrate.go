package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// ErrNewer is a store that a newer weir has migrated.
var ErrNewer = errors.New("the store was migrated by a newer weir")

// migrationFiles are the migrations of each database, numbered from 1. One that was released is never
// edited: its digest stands in every store that has it, and Open compares.
//
//go:embed migrations
var migrationFiles embed.FS

// migration is one numbered step of the schema.
type migration struct {
	version int
	name    string // 0001_keys.sql
	text    string
}

func (m *migration) digest() string {
	sum := sha256.Sum256([]byte(m.text))
	return hex.EncodeToString(sum[:])
}

// migrations reads the steps of a database in their order.
func migrations(folder string) ([]migration, error) {
	folder = path.Join("migrations", folder)
	files, err := migrationFiles.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var steps []migration
	for _, file := range files {
		text, err := migrationFiles.ReadFile(path.Join(folder, file.Name()))
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(file.Name(), "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("the migration %s has no number", file.Name())
		}
		steps = append(steps, migration{version, file.Name(), string(text)})
	}
	slices.SortFunc(steps, func(a, b migration) int { return cmp.Compare(a.version, b.version) })
	for i, step := range steps {
		if step.version != i+1 {
			return nil, fmt.Errorf("the migration %s has a number out of order", step.name)
		}
	}
	return steps, nil
}

const schemaTable = `CREATE TABLE IF NOT EXISTS weir_schema (
	version BIGINT PRIMARY KEY,
	name    TEXT   NOT NULL,
	digest  TEXT   NOT NULL,
	applied BIGINT NOT NULL
)`

// migrate applies the steps that the store lacks, each in a transaction of its own.
// Where several processes start at once, one applies a step and the others wait.
func (d *database) migrate(ctx context.Context, steps []migration) error {
	for done := false; !done; {
		err := d.Transact(ctx, func(tx *sql.Tx) (err error) {
			done, err = d.migrateStep(ctx, tx, steps)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// migrateStep applies the next step, if the store lacks one.
func (d *database) migrateStep(ctx context.Context, tx *sql.Tx, steps []migration) (done bool, err error) {
	if d.dialect.migrationLock != "" {
		if _, err := tx.ExecContext(ctx, d.dialect.migrationLock); err != nil {
			return false, err
		}
	}
	if _, err := tx.ExecContext(ctx, schemaTable); err != nil {
		return false, err
	}
	have, err := checkApplied(ctx, tx, steps)
	if err != nil || have == len(steps) {
		return true, err
	}
	step := &steps[have]
	if _, err := tx.ExecContext(ctx, step.text); err != nil {
		return false, fmt.Errorf("migration %s: %w", step.name, err)
	}
	_, err = tx.ExecContext(ctx, d.SQL(`INSERT INTO weir_schema (version, name, digest, applied) VALUES ($1, $2, $3, NOW)`),
		step.version, step.name, step.digest())
	return false, err
}

// checkApplied counts the steps that the store has, which must be the first of those
// that this weir knows.
func checkApplied(ctx context.Context, tx *sql.Tx, steps []migration) (have int, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT version, name, digest FROM weir_schema ORDER BY version`)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var version int
		var name, digest string
		if err := rows.Scan(&version, &name, &digest); err != nil {
			return 0, err
		}
		have++
		switch {
		case version > len(steps):
			return 0, fmt.Errorf("%w: it has version %d (%s), this weir knows versions up to %d; run the newer weir, "+
				"or go back to a copy from before the upgrade", ErrNewer, version, name, len(steps))
		case version != have || digest != steps[have-1].digest():
			return 0, fmt.Errorf("version %d of the store's tables (%s) is not the one of this weir; "+
				"the store was made by another build", version, name)
		}
	}
	return have, rows.Err()
}
