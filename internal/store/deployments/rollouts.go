package deployments

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"weir/internal/store"
	"weir/router/rollout"
)

// Rollouts are the rollouts and the answers of their arms.
type Rollouts struct {
	db      *store.DB
	records *Records // of the servers that may have a rollout
}

// NewRollouts has the rollouts of a store.
func NewRollouts(records *Records) *Rollouts {
	s := &Rollouts{records.db, records}
	s.db.OnSweep(s.sweepAnswers)
	return s
}

// keptRollouts is how many records of rollouts are kept; the oldest go first.
const keptRollouts = 1000

// SaveRollout implements rollout.AnswerStore. at is when the rollout changed last.
func (s *Rollouts) SaveRollout(ctx context.Context, id string, at time.Time, r rollout.StoredRecord) error {
	if err := store.CheckText("id", id); err != nil {
		return err
	}
	err := s.db.Transact(ctx, func(tx *sql.Tx) error { return s.saveRollout(ctx, tx, id, at, r) })
	if err != nil {
		return fmt.Errorf("the store of rollouts: %w", err)
	}
	return nil
}

// saveRollout writes a record that is new or this process's. A rollout that an operator replaces is over for the server that had it.
func (s *Rollouts) saveRollout(ctx context.Context, tx *sql.Tx, id string, at time.Time, r rollout.StoredRecord) error {
	result, err := tx.ExecContext(ctx, `INSERT INTO weir_rollouts (id, at, record, owner) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET at = excluded.at, record = excluded.record, owner = excluded.owner WHERE weir_rollouts.owner = excluded.owner OR $5`,
		id, at.UnixMicro(), string(r.JSON), s.db.Owner(), r.State == rollout.Replaced)
	if err != nil {
		return err
	}
	switch n, err := result.RowsAffected(); {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("%w %s", rollout.ErrElsewhere, id)
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM weir_rollouts WHERE id IN
		(SELECT id FROM weir_rollouts ORDER BY at DESC, id DESC LIMIT 1000000 OFFSET $1)`, keptRollouts)
	return err
}

// TakeRollout makes a rollout this process's, where no living one has it; false: one has, or there is no such rollout. The processes that listened on
// this one's address before are dead, whatever their leases say.
func (s *Rollouts) TakeRollout(ctx context.Context, id, instance string) (taken bool, err error) {
	servers, err := s.records.Servers(ctx)
	if err != nil {
		return false, fmt.Errorf("the store of rollouts: %w", err)
	}
	dead := []string{""} // a record of an older weir has no owner
	for _, d := range servers {
		if d.Instance == instance && !d.Own {
			dead = append(dead, d.Owner)
		}
	}
	for _, before := range dead {
		result, err := s.db.Write.ExecContext(ctx, s.db.SQL(`UPDATE weir_rollouts SET owner = $2 WHERE id = $1
			AND (owner IN ($2, $3) OR owner NOT IN (SELECT id FROM weir_owners WHERE expires > NOW))`), id, s.db.Owner(), before)
		if err != nil {
			return false, fmt.Errorf("the store of rollouts: %w", err)
		}
		if n, err := result.RowsAffected(); n > 0 || err != nil {
			return err == nil, err
		}
	}
	return false, nil
}

// Rollout is the record of an id; nil: there is none.
func (s *Rollouts) Rollout(ctx context.Context, id string) ([]byte, error) {
	var record string
	err := s.db.Read.QueryRowContext(ctx, `SELECT record FROM weir_rollouts WHERE id = $1`, id).Scan(&record)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the store of rollouts: %w", err)
	}
	return []byte(record), nil
}

// Rollouts are the records that are kept, the one that changed longest ago first.
func (s *Rollouts) Rollouts(ctx context.Context) (list [][]byte, err error) {
	rows, err := s.db.Read.QueryContext(ctx, `SELECT record FROM weir_rollouts ORDER BY at, id`)
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
