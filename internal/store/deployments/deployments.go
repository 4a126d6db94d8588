// Package deployments keeps in the store which version of a model servers shall answer with, who answers with which part of it, rollouts
// under way, and the answers of rollouts whose outcomes may be told later.
package deployments

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/store"
	"weir/router/deployment"
	"weir/telemetry/audit"
)

// auditLog is the log that has a change beside the record that it changes, in one transaction.
type auditLog interface {
	AppendWithin(ctx context.Context, tx *sql.Tx, c *audit.Change) (*audit.Entry, error)
	NoteHead(e *audit.Entry)
}

var _ deployment.Store = (*Records)(nil)

// Records are the deployments, what servers observe of them, the servers and the parts that they have.
type Records struct {
	db  *store.DB
	log auditLog
}

// NewRecords has the deployments of a store whose audit log is log.
func NewRecords(db *store.DB, log auditLog) *Records {
	s := &Records{db, log}
	db.OnSweep(s.sweepObserved)
	db.OnSweep(s.sweepServers)
	return s
}

// DeploymentRevision implements deployment.Store.
func (s *Records) DeploymentRevision(ctx context.Context) (revision int64, err error) {
	err = s.db.Read.QueryRowContext(ctx, `SELECT COALESCE(max(revision), 0) FROM weir_deployments`).Scan(&revision)
	return revision, deploymentsFailed(err)
}

func deploymentsFailed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the store of deployments: %w", err)
}

// Deployments implements deployment.Store.
func (s *Records) Deployments(ctx context.Context) ([]deployment.Record, error) {
	return records[deployment.Record](ctx, s, `SELECT record FROM weir_deployments WHERE deleted = 0 ORDER BY model`)
}

// Deployment is the record of a model, if there is one.
func (s *Records) Deployment(ctx context.Context, model string) (r deployment.Record, ok bool, err error) {
	if store.CheckText("model", model) != nil {
		return r, false, nil //nolint:nilerr // no record has such a name
	}
	list, err := records[deployment.Record](ctx, s, `SELECT record FROM weir_deployments WHERE deleted = 0 AND model = $1`, model)
	if err != nil || len(list) == 0 {
		return r, false, err
	}
	return list[0], true, nil
}

// Observations implements deployment.Store. A server that was killed and has come back under its address is shown with
// what it sees now only.
func (s *Records) Observations(ctx context.Context) ([]deployment.Observation, error) {
	return s.observations(ctx, `ORDER BY at DESC`)
}

// ObservationsOf are those of a model.
func (s *Records) ObservationsOf(ctx context.Context, model string) ([]deployment.Observation, error) {
	if store.CheckText("model", model) != nil {
		return nil, nil //nolint:nilerr // no server has such a model
	}
	return s.observations(ctx, `AND model = $1 ORDER BY at DESC`, model)
}

func (s *Records) observations(ctx context.Context, which string, args ...any) ([]deployment.Observation, error) {
	list, err := records[deployment.Observation](ctx, s, s.db.SQL(`SELECT record FROM weir_deployments_observed
		WHERE owner IN (SELECT id FROM weir_owners WHERE expires > NOW) `+which), args...)
	if err != nil {
		return nil, err
	}
	seen := make(map[[2]string]bool)
	list = slices.DeleteFunc(list, func(o deployment.Observation) bool {
		key := [2]string{o.Model, o.Instance}
		defer func() { seen[key] = true }()
		return seen[key]
	})
	slices.SortFunc(list, func(a, b deployment.Observation) int {
		return cmp.Or(strings.Compare(a.Model, b.Model), strings.Compare(a.Instance, b.Instance))
	})
	return list, nil
}

// records reads a column of JSON.
func records[T any](ctx context.Context, s *Records, query string, args ...any) (list []T, err error) {
	rows, err := s.db.Read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, deploymentsFailed(err)
	}
	defer func() { _ = rows.Close() }() // Err has what is wrong
	for rows.Next() {
		var text string
		var value T
		if err := rows.Scan(&text); err != nil {
			return nil, deploymentsFailed(err)
		}
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return nil, deploymentsFailed(err)
		}
		list = append(list, value)
	}
	return list, deploymentsFailed(rows.Err())
}

// ChangeDeployment implements deployment.Store.
func (s *Records) ChangeDeployment(ctx context.Context, model string, f func(old *deployment.Record) (*deployment.Record, error)) error {
	return s.NoteDeployment(ctx, model, func(old *deployment.Record, _ int64) (*deployment.Record, *audit.Change, error) {
		next, err := f(old)
		return next, nil, err
	})
}

