package store

import (
	"context"
	"time"
)

// sweepEvery is how often rows whose time is over are deleted.
const sweepEvery = time.Minute

// claimShare is the part of a lease for which a process holds its idempotency keys without renewing them: a request that was
// cut off by a death is soon executed elsewhere, while what is dear to move, such as a model, waits for the whole lease.
const claimShare = 5

// keepLease renews the lease of the keys three times in its length, and sweeps.
func (s *DB) keepLease(ctx context.Context) {
	renew := time.NewTicker(s.options.Lease / claimShare / 3)
	defer renew.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		task := s.Renew
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
		case <-sweep.C:
			task = s.Sweep
		}
		s.InBackground(ctx, task)
	}
}

// Renew renews the lease, and does what OnRenew was told of. It is done by itself, in time.
func (s *DB) Renew(ctx context.Context) error {
	if err := s.renewLease(ctx); err != nil {
		return err
	}
	return s.runAll(ctx, &s.renewals)
}

func (s *DB) renewLease(ctx context.Context) error {
	_, err := s.brief.ExecContext(ctx, s.SQL(`INSERT INTO weir_owners (id, expires, claims) VALUES ($1, NOW + $2, NOW + $3)
		ON CONFLICT (id) DO UPDATE SET expires = excluded.expires, claims = excluded.claims`),
		s.owner, s.options.Lease.Microseconds(), (s.options.Lease / claimShare).Microseconds())
	return err
}

// endLease lets other processes execute at once what this one had begun.
func (s *DB) endLease(ctx context.Context) error {
	_, err := s.Write.ExecContext(ctx, `DELETE FROM weir_owners WHERE id = $1`, s.owner)
	return err
}

// Sweep does what OnSweep was told of, forgets data keys that other processes destroyed, and deletes the leases of processes that are
// gone. It is done by itself, every minute.
func (s *DB) Sweep(ctx context.Context) error {
	if err := s.runAll(ctx, &s.sweeps); err != nil {
		return err
	}
	if s.keys != nil {
		if err := s.retireKeys(ctx); err != nil {
			return err
		}
	}
	const day = 24 * time.Hour
	_, err := s.Write.ExecContext(ctx, s.SQL(`DELETE FROM weir_owners WHERE expires < NOW - $1`), day.Microseconds())
	return err
}
