package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"weir/internal/envelope"
	"weir/telemetry/transcript"
)

// KeepTranscripts adds records, all or none.
func (s *Store) KeepTranscripts(ctx context.Context, records []transcript.Record) error {
	keys, err := s.keysOf(ctx, records)
	if err == nil {
		err = s.transact(ctx, func(tx *sql.Tx) error {
			for i := range records {
				if err := keepTranscript(ctx, tx, &records[i], keys[records[i].Tenant]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("the store of prompts and answers: %w", err)
	}
	return nil
}

// keysOf are the keys of the tenants that have records.
func (s *Store) keysOf(ctx context.Context, records []transcript.Record) (map[string]*envelope.DataKey, error) {
	keys := map[string]*envelope.DataKey{}
	for i := range records {
		tenant := records[i].Tenant
		if keys[tenant] != nil {
			continue
		}
		if err := checkText("tenant", tenant); err != nil {
			return nil, err
		}
		key, err := s.keyOf(ctx, tenant)
		if err != nil {
			return nil, err
		}
		keys[tenant] = key
	}
	return keys, nil
}

func keepTranscript(ctx context.Context, tx *sql.Tx, r *transcript.Record, key *envelope.DataKey) error {
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
	id := rand.Text()
	_, err = tx.ExecContext(ctx, `INSERT INTO weir_transcripts (id, tenant, at, request, endpoint, model, status, prompts, answers, data_key)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		id, r.Tenant, r.Time.UnixMicro(), r.Request, r.Endpoint, r.Model, r.Status, fieldPrompts.sealText(key, r.Tenant, id, string(prompts)),
		fieldAnswers.sealText(key, r.Tenant, id, string(answers)), keyID(key))
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

// storedTranscript is a record as its row has it: encrypted, if it has a key.
type storedTranscript struct {
	transcript.Record
	id, key, prompts, answers string
}

func (s *Store) transcriptPage(ctx context.Context, tenant string, after place) (page []transcript.Record, last place, err error) {
	stored, err := s.storedTranscripts(ctx, tenant, after)
	if err != nil {
		return nil, last, err
	}
	for i := range stored {
		r := &stored[i]
		last = place{r.Time.UnixMicro(), r.id}
		if err := s.openTranscript(ctx, r); err != nil {
			return nil, last, err
		}
		page = append(page, r.Record)
	}
	return page, last, nil
}

func (s *Store) storedTranscripts(ctx context.Context, tenant string, after place) (page []storedTranscript, err error) {
	rows, err := s.read.QueryContext(ctx, `SELECT id, at, request, endpoint, model, status, prompts, answers, data_key FROM weir_transcripts
		WHERE tenant = $1 AND (at, id) > ($2, $3) ORDER BY at, id LIMIT $4`, tenant, after.at, after.id, transcriptPage)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r := storedTranscript{Record: transcript.Record{Tenant: tenant}}
		var at int64
		if err := rows.Scan(&r.id, &at, &r.Request, &r.Endpoint, &r.Model, &r.Status, &r.prompts, &r.answers, &r.key); err != nil {
			return nil, err
		}
		r.Time = time.UnixMicro(at).UTC()
		page = append(page, r)
	}
	return page, rows.Err()
}

// openTranscript decrypts the texts of a record. One whose key was destroyed has none.
func (s *Store) openTranscript(ctx context.Context, r *storedTranscript) error {
	key, err := s.keyFor(ctx, r.Tenant, r.key)
	if errors.Is(err, envelope.ErrNoKey) {
		return nil
	}
	if err != nil {
		return err
	}
	prompts, err := fieldPrompts.openText(key, r.Tenant, r.id, r.prompts)
	if err != nil {
		return err
	}
	answers, err := fieldAnswers.openText(key, r.Tenant, r.id, r.answers)
	if err != nil {
		return err
	}
	return errors.Join(json.Unmarshal([]byte(prompts), &r.Prompts), json.Unmarshal([]byte(answers), &r.Answers))
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
