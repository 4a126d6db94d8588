package batches

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"weir/api/batch"
	"weir/internal/envelope"
	"weir/internal/store"
)

var _ batch.Store = (*Batches)(nil)

// Batches are the records of files and of the batches that read them.
type Batches struct{ db *store.DB }

// New has the files and batches of a store.
func New(db *store.DB) *Batches { return &Batches{db} }

const fileColumns = `id, tenant, place, purpose, name, bytes, created, expires, data_key`

// scanFile reads a row; the name is as it is stored.
func scanFile(row interface{ Scan(...any) error }) (f batch.File, err error) {
	var created, expires int64
	err = row.Scan(&f.ID, &f.Tenant, &f.Place, &f.Purpose, &f.Name, &f.Bytes, &created, &expires, &f.DataKey)
	f.Created, f.Expires = store.FromMicros(created), store.FromMicros(expires)
	return f, err
}

// openFile decrypts a file's name. One whose key was destroyed is unknown.
func (s *Batches) openFile(ctx context.Context, f *batch.File) error {
	key, err := s.db.KeyFor(ctx, f.Tenant, f.DataKey)
	if errors.Is(err, envelope.ErrNoKey) {
		return batch.ErrUnknown
	}
	if err == nil {
		f.Name, err = store.FieldFileName.OpenText(key, f.Tenant, f.ID, f.Name)
	}
	return err
}

func filesFailed(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return batch.ErrUnknown
	}
	for _, known := range []error{batch.ErrUnknown, batch.ErrInUse, batch.ErrQuota, batch.ErrLost} {
		if errors.Is(err, known) {
			return known
		}
	}
	return fmt.Errorf("the store of files and batches: %w", err)
}

// inUse is the condition that an unfinished batch reads a file.
const inUse = `EXISTS (SELECT 1 FROM weir_batches b WHERE b.input = weir_files.id AND b.ended = 0)`

// AddFile adds a file, unless the tenant's files hold more than most bytes with it.
func (s *Batches) AddFile(ctx context.Context, f batch.File, most int64) error {
	if err := errors.Join(store.CheckText("name", f.Name), store.CheckText("tenant", f.Tenant)); err != nil {
		return err
	}
	if err := s.sealName(ctx, &f); err != nil {
		return filesFailed(err)
	}
	err := s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := s.db.LockTable(ctx, tx, "weir_files"); err != nil {
			return err
		}
		if most > 0 {
			var held int64
			if err := tx.QueryRowContext(ctx, heldBytes, f.Tenant, batch.LeastBytes).Scan(&held); err != nil {
				return err
			}
			if held+max(f.Bytes, batch.LeastBytes) > most {
				return batch.ErrQuota
			}
		}
		return addFile(ctx, tx, &f)
	})
	if err != nil {
		return filesFailed(err)
	}
	return nil
}

// sealName encrypts a file's name with the key that encrypts its bytes, or the tenant's.
func (s *Batches) sealName(ctx context.Context, f *batch.File) error {
	key, err := s.db.KeyFor(ctx, f.Tenant, f.DataKey)
	if f.DataKey == "" {
		key, err = s.db.KeyOf(ctx, f.Tenant)
	}
	if errors.Is(err, envelope.ErrNoKey) { // forgotten while the file came
		return batch.ErrUnknown
	}
	if err == nil {
		f.DataKey, f.Name = store.KeyID(key), store.FieldFileName.SealText(key, f.Tenant, f.ID, f.Name)
	}
	return err
}