// NoteDeployment is ChangeDeployment for what somebody asks for: in one transaction the record is changed and the change that f
// returns beside it is added to the audit log, or neither. nil is no entry. last is at least the generation of all records that the
// model had and has no more: a new one begins after it.
func (s *Records) NoteDeployment(ctx context.Context, model string, f func(old *deployment.Record, last int64) (*deployment.Record, *audit.Change, error)) error {
	if err := store.CheckText("model", model); err != nil {
		return err
	}
	var entry *audit.Entry
	err := s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := s.db.LockTable(ctx, tx, "weir_deployments"); err != nil {
			return deploymentsFailed(err)
		}
		old, err := findDeployment(ctx, tx, model)
		if err != nil {
			return deploymentsFailed(err)
		}
		last, err := lastGeneration(ctx, tx, model)
		if err != nil {
			return deploymentsFailed(err)
		}
		next, change, err := f(old, last)
		if err != nil {
			return err
		}
		if err := writeDeployment(ctx, tx, model, old, next); err != nil || change == nil {
			return deploymentsFailed(err)
		}
		entry, err = s.log.AppendWithin(ctx, tx, change)
		return err
	})
	if err == nil && entry != nil {
		s.log.NoteHead(entry)
	}
	return err
}

func findDeployment(ctx context.Context, tx *sql.Tx, model string) (*deployment.Record, error) {
	var text string
	err := tx.QueryRowContext(ctx, `SELECT record FROM weir_deployments WHERE model = $1 AND deleted = 0`, model).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	if err != nil {
		return nil, err
	}
	r := new(deployment.Record)
	return r, json.Unmarshal([]byte(text), r)
}

// lastGeneration bounds the generations of the records of a model that were deleted. Each generation took a revision of its own, so
// that of the deletion is above them all; 0: none was deleted.
func lastGeneration(ctx context.Context, tx *sql.Tx, model string) (last int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT COALESCE(max(revision), 0) FROM weir_deployments WHERE model = $1 AND deleted <> 0`, model).Scan(&last)
	return last, err
}

// writeDeployment puts next in the place of old, either of which may be none.
func writeDeployment(ctx context.Context, tx *sql.Tx, model string, old, next *deployment.Record) error {
	if old == nil && next == nil {
		return nil
	}
	text, deleted := []byte("{}"), time.Now().UnixMicro()
	if next != nil {
		var err error
		if text, err = json.Marshal(next); err != nil {
			return err
		}
		deleted = 0
	}
	if old != nil && next != nil {
		was, err := json.Marshal(old)
		if err != nil || bytes.Equal(was, text) {
			return err
		}
	}
	if old == nil {
		var count int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM weir_deployments WHERE deleted = 0`).Scan(&count); err != nil {
			return err
		}
		if count >= deployment.MaxRecords {
			return deployment.ErrAtMost
		}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO weir_deployments (model, record, revision, deleted)
		VALUES ($1, $2, (SELECT COALESCE(max(revision), 0) + 1 FROM weir_deployments), $3)
		ON CONFLICT (model) DO UPDATE SET record = excluded.record, revision = excluded.revision, deleted = excluded.deleted`,
		model, string(text), deleted)
	return err
}

// Observe implements deployment.Store.
func (s *Records) Observe(ctx context.Context, o deployment.Observation) error {
	if err := store.CheckText("model", o.Model); err != nil {
		return err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = s.db.Write.ExecContext(ctx, s.db.SQL(`INSERT INTO weir_deployments_observed (model, owner, record, at) VALUES ($1, $2, $3, NOW)
		ON CONFLICT (model, owner) DO UPDATE SET record = excluded.record, at = excluded.at`), o.Model, s.db.Owner(), string(text))
	return deploymentsFailed(err)
}

// Unobserve implements deployment.Store.
func (s *Records) Unobserve(ctx context.Context, model string) error {
	_, err := s.db.Write.ExecContext(ctx, `DELETE FROM weir_deployments_observed WHERE model = $1 AND owner = $2`, model, s.db.Owner())
	return deploymentsFailed(err)
}

// sweepObserved forgets what servers saw that are gone. One that was only slow, and has lost its lease, may come back.
func (s *Records) sweepObserved(ctx context.Context) error {
	_, err := s.db.Write.ExecContext(ctx, `DELETE FROM weir_deployments_observed WHERE owner NOT IN (SELECT id FROM weir_owners)`)
	return err
}
