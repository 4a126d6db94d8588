// Package batches keeps the records of files and batches in the store, and encrypts what of them lies in a folder.
package batches

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/api/batch"
	"weir/internal/envelope"
	"weir/internal/store"
)

const batchColumns = `id, tenant, place, input, status, created, cancelling, record, data_key`

// storedBatch is a batch as its row has it: the record is encrypted, if it has a key.
type storedBatch struct {
	batch.Batch
	record, key string
}

func scanBatch(row interface{ Scan(...any) error }) (b storedBatch, err error) {
	var created, cancelling int64
	err = row.Scan(&b.ID, &b.Tenant, &b.Place, &b.Input, &b.Status, &created, &cancelling, &b.record, &b.key)
	b.Created, b.Cancelling = store.FromMicros(created), store.FromMicros(cancelling)
	return b, err
}

// openBatch decrypts a batch's record. One whose key was destroyed is unknown.
func (s *Batches) openBatch(ctx context.Context, b storedBatch) (batch.Batch, error) {
	key, err := s.db.KeyFor(ctx, b.Tenant, b.key)
	if errors.Is(err, envelope.ErrNoKey) {
		return batch.Batch{}, batch.ErrUnknown
	}
	if err == nil {
		b.record, err = store.FieldBatchRecord.OpenText(key, b.Tenant, b.ID, b.record)
	}
	if err == nil {
		err = json.Unmarshal([]byte(b.record), &b.Batch)
	}
	return b.Batch, err
}

// openBatches leaves out those that are unknown.
func (s *Batches) openBatches(ctx context.Context, stored []storedBatch) (list []batch.Batch, err error) {
	for i := range stored {
		switch b, err := s.openBatch(ctx, stored[i]); {
		case errors.Is(err, batch.ErrUnknown):
		case err != nil:
			return nil, filesFailed(err)
		default:
			list = append(list, b)
		}
	}
	return list, nil
}

// sealBatch is a batch's record as it is stored, and the id of its key. PostgreSQL keeps no NUL, which JSON escapes.
func (s *Batches) sealBatch(ctx context.Context, b *batch.Batch) (record, id string, err error) {
	text, err := json.Marshal(b)
	if err != nil {
		return "", "", err
	}
	key, err := s.db.KeyOf(ctx, b.Tenant)
	return store.FieldBatchRecord.SealText(key, b.Tenant, b.ID, string(text)), store.KeyID(key), err
}

// AddBatch adds a batch of a file of the tenant, unless the tenant has as many unfinished ones as it may.
func (s *Batches) AddBatch(ctx context.Context, b batch.Batch, most int) error {
	record, key, err := s.sealBatch(ctx, &b)
	if err != nil {
		return filesFailed(err)
	}
	err = s.db.Transact(ctx, func(tx *sql.Tx) error {
		for _, table := range []string{"weir_files", "weir_batches"} { // in this order everywhere; the file must stay
			if err := s.db.LockTable(ctx, tx, table); err != nil {
				return err
			}
		}
		var there, unfinished int
		if err := tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM weir_files WHERE tenant = $1 AND id = $2),
			(SELECT count(*) FROM weir_batches WHERE tenant = $1 AND ended = 0)`, b.Tenant, b.Input).Scan(&there, &unfinished); err != nil {
			return err
		}
		switch {
		case there == 0:
			return batch.ErrUnknown
		case unfinished >= most:
			return batch.ErrQuota
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO weir_batches (`+batchColumns+`, ended, owner) VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $8, 0, '')`,
			b.ID, b.Tenant, b.Place, b.Input, string(b.Status), store.Micros(b.Created), record, key)
		return err
	})
	if err != nil {
		return filesFailed(err)
	}
	return nil
}

