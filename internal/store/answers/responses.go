package answers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/api/conversation"
	"weir/internal/envelope"
	"weir/internal/store"
)

var _ conversation.Store = (*Responses)(nil)

// Responses are the responses that clients may read again and go on from.
type Responses struct {
	db    *store.DB
	bytes int64 // as of Claims; the longest unused go first
	grown storedBytes
}

// NewResponses has the responses of a store, each tenant's within so many bytes; 0: no bound.
func NewResponses(db *store.DB, bytes int64) *Responses {
	s := &Responses{db: db, bytes: bytes}
	db.OnSweep(s.sweep)
	return s
}

func responsesFailed(err error) error { return fmt.Errorf("the store of responses: %w", err) }

// ancestors are a response $2 of tenant $1 and those that it goes on from, $3 at most.
const ancestors = `WITH RECURSIVE chain (id, previous, depth) AS (
	SELECT id, previous, 1 FROM weir_responses WHERE tenant = $1 AND id = $2
	UNION ALL SELECT r.id, r.previous, c.depth + 1 FROM weir_responses r JOIN chain c ON r.id = c.previous
	WHERE r.tenant = $1 AND c.depth < $3) `

// KeepResponse implements conversation.Store.
func (s *Responses) KeepResponse(ctx context.Context, r *conversation.Response, ttl time.Duration) error {
	for _, field := range []struct{ name, text string }{{"tenant", r.Tenant}, {"id", r.ID}, {"previous response", r.Previous}, {"status", r.Status}} {
		if err := store.CheckText(field.name, field.text); err != nil {
			return err
		}
	}
	key, err := s.db.KeyOf(ctx, r.Tenant)
	if err != nil {
		return responsesFailed(err)
	}
	texts := sealed{store.FieldResponseInput.Seal(key, r.Tenant, r.ID, r.Input), store.FieldResponseObject.Seal(key, r.Tenant, r.ID, r.Object), store.KeyID(key)}
	shrunk := false
	err = s.db.Transact(ctx, func(tx *sql.Tx) (err error) {
		if r.Replaces != "" {
			shrunk, err = s.replace(ctx, tx, r, ttl, texts)
			return err
		}
		return s.insert(ctx, tx, r, ttl, texts)
	})
	if err == nil && shrunk {
		err = s.db.Wipe(ctx)
	}
	switch {
	case errors.Is(err, conversation.ErrFinished), errors.Is(err, conversation.ErrUnknown), errors.Is(err, conversation.ErrChanged):
		return err
	case err != nil:
		return responsesFailed(err)
	}
	if s.grown.add(r.Tenant, r.Bytes(), s.bytes/16) {
		if err := s.trimResponses(ctx, r.Tenant); err != nil {
			s.db.Failed(err) // the response is stored; the next one that is due trims again
		}
	}
	return nil
}

// sealed are the texts of a response, encrypted, and the key that did it.
type sealed struct {
	input, object []byte
	key           string
}

// insert adds a response, or the next state of one that is computed.
func (s *Responses) insert(ctx context.Context, tx *sql.Tx, r *conversation.Response, ttl time.Duration, texts sealed) error {
	if r.Begun {
		if err := s.begun(ctx, tx, r); err != nil {
			return err
		}
	}
	result, err := tx.ExecContext(ctx, s.db.SQL(`INSERT INTO weir_responses
		(tenant, id, previous, status, owner, used, expires, input, object, data_key) VALUES ($1, $2, $3, $4, $5, NOW, NOW + $6, $7, $8, $9)
		ON CONFLICT (tenant, id) DO UPDATE SET status = excluded.status, used = excluded.used, expires = excluded.expires,
			input = excluded.input, object = excluded.object, data_key = excluded.data_key
		WHERE weir_responses.status IN ('queued', 'in_progress')`),
		r.Tenant, r.ID, r.Previous, r.Status, s.db.Owner(), ttl.Microseconds(), texts.input, texts.object, texts.key)
	if err := store.OneRow(result, err, conversation.ErrFinished); err != nil || r.Previous == "" {
		return err
	}
	_, err = tx.ExecContext(ctx, s.db.SQL(ancestors+`UPDATE weir_responses SET used = NOW, expires = NOW + $4
		WHERE tenant = $1 AND id IN (SELECT id FROM chain)`), r.Tenant, r.Previous, conversation.MaxResponses, ttl.Microseconds())
	return err
}

// begun looks for the earlier state of a response, which another transaction cannot delete before this one ends.
func (s *Responses) begun(ctx context.Context, tx *sql.Tx, r *conversation.Response) error {
	result, err := tx.ExecContext(ctx, `UPDATE weir_responses SET id = id WHERE tenant = $1 AND id = $2`, r.Tenant, r.ID)
	return store.OneRow(result, err, conversation.ErrUnknown)
}

