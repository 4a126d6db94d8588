package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/api/conversation"
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
	err := s.transact(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, s.dialect.query(`INSERT INTO weir_responses
			(tenant, id, previous, status, owner, used, expires, input, object) VALUES ($1, $2, $3, $4, $5, NOW, NOW + $6, $7, $8)
			ON CONFLICT (tenant, id) DO UPDATE SET status = excluded.status, used = excluded.used, expires = excluded.expires,
				input = excluded.input, object = excluded.object
			WHERE weir_responses.status IN ('queued', 'in_progress')`),
			r.Tenant, r.ID, r.Previous, r.Status, s.owner, ttl.Microseconds(), filled(r.Input), filled(r.Object))
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
const responseColumns = `r.id, r.previous, r.status, r.input, r.object, r.status IN ('queued', 'in_progress') AND
	NOT EXISTS (SELECT 1 FROM weir_owners o WHERE o.id = r.owner AND o.expires > NOW)`

type scanner interface{ Scan(to ...any) error }

func scanResponse(row scanner, tenant string) (*conversation.Response, error) {
	r := &conversation.Response{Tenant: tenant}
	if err := row.Scan(&r.ID, &r.Previous, &r.Status, &r.Input, &r.Object, &r.Lost); err != nil {
		return nil, err
	}
	return r, nil
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
	return r, nil
}

// Conversation implements conversation.Store.
func (s *Store) Conversation(ctx context.Context, tenant, id string) ([]*conversation.Response, error) {
	if !storable(tenant) || !storable(id) {
		return nil, conversation.ErrUnknown
	}
	rows, err := s.read.QueryContext(ctx, s.dialect.query(ancestors+`SELECT `+responseColumns+` FROM weir_responses r JOIN chain c ON r.id = c.id
		WHERE r.tenant = $1 AND r.expires > NOW ORDER BY c.depth`), tenant, id, conversation.MaxResponses+1)
	if err != nil {
		return nil, responsesFailed(err)
	}
	defer rows.Close()
	var chain []*conversation.Response
	bytes, next := int64(0), id
	for rows.Next() {
		r, err := scanResponse(rows, tenant)
		if err != nil {
			return nil, responsesFailed(err)
		}
		if r.ID != next {
			break // one between them is over
		}
		chain, next = append(chain, r), r.Previous
		if bytes += r.Bytes(); len(chain) > conversation.MaxResponses || bytes > conversation.MaxBytes {
			return nil, conversation.ErrTooLong
		}
	}
	switch err := rows.Err(); {
	case err != nil:
		return nil, responsesFailed(err)
	case chain == nil:
		return nil, conversation.ErrUnknown
	case next != "":
		return nil, &conversation.BrokenError{Missing: next}
	}
	slices.Reverse(chain)
	return chain, nil
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