// FindBatch is a batch of the tenant.
func (s *Batches) FindBatch(ctx context.Context, tenant, id string) (batch.Batch, error) {
	if !store.Storable(id) {
		return batch.Batch{}, batch.ErrUnknown
	}
	stored, err := scanBatch(s.db.Read.QueryRowContext(ctx, `SELECT `+batchColumns+` FROM weir_batches WHERE tenant = $1 AND id = $2`, tenant, id))
	if err != nil {
		return batch.Batch{}, filesFailed(err)
	}
	b, err := s.openBatch(ctx, stored)
	if err != nil {
		return batch.Batch{}, filesFailed(err)
	}
	return b, nil
}

// Batches is a page of the tenant's batches.
func (s *Batches) Batches(ctx context.Context, tenant string, p batch.Page) (list []batch.Batch, more bool, err error) {
	after, err := s.place(ctx, "weir_batches", tenant, p)
	if err != nil {
		return nil, false, err
	}
	rows, err := s.db.Read.QueryContext(ctx, `SELECT `+batchColumns+` FROM weir_batches WHERE tenant = $1 AND substr(id, 1, $2) = $3
		AND (CAST($4 AS BIGINT) = 0 OR ended = 0 OR EXISTS (SELECT 1 FROM weir_files f WHERE f.tenant = weir_batches.tenant AND f.id = weir_batches.input
			AND (f.expires = 0 OR f.expires > CAST($4 AS BIGINT)))) AND `+pageOf(p, "$5", "$6")+` LIMIT $7`,
		tenant, len(p.Prefix), p.Prefix, store.Micros(p.Kept), after.at, after.id, p.Limit+1)
	if err != nil {
		return nil, false, filesFailed(err)
	}
	stored, more, err := page(rows, scanBatch, p.Limit)
	if err == nil {
		list, err = s.openBatches(ctx, stored)
	}
	return list, more, err
}

// Unfinished are the unfinished batches of all tenants, the oldest first.
func (s *Batches) Unfinished(ctx context.Context, most int) ([]batch.Batch, error) {
	rows, err := s.db.Read.QueryContext(ctx, `SELECT `+batchColumns+` FROM weir_batches WHERE ended = 0 ORDER BY created, id LIMIT $1`, most)
	if err != nil {
		return nil, filesFailed(err)
	}
	stored, _, err := page(rows, scanBatch, most)
	if err != nil {
		return nil, err
	}
	return s.openBatches(ctx, stored)
}

// CancelBatch notes that an unfinished batch shall end.
func (s *Batches) CancelBatch(ctx context.Context, tenant, id string, at time.Time) (batch.Batch, error) {
	if !store.Storable(id) {
		return batch.Batch{}, batch.ErrUnknown
	}
	_, err := s.db.Write.ExecContext(ctx, `UPDATE weir_batches SET cancelling = $3 WHERE tenant = $1 AND id = $2 AND ended = 0 AND cancelling = 0`,
		tenant, id, store.Micros(at))
	if err != nil {
		return batch.Batch{}, filesFailed(err)
	}
	return s.FindBatch(ctx, tenant, id)
}

// ownerless is the condition that no living process has a batch.
const ownerless = `(owner = '' OR NOT EXISTS (SELECT 1 FROM weir_owners o WHERE o.id = weir_batches.owner AND o.expires > NOW))`

// LeaseBatch takes the oldest unfinished batch of a place that no living process has, but none of some tenants, and none that is left to
// others. One statement decides, so of several processes one gets it.
func (s *Batches) LeaseBatch(ctx context.Context, place string, except, left []string) (b batch.Batch, found bool, err error) {
	var others strings.Builder
	args := []any{place}
	for _, tenant := range except {
		args = append(args, tenant)
		fmt.Fprintf(&others, ` AND tenant <> $%d`, len(args))
	}
	for _, id := range left {
		args = append(args, id)
		fmt.Fprintf(&others, ` AND id <> $%d`, len(args))
	}
	for {
		var id string
		err := s.db.Read.QueryRowContext(ctx, s.db.SQL(`SELECT id FROM weir_batches WHERE ended = 0 AND place = $1`+others.String()+` AND `+ownerless+
			` ORDER BY created, id LIMIT 1`), args...).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return b, false, nil
		}
		if err != nil {
			return b, false, filesFailed(err)
		}
		stored, err := scanBatch(s.db.Write.QueryRowContext(ctx, s.db.SQL(`UPDATE weir_batches SET owner = $2 WHERE id = $1 AND ended = 0 AND `+ownerless+
			` RETURNING `+batchColumns), id, s.db.Owner()))
		switch {
		case errors.Is(err, sql.ErrNoRows): // another process was faster
			continue
		case err != nil:
			return b, false, filesFailed(err)
		}
		b, err := s.openBatch(ctx, stored)
		if errors.Is(err, batch.ErrUnknown) { // its tenant was forgotten, and the process that did it has died
			if _, err := s.db.Write.ExecContext(ctx, `DELETE FROM weir_batches WHERE id = $1 AND owner = $2`, id, s.db.Owner()); err != nil {
				return b, false, filesFailed(err)
			}
			continue
		}
		if err != nil {
			return b, false, filesFailed(err)
		}
		return b, true, nil
	}
}

