package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/internal/envelope"
)

// sealedTable is a table with texts of tenants.
type sealedTable struct {
	name   string
	id     string // column
	fields []Field
	binary bool   // the fields' columns hold bytes; else text, in which bytes are base64
	done   string // condition of rows that their processes change no more
}

var sealedTables = []sealedTable{
	{"weir_replay", "key", []Field{FieldReplayAnswer}, true, "answer IS NOT NULL"},
	{"weir_responses", "id", []Field{FieldResponseInput, FieldResponseObject}, true, "status NOT IN ('queued', 'in_progress')"},
	{"weir_transcripts", "id", []Field{FieldPrompts, FieldAnswers}, false, "1 = 1"},
	{"weir_batches", "id", []Field{FieldBatchRecord}, false, "ended > 0"},
	// A row's key is that of the file's bytes too, which stay as they are.
	{"weir_files", "id", []Field{FieldFileName}, false, "data_key = ''"},
}

// ErrInClear says that no master key is set, and so nothing can be encrypted.
var ErrInClear = errors.New("no master key is set, so the store keeps texts in clear")

// EncryptClear encrypts the rows that are in clear: those that an earlier weir has left. It may run beside everything
// else, and again after it was broken off. It returns how many rows it encrypted.
func (s *sealing) EncryptClear(ctx context.Context) (rows int64, err error) {
	if s.keys == nil {
		return 0, ErrInClear
	}
	for i := range sealedTables {
		table := &sealedTables[i]
		tenants, err := s.strings(ctx, `SELECT DISTINCT tenant FROM `+table.name+` WHERE data_key = '' AND `+table.done)
		if err != nil {
			return rows, err
		}
		for _, tenant := range tenants {
			key, err := s.KeyOf(ctx, tenant)
			if err != nil {
				return rows, err
			}
			n, err := s.reseal(ctx, table, tenant, key)
			rows += n
			if err != nil {
				return rows, fmt.Errorf("encrypt %s: %w", table.name, err)
			}
		}
	}
	if rows == 0 {
		return 0, nil
	}
	return rows, s.Wipe(ctx)
}

// RotateKey gives a tenant a new data key and encrypts its rows with it. Files keep the key that they were written
// with. A key that nothing needs any more is deleted a day later.
func (s *sealing) RotateKey(ctx context.Context, tenant string) (rows int64, err error) {
	if s.keys == nil {
		return 0, ErrInClear
	}
	if err := CheckText("tenant", tenant); err != nil {
		return 0, err
	}
	key, err := s.keys.add(ctx, tenant, false)
	for i := 0; i < len(sealedTables) && err == nil; i++ {
		var n int64
		n, err = s.reseal(ctx, &sealedTables[i], tenant, key)
		rows += n
	}
	return rows, errors.Join(err, s.Wipe(ctx))
}

// KeyTenants are the tenants that have data keys.
func (s *sealing) KeyTenants(ctx context.Context) ([]string, error) {
	if s.keys == nil {
		return nil, ErrInClear
	}
	return s.keys.strings(ctx, `SELECT DISTINCT tenant FROM weir_data_keys ORDER BY tenant`)
}

// ForgetKeys destroys a tenant's data keys: what is encrypted with them is unreadable from then on, in copies of the
// store too. What the tenant brings later gets a new key.
func (s *sealing) ForgetKeys(ctx context.Context, tenant string) error {
	if s.keys == nil || !Storable(tenant) {
		return nil
	}
	return s.keys.destroy(ctx, tenant)
}

// sealedRow is a row of a sealedTable.
type sealedRow struct {
	id     any // text, or bytes
	key    string
	fields [][]byte // as they are stored
}

func (r *sealedRow) label() string {
	switch id := r.id.(type) {
	case []byte:
		return hex.EncodeToString(id)
	case string:
		return id
	}
	return ""
}

// resealRows is how many rows one transaction encrypts.
const resealRows = 20

// reseal encrypts a tenant's rows that are in clear or have another key. Those that cannot be decrypted stay.
func (s *sealing) reseal(ctx context.Context, table *sealedTable, tenant string, key *envelope.DataKey) (count int64, err error) {
	after := table.first()
	for {
		rows, err := s.sealedRows(ctx, table, tenant, key.ID, after)
		if err != nil || len(rows) == 0 {
			return count, err
		}
		for i := range rows {
			if err := s.resealRow(ctx, table, tenant, key, &rows[i]); errors.Is(err, envelope.ErrNoKey) || errors.Is(err, envelope.ErrSealed) {
				rows[i].fields = nil
			} else if err != nil {
				return count, err
			}
		}
		n, err := s.writeResealed(ctx, table, tenant, key.ID, rows)
		count += n
		if err != nil {
			return count, err
		}
		after = rows[len(rows)-1].id
	}
}