// addFile adds a file whose name is sealed.
func addFile(ctx context.Context, tx *sql.Tx, f *batch.File) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO weir_files (`+fileColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		f.ID, f.Tenant, f.Place, f.Purpose, f.Name, f.Bytes, store.Micros(f.Created), store.Micros(f.Expires), f.DataKey)
	return err
}

const heldBytes = `SELECT CAST(coalesce(sum(CASE WHEN bytes < $2 THEN $2 ELSE bytes END), 0) AS bigint) FROM weir_files WHERE tenant = $1`

// FileBytes is what the tenant's files hold.
func (s *Batches) FileBytes(ctx context.Context, tenant string) (held int64, err error) {
	if err := s.db.Read.QueryRowContext(ctx, heldBytes, tenant, int64(batch.LeastBytes)).Scan(&held); err != nil {
		return 0, filesFailed(err)
	}
	return held, nil
}

// FindFile is a file of the tenant that has not expired.
func (s *Batches) FindFile(ctx context.Context, tenant, id string, now time.Time) (batch.File, error) {
	if !store.Storable(id) {
		return batch.File{}, batch.ErrUnknown
	}
	f, err := scanFile(s.db.Read.QueryRowContext(ctx, `SELECT `+fileColumns+` FROM weir_files
		WHERE tenant = $1 AND id = $2 AND (expires = 0 OR expires > $3)`, tenant, id, store.Micros(now)))
	if err == nil {
		err = s.openFile(ctx, &f)
	}
	if err != nil {
		return f, filesFailed(err)
	}
	return f, nil
}

// Files is a page of the tenant's files that have not expired.
func (s *Batches) Files(ctx context.Context, tenant string, p batch.Page, now time.Time) (list []batch.File, more bool, err error) {
	after, err := s.place(ctx, "weir_files", tenant, p)
	if err != nil {
		return nil, false, err
	}
	rows, err := s.db.Read.QueryContext(ctx, `SELECT `+fileColumns+` FROM weir_files
		WHERE tenant = $1 AND (expires = 0 OR expires > $2) AND ($3 = '' OR purpose = $3) AND `+pageOf(p, "$4", "$5")+` LIMIT $6`,
		tenant, store.Micros(now), p.Purpose, after.at, after.id, p.Limit+1)
	if err != nil {
		return nil, false, filesFailed(err)
	}
	if list, more, err = page(rows, scanFile, p.Limit); err != nil {
		return nil, false, err
	}
	for i := range list { // a file whose key was destroyed has no name, and goes when its tenant is forgotten again
		if err := s.openFile(ctx, &list[i]); errors.Is(err, batch.ErrUnknown) {
			list[i].Name = ""
		} else if err != nil {
			return nil, false, filesFailed(err)
		}
	}
	return list, more, nil
}

// rowPosition is where a row stands among those of its tenant.
type rowPosition struct {
	at int64
	id string
}

// place is behind which row a page begins: the first one in its order where it names none.
func (s *Batches) place(ctx context.Context, table, tenant string, p batch.Page) (after rowPosition, err error) {
	if p.After == "" {
		if !p.Ascending {
			after.at = 1<<63 - 1
		}
		return after, nil
	}
	if !store.Storable(p.After) {
		return after, batch.ErrUnknown
	}
	after.id = p.After
	err = s.db.Read.QueryRowContext(ctx, `SELECT created FROM `+table+` WHERE tenant = $1 AND id = $2`, tenant, p.After).Scan(&after.at)
	if err != nil {
		return after, filesFailed(err)
	}
	return after, nil
}

// pageOf is the condition of rows behind a place, and their order.
func pageOf(p batch.Page, at, id string) string {
	if p.Ascending {
		return `(created, id) > (` + at + `, ` + id + `) ORDER BY created, id`
	}
	return `(created, id) < (` + at + `, ` + id + `) ORDER BY created DESC, id DESC`
}

// page reads at most limit rows, and whether there is one more.
func page[T any](rows *sql.Rows, scan func(interface{ Scan(...any) error }) (T, error), limit int) (list []T, more bool, err error) {
	defer func() { _ = rows.Close() }() // Err has what is wrong
	for rows.Next() {
		if len(list) == limit {
			return list, true, nil
		}
		item, err := scan(rows)
		if err != nil {
			return nil, false, filesFailed(err)
		}
		list = append(list, item)
	}
	if err := rows.Err(); err != nil {
		return nil, false, filesFailed(err)
	}
	return list, false, nil
}

// RemoveFile forgets a file that no unfinished batch reads.
func (s *Batches) RemoveFile(ctx context.Context, tenant, id string) error {
	err := s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := s.db.LockTable(ctx, tx, "weir_files"); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx, `DELETE FROM weir_files WHERE tenant = $1 AND id = $2 AND NOT `+inUse, tenant, id)
		if err := store.OneRow(result, err, batch.ErrUnknown); !errors.Is(err, batch.ErrUnknown) {
			return err
		}
		var there int
		if err := tx.QueryRowContext(ctx, `SELECT 1 FROM weir_files WHERE tenant = $1 AND id = $2`, tenant, id).Scan(&there); err != nil {
			return err
		}
		return batch.ErrInUse
	})
	if err != nil {
		return filesFailed(err)
	}
	return nil
}

// ExpireFiles forgets files of a place that have expired and that no unfinished batch reads.
func (s *Batches) ExpireFiles(ctx context.Context, place string, now time.Time, most int) ([]batch.File, error) {
	rows, err := s.db.Write.QueryContext(ctx, `DELETE FROM weir_files WHERE id IN (
			SELECT id FROM weir_files WHERE expires > 0 AND expires <= $1 AND place = $2 AND NOT `+inUse+` LIMIT $3)
		RETURNING `+fileColumns, store.Micros(now), place, most)
	if err != nil {
		return nil, filesFailed(err)
	}
	list, _, err := page(rows, scanFile, most)
	return list, err
}

// AnyFile is a file of any tenant, expired or not, without its name.
func (s *Batches) AnyFile(ctx context.Context, id string) (batch.File, error) {
	if !store.Storable(id) {
		return batch.File{}, batch.ErrUnknown
	}
	f, err := scanFile(s.db.Read.QueryRowContext(ctx, `SELECT `+fileColumns+` FROM weir_files WHERE id = $1`, id))
	if err != nil {
		return f, filesFailed(err)
	}
	f.Name = ""
	return f, nil
}

// HasBatch reports whether an unfinished batch is known, of any tenant.
func (s *Batches) HasBatch(ctx context.Context, id string) (bool, error) {
	var n int
	if !store.Storable(id) {
		return false, nil
	}
	if err := s.db.Read.QueryRowContext(ctx, `SELECT count(*) FROM weir_batches WHERE id = $1 AND ended = 0`, id).Scan(&n); err != nil {
		return false, filesFailed(err)
	}
	return n > 0, nil
}
