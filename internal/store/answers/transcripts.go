package answers

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
	"weir/internal/store"
	"weir/telemetry/transcript"
)

var _ transcript.Log = (*Transcripts)(nil)

// Transcripts are prompts and answers of tenants that agreed to it.
type Transcripts struct{ db *store.DB }

// NewTranscripts has the transcripts of a store.
func NewTranscripts(db *store.DB) *Transcripts { return &Transcripts{db} }

// KeepTranscripts adds records, all or none.
func (s *Transcripts) KeepTranscripts(ctx context.Context, records []transcript.Record) error {
	keys, err := s.keysOf(ctx, records)
	if err == nil {
		err = s.db.Transact(ctx, func(tx *sql.Tx) error {
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
func (s *Transcripts) keysOf(ctx context.Context, records []transcript.Record) (map[string]*envelope.DataKey, error) {
	keys := map[string]*envelope.DataKey{}
	for i := range records {
		tenant := records[i].Tenant
		if keys[tenant] != nil {
			continue
		}
		if err := store.CheckText("tenant", tenant); err != nil {
			return nil, err
		}
		key, err := s.db.KeyOf(ctx, tenant)
		if err != nil {
			return nil, err
		}
		keys[tenant] = key
	}
	return keys, nil
}

func keepTranscript(ctx context.Context, tx *sql.Tx, r *transcript.Record, key *envelope.DataKey) error {
	for _, field := range []struct{ name, text string }{{"tenant", r.Tenant}, {"request", r.Request}, {"endpoint", r.Endpoint}, {"model", r.Model}} {
		if err := store.CheckText(field.name, field.text); err != nil {
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
		id, r.Tenant, r.Time.UnixMicro(), r.Request, r.Endpoint, r.Model, r.Status, store.FieldPrompts.SealText(key, r.Tenant, id, string(prompts)),
		store.FieldAnswers.SealText(key, r.Tenant, id, string(answers)), store.KeyID(key))
	return err
}

// transcriptPage is how many records are read at once; one may have megabytes.
const transcriptPage = 20

// rowPosition is where a record stands among those of its tenant.
type rowPosition struct {
	at int64
	id string
}

// Transcripts are a tenant's records, the oldest first.
func (s *Transcripts) Transcripts(ctx context.Context, tenant string) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		var last rowPosition
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

func (s *Transcripts) transcriptPage(ctx context.Context, tenant string, after rowPosition) (page []transcript.Record, last rowPosition, err error) {
	stored, err := s.storedTranscripts(ctx, tenant, after)
	if err != nil {
		return nil, last, err
	}
	for i := range stored {
		r := &stored[i]
		last = rowPosition{r.Time.UnixMicro(), r.id}
		if err := s.openTranscript(ctx, r); err != nil {
			return nil, last, err
		}
		page = append(page, r.Record)
	}
	return page, last, nil
}

func (s *Transcripts) storedTranscripts(ctx context.Context, tenant string, after rowPosition) (page []storedTranscript, err error) {
	rows, err := s.db.Read.QueryContext(ctx, `SELECT id, at, request, endpoint, model, status, prompts, answers, data_key FROM weir_transcripts
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
func (s *Transcripts) openTranscript(ctx context.Context, r *storedTranscript) error {
	key, err := s.db.KeyFor(ctx, r.Tenant, r.key)
	if errors.Is(err, envelope.ErrNoKey) {
		return nil
	}
	if err != nil {
		return err
	}
	prompts, err := store.FieldPrompts.OpenText(key, r.Tenant, r.id, r.prompts)
	if err != nil {
		return err
	}
	answers, err := store.FieldAnswers.OpenText(key, r.Tenant, r.id, r.answers)
	if err != nil {
		return err
	}
	return errors.Join(json.Unmarshal([]byte(prompts), &r.Prompts), json.Unmarshal([]byte(answers), &r.Answers))
}

// ForgetTranscripts deletes a tenant's records.
func (s *Transcripts) ForgetTranscripts(ctx context.Context, tenant string) (int64, error) {
	return s.db.Wiped(ctx, `DELETE FROM weir_transcripts WHERE id IN (SELECT id FROM weir_transcripts WHERE tenant = $1 LIMIT $2)`, tenant)
}

// ExpireTranscripts deletes the records of all tenants from before a time.
func (s *Transcripts) ExpireTranscripts(ctx context.Context, before time.Time) (int64, error) {
	return s.db.Wiped(ctx, `DELETE FROM weir_transcripts WHERE id IN (SELECT id FROM weir_transcripts WHERE at < $1 LIMIT $2)`, store.Micros(before))
}
