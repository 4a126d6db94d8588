package store

import (
	"context"
	"time"
)

// sweepEvery is how often rows whose time is over are deleted, and sweepRows how many
// one statement deletes, so that others get to write between.
const (
	sweepEvery = time.Minute
	sweepRows  = 500
)

// claimShare is the part of a lease for which a process holds its idempotency keys without renewing them: a request that was
// cut off by a death is soon executed elsewhere, while what is dear to move, such as a model, waits for the whole lease.
const claimShare = 5

// keepLease renews the lease of the keys three times in its length, takes back what is in doubt,
// and sweeps.
func (s *Store) keepLease(ctx context.Context) {
	renew := time.NewTicker(s.options.Lease / claimShare / 3)
	defer renew.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		task := s.holdClaims
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
		case <-sweep.C:
			task = s.sweep
		}
		s.inBackground(ctx, task)
	}
}

// inBackground runs a task that no caller waits for, and reports its failure unless
// the store is being closed.
func (s *Store) inBackground(ctx context.Context, task func(context.Context) error) (ok bool) {
	limited, cancel := context.WithTimeout(ctx, backgroundTimeout)
	defer cancel()
	err := task(limited)
	if err != nil && ctx.Err() == nil {
		s.options.Failed(err)
	}
	return err == nil
}

func (s *Store) holdClaims(ctx context.Context) error {
	if err := s.renewLease(ctx); err != nil {
		return err
	}
	return s.settleDoubts(ctx)
}

func (s *Store) renewLease(ctx context.Context) error {
	_, err := s.write.ExecContext(ctx, s.dialect.query(`INSERT INTO weir_owners (id, expires, claims) VALUES ($1, NOW + $2, NOW + $3)
		ON CONFLICT (id) DO UPDATE SET expires = excluded.expires, claims = excluded.claims`),
		s.owner, s.options.Lease.Microseconds(), (s.options.Lease / claimShare).Microseconds())
	return err
}

func (s *Store) settleDoubts(ctx context.Context) error {
	claims := s.doubts.take()
	for i, c := range claims {
		if err := s.abandon(ctx, c); err != nil {
			s.doubts.add(claims[i:]...)
			return err
		}
	}
	return nil
}

// endLease lets other processes execute at once what this one had begun.
func (s *Store) endLease(ctx context.Context) error {
	_, err := s.write.ExecContext(ctx, `DELETE FROM weir_owners WHERE id = $1`, s.owner)
	return err
}

// sweep forgets data keys that other processes destroyed, and deletes idempotency keys whose time is over and that nobody executes, what servers that are gone saw of deployments and had parts in, old answers of rollouts, the leases of processes that are
// gone, and the batch numbers of ledgers that wrote nothing for a month.
func (s *Store) sweep(ctx context.Context) error {
	for {
		result, err := s.write.ExecContext(ctx, s.dialect.query(`DELETE FROM weir_replay WHERE (tenant, key) IN
			(SELECT tenant, key FROM weir_replay WHERE expires <= NOW AND (answer IS NOT NULL OR
				NOT EXISTS (SELECT 1 FROM weir_owners o WHERE o.id = weir_replay.owner AND o.expires > NOW))
			ORDER BY expires LIMIT $1)`), sweepRows)
		if err != nil {
			return err
		}
		if deleted, err := result.RowsAffected(); err != nil {
			return err
		} else if deleted < sweepRows {
			break
		}
	}
	if err := s.sweepResponses(ctx); err != nil {
		return err
	}
	if err := s.sweepObserved(ctx); err != nil {
		return err
	}
	if err := s.sweepServers(ctx); err != nil {
		return err
	}
	if err := s.sweepAnswers(ctx); err != nil {
		return err
	}
	if s.keys != nil {
		if err := s.retireKeys(ctx); err != nil {
			return err
		}
	}
	const day = 24 * time.Hour
	if _, err := s.write.ExecContext(ctx, s.dialect.query(`DELETE FROM weir_owners WHERE expires < NOW - $1`),
		day.Microseconds()); err != nil {
		return err
	}
	_, err := s.write.ExecContext(ctx, s.dialect.query(`DELETE FROM weir_usage_batches WHERE at < NOW - $1 AND writer <> $2`),
		(30 * day).Microseconds(), s.owner)
	return err
}
