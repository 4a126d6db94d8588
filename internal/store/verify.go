package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"weir/internal/envelope"
)

// maxFindings is how many findings of one kind Verify lists.
const maxFindings = 20

// Verify looks for damage: SQLite's own check of a file's pages and indexes, what more finds, the data keys, and each row
// that is encrypted, which carries its own checksum. It reads all of the store. The error is that it could not be read.
func (s *DB) Verify(ctx context.Context, more func(context.Context) ([]string, error)) (findings []string, err error) {
	found, err := s.checkPages(ctx, "the store")
	if err == nil && s.keys != nil && s.keys.own {
		var others []string
		others, err = s.keys.checkPages(ctx, "the data keys")
		found = append(found, others...)
	}
	if err != nil || len(found) > 0 {
		return found, err // rows of damaged pages are not worth reading
	}
	if findings, err = more(ctx); err != nil || s.keys == nil {
		return findings, err
	}
	all, err := s.keys.list(ctx, `SELECT tenant, id, master, wrapped FROM weir_data_keys`)
	if err != nil {
		return findings, err
	}
	for _, w := range all {
		if _, err := s.keys.masters.Open(ctx, w); err != nil {
			findings = append(findings, err.Error())
		}
	}
	for i := range sealedTables {
		more, err := s.checkSealed(ctx, &sealedTables[i])
		findings = append(findings, more...)
		if err != nil {
			return findings, err
		}
	}
	return findings, nil
}

// checkSealed opens all encrypted rows of a table.
func (s *sealing) checkSealed(ctx context.Context, table *sealedTable) (findings []string, err error) {
	tenants, err := s.strings(ctx, `SELECT DISTINCT tenant FROM `+table.name+` WHERE data_key <> ''`)
	if err != nil {
		return nil, err
	}
	every := *table
	every.done = "data_key <> ''"
	for _, tenant := range tenants {
		after := every.first()
		for {
			rows, err := s.sealedRows(ctx, &every, tenant, "", after)
			if err != nil {
				return findings, err
			}
			for i := range rows {
				if err := s.checkRow(ctx, table, tenant, &rows[i]); errors.Is(err, envelope.ErrSealed) && len(findings) < maxFindings {
					findings = append(findings, fmt.Sprintf("%s: the row %.80q of tenant %s was altered", table.name, rows[i].label(), tenant))
				} else if err != nil && !errors.Is(err, envelope.ErrSealed) {
					return findings, err
				}
			}
			if len(rows) < resealRows {
				break
			}
			after = rows[len(rows)-1].id
		}
	}
	return findings, nil
}

// checkRow opens a row. One whose key was destroyed, or that is not finished, is none to open.
func (s *sealing) checkRow(ctx context.Context, table *sealedTable, tenant string, r *sealedRow) error {
	key, err := s.KeyFor(ctx, tenant, r.key)
	if errors.Is(err, envelope.ErrNoKey) {
		if len(r.key) != KeyIDBytes || strings.Trim(r.key, "0123456789abcdef") != "" {
			return envelope.ErrSealed // no id of a key
		}
		return nil
	}
	if err != nil {
		return err
	}
	for i, f := range table.fields {
		switch {
		case r.fields[i] == nil: // an answer that is in flight
		case table.binary:
			_, err = f.Open(key, tenant, r.label(), r.fields[i])
		default:
			_, err = f.OpenText(key, tenant, r.label(), string(r.fields[i]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