// replace puts a response in the place of its earlier state. shrunk: something of that one is gone.
func (s *Responses) replace(ctx context.Context, tx *sql.Tx, r *conversation.Response, ttl time.Duration, texts sealed) (shrunk bool, err error) {
	before := 0
	err = tx.QueryRowContext(ctx, s.db.SQL(`SELECT length(input) + length(object) FROM weir_responses WHERE tenant = $1 AND id = $2 AND expires > NOW`),
		r.Tenant, r.ID).Scan(&before)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, conversation.ErrUnknown
	case err != nil:
		return false, err
	}
	result, err := tx.ExecContext(ctx, s.db.SQL(`UPDATE weir_responses SET status = $4, used = NOW, expires = NOW + $5, input = $6, object = $7, data_key = $8
		WHERE tenant = $1 AND id = $2 AND status = $3`), r.Tenant, r.ID, r.Replaces, r.Status, ttl.Microseconds(), texts.input, texts.object, texts.key)
	return len(texts.input)+len(texts.object) < before, store.OneRow(result, err, conversation.ErrChanged)
}

// trimResponses deletes the longest unused responses of a tenant that has more than it may, except for those that are being computed.
func (s *Responses) trimResponses(ctx context.Context, tenant string) error {
	if s.bytes <= 0 {
		return nil
	}
	_, err := s.db.Write.ExecContext(ctx, s.db.SQL(`DELETE FROM weir_responses WHERE tenant = $1 AND id IN (
		SELECT id FROM (SELECT id, sum(length(input) + length(object) + CAST($2 AS bigint)) OVER (ORDER BY used DESC, id) AS bytes
			FROM weir_responses WHERE tenant = $1) AS sums WHERE bytes > $3)
		AND (status NOT IN ('queued', 'in_progress') OR NOT EXISTS (SELECT 1 FROM weir_owners o WHERE o.id = weir_responses.owner AND o.expires > NOW))`),
		tenant, answerRowBytes, s.bytes)
	return err
}

// responseColumns are those of a conversation.Response. One that is not finished is lost once the
// lease of its process has run out.
const responseColumns = `r.id, r.previous, r.status, r.input, r.object, r.data_key, r.status IN ('queued', 'in_progress') AND
	NOT EXISTS (SELECT 1 FROM weir_owners o WHERE o.id = r.owner AND o.expires > NOW)`

type scanner interface{ Scan(to ...any) error }

// storedResponse is a response as its row has it: encrypted, if it has a key.
type storedResponse struct {
	conversation.Response
	key string
}

func scanResponse(row scanner, tenant string) (*storedResponse, error) {
	r := &storedResponse{Response: conversation.Response{Tenant: tenant}}
	if err := row.Scan(&r.ID, &r.Previous, &r.Status, &r.Input, &r.Object, &r.key, &r.Lost); err != nil {
		return nil, err
	}
	return r, nil
}

// openResponse decrypts a response. One whose key was destroyed is unknown.
func (s *Responses) openResponse(ctx context.Context, r *storedResponse) (*conversation.Response, error) {
	key, err := s.db.KeyFor(ctx, r.Tenant, r.key)
	if errors.Is(err, envelope.ErrNoKey) {
		return nil, conversation.ErrUnknown
	}
	if err != nil {
		return nil, responsesFailed(err)
	}
	if r.Input, err = store.FieldResponseInput.Open(key, r.Tenant, r.ID, r.Input); err == nil {
		r.Object, err = store.FieldResponseObject.Open(key, r.Tenant, r.ID, r.Object)
	}
	if err != nil {
		return nil, responsesFailed(err)
	}
	return &r.Response, nil
}

// FindResponse implements conversation.Store.
func (s *Responses) FindResponse(ctx context.Context, tenant, id string) (*conversation.Response, error) {
	if !store.Storable(tenant) || !store.Storable(id) {
		return nil, conversation.ErrUnknown
	}
	r, err := scanResponse(s.db.Read.QueryRowContext(ctx, s.db.SQL(`SELECT `+responseColumns+` FROM weir_responses r
		WHERE r.tenant = $1 AND r.id = $2 AND r.expires > NOW`), tenant, id), tenant)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, conversation.ErrUnknown
	case err != nil:
		return nil, responsesFailed(err)
	}
	return s.openResponse(ctx, r)
}

