package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// keptRollouts is how many records of rollouts are kept; the oldest go first.
const keptRollouts = 1000

// SaveRollout keeps a rollout's record under its id, in place of the one that was there.
// at is when the rollout changed last.
func (s *Store) SaveRollout(ctx context.Context, id string, at time.Time, record []byte) error {
	if err := checkText("id", id); err != nil {
		return err
	}
	err := s.transact(ctx, func(tx *sql.Tx) error { return saveRollout(ctx, tx, id, at, record) })
	if err != nil {
		return fmt.Errorf("the store of rollouts: %w", err)
	}
	return nil
}

func saveRollout(ctx context.Context, tx *sql.Tx, id string, at time.Time, record []byte) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO weir_rollouts (id, at, record) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET at = excluded.at, record = excluded.record`, id, at.UnixMicro(), string(record)); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM weir_rollouts WHERE id IN
		(SELECT id FROM weir_rollouts ORDER BY at DESC, id DESC LIMIT 1000000 OFFSET $1)`, keptRollouts)
	return err
}

// Rollout is the record of an id; nil: there is none.
func (s *Store) Rollout(ctx context.Context, id string) ([]byte, error) {
	var record string
	err := s.read.QueryRowContext(ctx, `SELECT record FROM weir_rollouts WHERE id = $1`, id).Scan(&record)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the store of rollouts: %w", err)
	}
	return []byte(record), nil
}

// Rollouts are the records that are kept, the one that changed longest ago first.
func (s *Store) Rollouts(ctx context.Context) (list [][]byte, err error) {
	rows, err := s.read.QueryContext(ctx, `SELECT record FROM weir_rollouts ORDER BY at, id`)
	if err != nil {
		return nil, fmt.Errorf("the store of rollouts: %w", err)
	}
	defer func() { _ = rows.Close() }() // Err has what is wrong
	for rows.Next() {
		var record string
		if err := rows.Scan(&record); err != nil {
			return nil, fmt.Errorf("the store of rollouts: %w", err)
		}
		list = append(list, []byte(record))
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("the store of rollouts: %w", err)
	}
	return list, nil
}
