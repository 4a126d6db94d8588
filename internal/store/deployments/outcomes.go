package deployments

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/store"
	"weir/router/rollout"
)

var _ rollout.AnswerStore = (*Rollouts)(nil)

const (
	// keptAnswers and keptAnswersFor bound the answers that may be told of: about 200 MB, and a week.
	keptAnswers    = 1 << 20
	keptAnswersFor = 7 * 24 * time.Hour
	// answerRows is how many answers one statement writes or reads, and uncountedRows how many words are taken at once.
	answerRows    = 200
	uncountedRows = 1000
)

func answersFailed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the store of outcomes: %w", err)
}

// SaveAnswers implements rollout.AnswerStore.
func (s *Rollouts) SaveAnswers(ctx context.Context, list []rollout.StoredAnswer) error {
	for _, a := range list {
		if err := store.CheckText("rollout", a.Home); err != nil {
			return err
		}
	}
	slices.SortFunc(list, func(a, b rollout.StoredAnswer) int { return strings.Compare(a.Key, b.Key) }) // two servers lock rows in one order
	for part := range slices.Chunk(list, answerRows) {
		var keys, rows []any
		for _, a := range part {
			keys = append(keys, a.Key)
			rows = append(rows, a.Key, a.Home, int(a.Arm), a.Step, a.At.UnixMicro())
		}
		err := s.db.Transact(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `INSERT INTO weir_rollout_answers (key, home, arm, step, at) VALUES `+places(len(part), 5)+`
				ON CONFLICT (key) DO UPDATE SET home = excluded.home, arm = excluded.arm, step = excluded.step, at = excluded.at`, rows...); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `DELETE FROM weir_rollout_outcomes AS o WHERE answer IN `+places(1, len(keys))+`
				AND NOT EXISTS (SELECT 1 FROM weir_rollout_answers a WHERE a.key = o.answer AND a.home = o.home AND a.at = o.at)`, keys...)
			return err
		})
		if err != nil {
			return answersFailed(err)
		}
	}
	return nil
}

// places are parameters in rows: ($1,$2),($3,$4).
func places(rows, width int) string {
	var b strings.Builder
	for i := range rows * width {
		switch {
		case i%width != 0:
			b.WriteByte(',')
		case i > 0:
			b.WriteString("),(")
		default:
			b.WriteByte('(')
		}
		fmt.Fprintf(&b, "$%d", i+1)
	}
	b.WriteByte(')')
	return b.String()
}

// FindAnswer implements rollout.AnswerStore.
func (s *Rollouts) FindAnswer(ctx context.Context, key string) (told map[rollout.SignalKind]float64, ok bool, err error) {
	rows, err := s.db.Read.QueryContext(ctx, `SELECT o.kind, o.value FROM weir_rollout_answers a LEFT JOIN weir_rollout_outcomes o ON o.answer = a.key WHERE a.key = $1`, key)
	if err != nil {
		return nil, false, answersFailed(err)
	}
	defer func() { _ = rows.Close() }() // Err has what is wrong
	told = make(map[rollout.SignalKind]float64)
	for rows.Next() {
		var kind sql.Null[uint8]
		var value sql.NullFloat64
		if err := rows.Scan(&kind, &value); err != nil {
			return nil, false, answersFailed(err)
		}
		ok = true
		if kind.Valid {
			told[rollout.SignalKind(kind.V)] = value.Float64
		}
	}
	return told, ok, answersFailed(rows.Err())
}

// TellAnswers implements rollout.AnswerStore.
func (s *Rollouts) TellAnswers(ctx context.Context, list []rollout.StoredSignal) error {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b rollout.StoredSignal) int { return strings.Compare(a.Key, b.Key) }) // the last word of a caller stays the last
	return answersFailed(s.db.Transact(ctx, func(tx *sql.Tx) error {
		for _, w := range sorted {
			if _, err := tx.ExecContext(ctx, `INSERT INTO weir_rollout_outcomes (answer, kind, home, value, at)
				SELECT key, CAST($2 AS INTEGER), home, CAST($3 AS DOUBLE PRECISION), at FROM weir_rollout_answers WHERE key = $1
				ON CONFLICT (answer, kind) DO UPDATE SET value = excluded.value`, w.Key, int(w.Kind), w.Value); err != nil {
				return err
			}
		}
		return nil
	}))
}

// newOutcomes is what a home has not counted.
const newOutcomes = ` FROM weir_rollout_outcomes o JOIN weir_rollout_answers a ON a.key = o.answer
	WHERE o.home = $1 AND (o.counted IS NULL OR o.counted <> o.value)`

// CountOutcomes implements rollout.AnswerStore.
func (s *Rollouts) CountOutcomes(ctx context.Context, home string, at time.Time, count func([]rollout.UncountedOutcome) (rollout.StoredRecord, error)) error {
	var some int
	if err := s.db.Read.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1`+newOutcomes+` LIMIT 1) few`, home).Scan(&some); err != nil || some == 0 {
		return answersFailed(err)
	}
	return answersFailed(s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := s.db.LockTable(ctx, tx, "weir_rollout_outcomes"); err != nil {
			return err
		}
		list, err := readUncounted(ctx, tx, home)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, u := range list {
			if _, err := tx.ExecContext(ctx, `UPDATE weir_rollout_outcomes SET counted = value WHERE answer = $1 AND kind = $2`, u.Key, int(u.Kind)); err != nil {
				return err
			}
		}
		record, err := count(list)
		if err != nil {
			return err
		}
		return s.saveRollout(ctx, tx, home, at, record)
	}))
}

func readUncounted(ctx context.Context, tx *sql.Tx, home string) (list []rollout.UncountedOutcome, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT a.key, a.arm, a.step, o.kind, o.value, o.counted`+newOutcomes+` LIMIT $2`, home, uncountedRows)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err has what is wrong
	for rows.Next() {
		var arm, kind uint8
		var u rollout.UncountedOutcome
		var counted sql.NullFloat64
		if err := rows.Scan(&u.Key, &arm, &u.Step, &kind, &u.Value, &counted); err != nil {
			return nil, err
		}
		u.Arm, u.Kind = rollout.Arm(arm), rollout.SignalKind(kind)
		if counted.Valid {
			u.Before = &counted.Float64
		}
		list = append(list, u)
	}
	return list, rows.Err()
}

// ForgetRollout implements rollout.AnswerStore. Answers of a rollout that another process has stay.
func (s *Rollouts) ForgetRollout(ctx context.Context, home string) error {
	return answersFailed(s.db.Transact(ctx, func(tx *sql.Tx) error {
		for _, table := range []string{"weir_rollout_outcomes", "weir_rollout_answers"} {
			if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE home = $1 AND home NOT IN (SELECT id FROM weir_rollouts WHERE owner NOT IN ('', $2))`, home, s.db.Owner()); err != nil {
				return err
			}
		}
		return nil
	}))
}

// sweepAnswers forgets answers that are old, or too many, and what was told of them.
func (s *Rollouts) sweepAnswers(ctx context.Context) error {
	for _, table := range []string{"weir_rollout_outcomes", "weir_rollout_answers"} {
		if _, err := s.db.Write.ExecContext(ctx, s.db.SQL(`DELETE FROM `+table+` WHERE at < NOW - $1
			OR at <= (SELECT at FROM weir_rollout_answers ORDER BY at DESC LIMIT 1 OFFSET $2)`), keptAnswersFor.Microseconds(), keptAnswers); err != nil {
			return answersFailed(err)
		}
	}
	return nil
}
