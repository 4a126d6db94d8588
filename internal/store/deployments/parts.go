package deployments

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"weir/router/deployment"
)

// Announce implements deployment.Store.
func (s *Records) Announce(ctx context.Context, d deployment.Server) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	_, err = s.db.Write.ExecContext(ctx, `INSERT INTO weir_servers (owner, record) VALUES ($1, $2)
		ON CONFLICT (owner) DO UPDATE SET record = excluded.record`, s.db.Owner(), string(text))
	return deploymentsFailed(err)
}

// Servers implements deployment.Store.
func (s *Records) Servers(ctx context.Context) ([]deployment.Server, error) {
	rows, err := s.db.Read.QueryContext(ctx, s.db.SQL(`SELECT owner, record FROM weir_servers
		WHERE owner IN (SELECT id FROM weir_owners WHERE expires > NOW) ORDER BY owner`))
	if err != nil {
		return nil, deploymentsFailed(err)
	}
	defer func() { _ = rows.Close() }() // Err has what is wrong
	var list []deployment.Server
	for rows.Next() {
		var owner, text string
		var d deployment.Server
		if err := rows.Scan(&owner, &text); err != nil {
			return nil, deploymentsFailed(err)
		}
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			return nil, deploymentsFailed(fmt.Errorf("what the server %s says of itself: %w", owner, err))
		}
		d.Owner, d.Own = owner, owner == s.db.Owner()
		list = append(list, d)
	}
	return list, deploymentsFailed(rows.Err())
}

// Parts implements deployment.Store.
func (s *Records) Parts(ctx context.Context) ([]deployment.Part, error) {
	rows, err := s.db.Read.QueryContext(ctx, s.db.SQL(`SELECT model, part, owner FROM weir_deployment_parts
		WHERE owner = $1 OR owner IN (SELECT id FROM weir_owners WHERE expires > NOW) ORDER BY model, part`), s.db.Owner())
	if err != nil {
		return nil, deploymentsFailed(err)
	}
	defer func() { _ = rows.Close() }() // Err has what is wrong
	var list []deployment.Part
	for rows.Next() {
		var p deployment.Part
		if err := rows.Scan(&p.Model, &p.Number, &p.Owner); err != nil {
			return nil, deploymentsFailed(err)
		}
		p.Own = p.Owner == s.db.Owner()
		list = append(list, p)
	}
	return list, deploymentsFailed(rows.Err())
}

// TakePart implements deployment.Store. The lock keeps other takers off, so that a server has one part of a model, and a part one
// server. A lease that ran out is not renewed by the taking: who has lost its lease takes nothing.
func (s *Records) TakePart(ctx context.Context, model string, generation int64) (taken bool, err error) {
	err = s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := s.db.LockTable(ctx, tx, "weir_deployment_parts"); err != nil {
			return err
		}
		r, err := findDeployment(ctx, tx, model)
		if err != nil || r == nil || r.Generation != generation || r.Placement == nil {
			return err
		}
		taken, err = s.freePart(ctx, tx, model, r.Placement.Replicas)
		return err
	})
	return taken && err == nil, deploymentsFailed(err)
}

// freePart takes the first part whose holder is gone, unless this server has one.
func (s *Records) freePart(ctx context.Context, tx *sql.Tx, model string, parts int) (taken bool, err error) {
	count := func(query string) (n int, err error) {
		return n, tx.QueryRowContext(ctx, s.db.SQL(`SELECT count(*) FROM weir_deployment_parts WHERE model = $1 AND part <= $2 AND `+query), model, parts, s.db.Owner()).Scan(&n)
	}
	if n, err := count(`owner = $3`); err != nil || n > 0 {
		return n > 0, err
	}
	if n, err := count(`owner <> $3 AND owner IN (SELECT id FROM weir_owners WHERE expires > NOW)`); err != nil || n >= parts {
		return false, err
	}
	for _, forget := range []string{
		`DELETE FROM weir_deployment_parts WHERE model = $1 AND owner = $2`,
		`DELETE FROM weir_deployment_parts WHERE model = $1 AND owner <> $2 AND owner NOT IN (SELECT id FROM weir_owners WHERE expires > NOW)`,
	} {
		if _, err := tx.ExecContext(ctx, s.db.SQL(forget), model, s.db.Owner()); err != nil {
			return false, err
		}
	}
	result, err := tx.ExecContext(ctx, s.db.SQL(`INSERT INTO weir_deployment_parts (model, part, owner)
		SELECT $1, 1 + (SELECT min(n) FROM (SELECT 0 AS n UNION ALL SELECT part FROM weir_deployment_parts WHERE model = $1) AS taken
			WHERE NOT EXISTS (SELECT 1 FROM weir_deployment_parts p WHERE p.model = $1 AND p.part = taken.n + 1)), $2
		FROM weir_owners WHERE id = $2 AND expires > NOW`), model, s.db.Owner())
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows == 1, err
}

// LeavePart implements deployment.Store.
func (s *Records) LeavePart(ctx context.Context, model string) error {
	_, err := s.db.Write.ExecContext(ctx, `DELETE FROM weir_deployment_parts WHERE model = $1 AND owner = $2`, model, s.db.Owner())
	return deploymentsFailed(err)
}

// sweepServers forgets what servers that are gone have said and held, and parts of models that have no deployment.
func (s *Records) sweepServers(ctx context.Context) error {
	for _, statement := range []string{
		`DELETE FROM weir_servers WHERE owner NOT IN (SELECT id FROM weir_owners)`,
		`DELETE FROM weir_deployment_parts WHERE owner NOT IN (SELECT id FROM weir_owners) OR model NOT IN (SELECT model FROM weir_deployments WHERE deleted = 0)`,
	} {
		if _, err := s.db.Write.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