// SaveBatch writes a leased batch.
func (s *Batches) SaveBatch(ctx context.Context, b *batch.Batch) (cancelling time.Time, err error) {
	record, key, err := s.sealBatch(ctx, b)
	if err != nil {
		return cancelling, filesFailed(err)
	}
	var at int64
	err = s.db.Write.QueryRowContext(ctx, `UPDATE weir_batches SET status = $3, record = $4, data_key = $5 WHERE id = $1 AND owner = $2 AND ended = 0 RETURNING cancelling`,
		b.ID, s.db.Owner(), string(b.Status), record, key).Scan(&at)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return cancelling, batch.ErrLost
	case err != nil:
		return cancelling, filesFailed(err)
	}
	return store.FromMicros(at), nil
}

// FinishBatch writes a batch that is over, and adds its files.
func (s *Batches) FinishBatch(ctx context.Context, b *batch.Batch, files []batch.File) error {
	record, key, err := s.sealBatch(ctx, b)
	if err != nil {
		return filesFailed(err)
	}
	for i := range files {
		if err := s.sealName(ctx, &files[i]); err != nil {
			return filesFailed(err)
		}
	}
	err = s.db.Transact(ctx, func(tx *sql.Tx) error {
		for i := range files {
			if err := addFile(ctx, tx, &files[i]); err != nil {
				return err
			}
		}
		result, err := tx.ExecContext(ctx, `UPDATE weir_batches SET status = $3, record = $4, ended = $5, data_key = $6, owner = '' WHERE id = $1 AND owner = $2 AND ended = 0`,
			b.ID, s.db.Owner(), string(b.Status), record, store.Micros(b.Ended), key)
		return store.OneRow(result, err, batch.ErrLost)
	})
	if err != nil {
		return filesFailed(err)
	}
	return nil
}

// ReleaseBatch lets other processes take a batch.
func (s *Batches) ReleaseBatch(ctx context.Context, id string) error {
	if _, err := s.db.Write.ExecContext(ctx, `UPDATE weir_batches SET owner = '' WHERE id = $1 AND owner = $2`, id, s.db.Owner()); err != nil {
		return filesFailed(err)
	}
	return nil
}

// ForgetBatches deletes the tenant's batches and files, and returns the files.
func (s *Batches) ForgetBatches(ctx context.Context, tenant string) (files []batch.File, err error) {
	err = s.db.Transact(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM weir_batches WHERE tenant = $1`, tenant); err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, `DELETE FROM weir_files WHERE tenant = $1 RETURNING `+fileColumns, tenant)
		if err != nil {
			return err
		}
		files, _, err = page(rows, scanFile, 1<<31-1)
		return err
	})
	if err != nil {
		return nil, filesFailed(err)
	}
	return files, s.db.Wipe(ctx)
}

// ExpireBatches deletes batches that ended before a time.
func (s *Batches) ExpireBatches(ctx context.Context, before time.Time) error {
	_, err := s.db.Write.ExecContext(ctx, `DELETE FROM weir_batches WHERE ended > 0 AND ended < $1`, store.Micros(before))
	if err != nil {
		return filesFailed(err)
	}
	return nil
}