// ListResponses implements conversation.Store.
func (s *Responses) ListResponses(ctx context.Context, tenant string, q conversation.Listing) ([]*conversation.Response, error) {
	if !store.Storable(tenant) || !store.Storable(q.After) {
		return nil, nil
	}
	behind, order := ">", "ASC"
	if q.Newest {
		behind, order = "<", "DESC"
	}
	rows, err := s.db.Read.QueryContext(ctx, s.db.SQL(`SELECT `+responseColumns+` FROM weir_responses r
		WHERE r.tenant = $1 AND substr(r.id, 1, CAST($2 AS integer)) = $3 AND r.expires > NOW AND (CAST($4 AS text) = '' OR (r.used, r.id) `+behind+
		` (SELECT a.used, a.id FROM weir_responses a WHERE a.tenant = $1 AND a.id = $4))
		ORDER BY r.used `+order+`, r.id `+order+` LIMIT $5`), tenant, len(q.Prefix), q.Prefix, q.After, q.Limit)
	if err != nil {
		return nil, responsesFailed(err)
	}
	stored, err := scanResponses(rows, tenant)
	var list []*conversation.Response
	for _, row := range stored {
		r, err := s.openResponse(ctx, row)
		switch {
		case errors.Is(err, conversation.ErrUnknown):
			continue
		case err != nil:
			return nil, err
		}
		list = append(list, r)
	}
	return list, err
}

// scanResponses reads rows to their end.
func scanResponses(rows *sql.Rows, tenant string) (stored []*storedResponse, err error) {
	defer rows.Close()
	for rows.Next() {
		r, err := scanResponse(rows, tenant)
		if err != nil {
			return nil, responsesFailed(err)
		}
		stored = append(stored, r)
	}
	if err := rows.Err(); err != nil {
		return nil, responsesFailed(err)
	}
	return stored, nil
}

// Conversation implements conversation.Store.
func (s *Responses) Conversation(ctx context.Context, tenant, id string) ([]*conversation.Response, error) {
	if !store.Storable(tenant) || !store.Storable(id) {
		return nil, conversation.ErrUnknown
	}
	stored, err := s.conversation(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	chain, bytes, next := make([]*conversation.Response, 0, len(stored)), int64(0), id
	for _, row := range stored {
		if row.ID != next {
			break // one between them is over
		}
		if bytes += row.Bytes(); len(chain) == conversation.MaxResponses || bytes > conversation.MaxBytes {
			return nil, conversation.ErrTooLong
		}
		r, err := s.openResponse(ctx, row)
		if errors.Is(err, conversation.ErrUnknown) {
			break
		}
		if err != nil {
			return nil, err
		}
		chain, next = append(chain, r), r.Previous
	}
	switch {
	case len(chain) == 0:
		return nil, conversation.ErrUnknown
	case next != "":
		return nil, &conversation.BrokenError{Missing: next}
	}
	slices.Reverse(chain)
	return chain, nil
}

// conversation reads a response and those that it goes on from, the last first, as far as they may be answered with.
func (s *Responses) conversation(ctx context.Context, tenant, id string) (stored []*storedResponse, err error) {
	rows, err := s.db.Read.QueryContext(ctx, s.db.SQL(ancestors+`SELECT `+responseColumns+` FROM weir_responses r JOIN chain c ON r.id = c.id
		WHERE r.tenant = $1 AND r.expires > NOW ORDER BY c.depth`), tenant, id, conversation.MaxResponses+1)
	if err != nil {
		return nil, responsesFailed(err)
	}
	defer rows.Close()
	bytes := int64(0)
	for rows.Next() && bytes <= conversation.MaxBytes {
		r, err := scanResponse(rows, tenant)
		if err != nil {
			return nil, responsesFailed(err)
		}
		stored = append(stored, r)
		bytes += r.Bytes()
	}
	if err := rows.Err(); err != nil {
		return nil, responsesFailed(err)
	}
	return stored, nil
}

// DeleteResponse implements conversation.Store.
func (s *Responses) DeleteResponse(ctx context.Context, tenant, id string) error {
	if !store.Storable(tenant) || !store.Storable(id) {
		return conversation.ErrUnknown
	}
	result, err := s.db.Write.ExecContext(ctx, s.db.SQL(`DELETE FROM weir_responses WHERE tenant = $1 AND id = $2 AND expires > NOW`), tenant, id)
	err = store.OneRow(result, err, conversation.ErrUnknown)
	switch {
	case errors.Is(err, conversation.ErrUnknown):
		return err
	case err != nil:
		return responsesFailed(err)
	}
	return s.db.Wipe(ctx)
}

// ForgetResponses implements conversation.Store.
func (s *Responses) ForgetResponses(ctx context.Context, tenant string) (int64, error) {
	return s.db.Wiped(ctx, `DELETE FROM weir_responses WHERE tenant = $1 AND id IN
		(SELECT id FROM weir_responses WHERE tenant = $1 LIMIT $2)`, tenant)
}

// sweep deletes responses whose time is over.
func (s *Responses) sweep(ctx context.Context) error {
	_, err := s.db.DeleteAll(ctx, s.db.SQL(`DELETE FROM weir_responses WHERE (tenant, id) IN
		(SELECT tenant, id FROM weir_responses WHERE expires <= NOW ORDER BY expires LIMIT $1)`))
	return err
}