// first is before all ids.
func (t *sealedTable) first() any {
	if t.id == "key" {
		return []byte{}
	}
	return ""
}

func (t *sealedTable) columns() (names []string) {
	for _, f := range t.fields {
		_, column, _ := strings.Cut(string(f), ".")
		names = append(names, column)
	}
	return names
}

// sealedRows reads the next rows that have another key.
func (s *sealing) sealedRows(ctx context.Context, table *sealedTable, tenant, key string, after any) (page []sealedRow, err error) {
	rows, err := s.Read.QueryContext(ctx, `SELECT `+table.id+`, data_key, `+strings.Join(table.columns(), ", ")+` FROM `+table.name+
		` WHERE tenant = $1 AND data_key <> $2 AND `+table.done+` AND `+table.id+` > $3 ORDER BY `+table.id+` LIMIT $4`, tenant, key, after, resealRows)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r := sealedRow{fields: make([][]byte, len(table.fields))}
		to := []any{&r.id, &r.key}
		for i := range r.fields {
			to = append(to, &r.fields[i])
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		page = append(page, r)
	}
	return page, rows.Err()
}

// resealRow puts fields under a new key in the place of those that are stored.
func (s *sealing) resealRow(ctx context.Context, table *sealedTable, tenant string, key *envelope.DataKey, r *sealedRow) error {
	old, err := s.KeyFor(ctx, tenant, r.key)
	if err != nil {
		return err
	}
	for i, f := range table.fields {
		if table.binary {
			plain, err := f.Open(old, tenant, r.label(), r.fields[i])
			if err != nil {
				return err
			}
			r.fields[i] = f.Seal(key, tenant, r.label(), plain)
			continue
		}
		plain, err := f.OpenText(old, tenant, r.label(), string(r.fields[i]))
		if err != nil {
			return err
		}
		r.fields[i] = []byte(f.SealText(key, tenant, r.label(), plain))
	}
	return nil
}

// writeResealed writes rows that were not changed meanwhile.
func (s *sealing) writeResealed(ctx context.Context, table *sealedTable, tenant, key string, rows []sealedRow) (count int64, err error) {
	columns := table.columns()
	for i, column := range columns {
		columns[i] = fmt.Sprintf(`%s = $%d`, column, 5+i)
	}
	statement := `UPDATE ` + table.name + ` SET data_key = $1, ` + strings.Join(columns, ", ") +
		` WHERE tenant = $2 AND ` + table.id + ` = $3 AND data_key = $4 AND ` + table.done
	err = s.Transact(ctx, func(tx *sql.Tx) error {
		count = 0
		for i := range rows {
			r := &rows[i]
			if r.fields == nil {
				continue
			}
			args := []any{key, tenant, r.id, r.key}
			for _, f := range r.fields {
				if table.binary {
					args = append(args, f)
				} else {
					args = append(args, string(f))
				}
			}
			result, err := tx.ExecContext(ctx, statement, args...)
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			count += n
		}
		return nil
	})
	return count, err
}

// keyRest is how long a key stays after its successor came: what was begun with it may still be written.
const keyRest = 24 * time.Hour

// retireKeys deletes keys that have a successor and that nothing needs.
func (s *sealing) retireKeys(ctx context.Context) error {
	old, err := s.keys.list(ctx, s.SQL(`SELECT tenant, id, master, wrapped FROM weir_data_keys k WHERE EXISTS
		(SELECT 1 FROM weir_data_keys n WHERE n.tenant = k.tenant AND n.created > k.created AND n.created < NOW - $1)`), keyRest.Microseconds())
	if err != nil {
		return err
	}
	for _, w := range old {
		needed, err := s.needsKey(ctx, w.Tenant, w.ID)
		if err != nil {
			return err
		}
		if needed {
			continue
		}
		if _, err := s.keys.Write.ExecContext(ctx, `DELETE FROM weir_data_keys WHERE tenant = $1 AND id = $2`, w.Tenant, w.ID); err != nil {
			return err
		}
	}
	return s.keys.prune(ctx)
}

// needsKey reports whether a row has a key, or a batch is under way whose answers may have it.
func (s *sealing) needsKey(ctx context.Context, tenant, id string) (needed bool, err error) {
	uses := []string{`EXISTS (SELECT 1 FROM weir_batches WHERE tenant = $1 AND ended = 0)`}
	for i := range sealedTables {
		uses = append(uses, `EXISTS (SELECT 1 FROM `+sealedTables[i].name+` WHERE tenant = $1 AND data_key = $2)`)
	}
	err = s.Read.QueryRowContext(ctx, `SELECT `+strings.Join(uses, " OR "), tenant, id).Scan(&needed)
	return needed, err
}
