package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"weir/telemetry/transcript"
)

// KeepTranscripts adds records, all or none.
func (s *Store) KeepTranscripts(ctx context.Context, records []transcript.Record) error {
	err := s.transact(ctx, func(tx *sql.Tx) error {
		for i := range records {
			if err := keepTranscript(ctx, tx, &records[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the store of prompts and answers: %w", err)
	}
	return nil
}

func keepTranscript(ctx context.Context, tx *sql.Tx, r *transcript.Record) error {
	for _, field := range []struct{ name, text string }{{"tenant", r.Tenant}, {"request", r.Request}, {"endpoint", r.Endpoint}, {"model", r.Model}} {
		if err := checkText(field.name, field.text); err != nil {
			return err
		}
	}
	prompts, err := json.Marshal(r.Prompts)
	if err != nil {
		return err
	}
	answers, err := json.Marshal(r.Answers)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO weir_transcripts (id, tenant, at, request, endpoint, model, status, prompts, answers)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		rand.Text(), r.Tenant, r.Time.UnixMicro(), r.Request, r.Endpoint, r.Model, r.Status, string(prompts), string(answers))
	return err
}

// transcriptPage is how many records are read at once; one may have megabytes.
const transcriptPage = 20

// place is where a record stands among those of its tenant.
type place struct {
	at int64
	id string
}

// Transcripts are a tenant's records, the oldest first.
func (s *Store) Transcripts(ctx context.Context, tenant string) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		var last place
		for {
			page, next, err := s.transcriptPage(ctx, tenant, last)
			if err != nil {
				yield(transcript.Record{}, fmt.Errorf("the store of prompts and answers: %w", err))
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
			}
			if len(page) < transcriptPage {
				return
			}
			last = next
		}
	}
}

func (s *Store) transcriptPage(ctx context.Context, tenant string, after place) (page []transcript.Record, last place, err error) {
	rows, err := s.read.QueryContext(ctx, `SELECT id, at, request, endpoint, model, status, prompts, answers FROM weir_transcripts
		WHERE tenant = $1 AND (at, id) > ($2, $3) ORDER BY at, id LIMIT $4`, tenant, after.at, after.id, transcriptPage)
	if err != nil {
		return nil, last, err
	}
	defer rows.Close()
	for rows.Next() {
		r := transcript.Record{Tenant: tenant}
		var prompts, answers []byte
		if err := rows.Scan(&last.id, &last.at, &r.Request, &r.Endpoint, &r.Model, &r.Status, &prompts, &answers); err != nil {
			return nil, last, err
		}
		r.Time = time.UnixMicro(last.at).UTC()
		if err := json.Unmarshal(prompts, &r.Prompts); err != nil {
			return nil, last, err
		}
		if err := json.Unmarshal(answers, &r.Answers); err != nil {
			return nil, last, err
		}
		page = append(page, r)
	}
	return page, last, rows.Err()
}

// ForgetTranscripts deletes a tenant's records.
func (s *Store) ForgetTranscripts(ctx context.Context, tenant string) (int64, error) {
	return s.deleteRows(ctx, `DELETE FROM weir_transcripts WHERE id IN (SELECT id FROM weir_transcripts WHERE tenant = $1 LIMIT $2)`, tenant)
}

// ExpireTranscripts deletes the records of all tenants from before a time.
func (s *Store) ExpireTranscripts(ctx context.Context, before time.Time) (int64, error) {
	return s.deleteRows(ctx, `DELETE FROM weir_transcripts WHERE id IN (SELECT id FROM weir_transcripts WHERE at < $1 LIMIT $2)`, micros(before))
}

// ForgetAnswers deletes the answers that are stored for a tenant's idempotency keys, with
// the keys: a repetition executes again. Keys in flight stay.
func (s *Store) ForgetAnswers(ctx context.Context, tenant string) (int64, error) {
	return s.deleteRows(ctx, `DELETE FROM weir_replay WHERE (tenant, key) IN
		(SELECT tenant, key FROM weir_replay WHERE tenant = $1 AND answer IS NOT NULL LIMIT $2)`, tenant)
}

// deleteRows deletes what a statement finds, sweepRows at a time, so that others get to
// write between.
func (s *Store) deleteRows(ctx context.Context, statement string, which any) (deleted int64, err error) {
	for {
		result, err := s.write.ExecContext(ctx, statement, which, sweepRows)
		if err != nil {
			return deleted, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return deleted, err
		}
		if deleted += n; n < sweepRows {
			return deleted, s.wipe(ctx)
		}
	}
}

// wipe empties SQLite's log, in which rows that were deleted would stay for a while. In
// the file itself they are overwritten (secure_delete). A reader that is at work puts
// the emptying off to a later checkpoint. PostgreSQL has autovacuum.
func (s *Store) wipe(ctx context.Context) error {
	if s.dialect != sqliteDialect {
		return nil
	}
	_, err := s.write.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return err
}
