package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/api/conversation"
	"weir/internal/envelope"
)

var _ conversation.Store = (*Store)(nil)

func responsesFailed(err error) error { return fmt.Errorf("the store of responses: %w", err) }

// ancestors are a response $2 of tenant $1 and those that it goes on from, $3 at most.
const ancestors = `WITH RECURSIVE chain (id, previous, depth) AS (
	SELECT id, previous, 1 FROM weir_responses WHERE tenant = $1 AND id = $2
	UNION ALL SELECT r.id, r.previous, c.depth + 1 FROM weir_responses r JOIN chain c ON r.id = c.previous
	WHERE r.tenant = $1 AND c.depth < $3) `

// KeepResponse implements conversation.Store.
func (s *Store) KeepResponse(ctx context.Context, r *conversation.Response, ttl time.Duration) error {
	for _, field := range []struct{ name, text string }{{"tenant", r.Tenant}, {"id", r.ID}, {"previous response", r.Previous}, {"status", r.Status}} {
		if err := checkText(field.name, field.text); err != nil {
			return err
		}
	}
	key, err := s.keyOf(ctx, r.Tenant)
	if err != nil {
		return responsesFailed(err)
	}
	input, object := fieldResponseInput.seal(key, r.Tenant, r.ID, r.Input), fieldResponseObject.seal(key, r.Tenant, r.ID, r.Object)
	err = s.transact(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, s.dialect.query(`INSERT INTO weir_responses
			(tenant, id, previous, status, owner, used, expires, input, object, data_key) VALUES ($1, $2, $3, $4, $5, NOW, NOW + $6, $7, $8, $9)
			ON CONFLICT (tenant, id) DO UPDATE SET status = excluded.status, used = excluded.used, expires = excluded.expires,
				input = excluded.input, object = excluded.object, data_key = excluded.data_key
			WHERE weir_responses.status IN ('queued', 'in_progress')`),
			r.Tenant, r.ID, r.Previous, r.Status, s.owner, ttl.Microseconds(), input, object, keyID(key))
		if err := oneRow(result, err, conversation.ErrFinished); err != nil || r.Previous == "" {
			return err
		}
		_, err = tx.ExecContext(ctx, s.dialect.query(ancestors+`UPDATE weir_responses SET used = NOW, expires = NOW + $4
			WHERE tenant = $1 AND id IN (SELECT id FROM chain)`), r.Tenant, r.Previous, conversation.MaxResponses, ttl.Microseconds())
		return err
	})
	switch {
	case errors.Is(err, conversation.ErrFinished):
		return err
	case err != nil:
		return responsesFailed(err)
	}
	if s.grownHistory.add(r.Tenant, r.Bytes(), s.options.HistoryBytes/16) {
		if err := s.trimResponses(ctx, r.Tenant); err != nil {
			s.options.Failed(err) // the response is stored; the next one that is due trims again
		}
	}
	return nil
}

// filled is b, which the tables do not take as null.
func filled(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// trimResponses deletes the longest unused responses of a tenant that has more than it may.
func (s *Store) trimResponses(ctx context.Context, tenant string) error {
	if s.options.HistoryBytes <= 0 {
		return nil
	}
	_, err := s.write.ExecContext(ctx, `DELETE FROM weir_responses WHERE tenant = $1 AND id IN (
		SELECT id FROM (SELECT id, sum(length(input) + length(object) + CAST($2 AS bigint)) OVER (ORDER BY used DESC, id) AS bytes
			FROM weir_responses WHERE tenant = $1) AS sums WHERE bytes > $3)`,
		tenant, answerRowBytes, s.options.HistoryBytes)
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
func (s *Store) openResponse(ctx context.Context, r *storedResponse) (*conversation.Response, error) {
	key, err := s.keyFor(ctx, r.Tenant, r.key)
	if errors.Is(err, envelope.ErrNoKey) {
		return nil, conversation.ErrUnknown
	}
	if err != nil {
		return nil, responsesFailed(err)
	}
	if r.Input, err = fieldResponseInput.open(key, r.Tenant, r.ID, r.Input); err == nil {
		r.Object, err = fieldResponseObject.open(key, r.Tenant, r.ID, r.Object)
	}
	if err != nil {
		return nil, responsesFailed(err)
	}
	return &r.Response, nil
}

// FindResponse implements conversation.Store.
func (s *Store) FindResponse(ctx context.Context, tenant, id string) (*conversation.Response, error) {
	if !storable(tenant) || !storable(id) {
		return nil, conversation.ErrUnknown
	}
	r, err := scanResponse(s.read.QueryRowContext(ctx, s.dialect.query(`SELECT `+responseColumns+` FROM weir_responses r
		WHERE r.tenant = $1 AND r.id = $2 AND r.expires > NOW`), tenant, id), tenant)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, conversation.ErrUnknown
	case err != nil:
		return nil, responsesFailed(err)
	}
	return s.openResponse(ctx, r)
}

// Conversation implements conversation.Store.
func (s *Store) Conversation(ctx context.Context, tenant, id string) ([]*conversation.Response, error) {
	if !storable(tenant) || !storable(id) {
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
func (s *Store) conversation(ctx context.Context, tenant, id string) (stored []*storedResponse, err error) {
	rows, err := s.read.QueryContext(ctx, s.dialect.query(ancestors+`SELECT `+responseColumns+` FROM weir_responses r JOIN chain c ON r.id = c.id
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
func (s *Store) DeleteResponse(ctx context.Context, tenant, id string) error {
	if !storable(tenant) || !storable(id) {
		return conversation.ErrUnknown
	}
	result, err := s.write.ExecContext(ctx, s.dialect.query(`DELETE FROM weir_responses WHERE tenant = $1 AND id = $2 AND expires > NOW`), tenant, id)
	err = oneRow(result, err, conversation.ErrUnknown)
	switch {
	case errors.Is(err, conversation.ErrUnknown):
		return err
	case err != nil:
		return responsesFailed(err)
	}
	return s.wipe(ctx)
}

// ForgetResponses implements conversation.Store.
func (s *Store) ForgetResponses(ctx context.Context, tenant string) (int64, error) {
	return s.deleteRows(ctx, `DELETE FROM weir_responses WHERE tenant = $1 AND id IN
		(SELECT id FROM weir_responses WHERE tenant = $1 LIMIT $2)`, tenant)
}

// sweepResponses deletes responses whose time is over.
func (s *Store) sweepResponses(ctx context.Context) error {
	for {
		result, err := s.write.ExecContext(ctx, s.dialect.query(`DELETE FROM weir_responses WHERE (tenant, id) IN
			(SELECT tenant, id FROM weir_responses WHERE expires <= NOW ORDER BY expires LIMIT $1)`), sweepRows)
		if err != nil {
			return err
		}
		if deleted, err := result.RowsAffected(); err != nil || deleted < sweepRows {
			return err
		}
	}
}
