package tenants

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"weir/api/tenant"
	"weir/internal/store"
)

// Records are the tenants that the API made. Methods may be called at the same time, also from several processes.
type Records struct{ db *store.DB }

// NewRecords has the tenants of a store.
func NewRecords(db *store.DB) *Records { return &Records{db} }

const tenantColumns = `name, spec, revision, created, changed`

// TenantRevision is that of the last change of any tenant; 0: there never was one.
func (s *Records) TenantRevision(ctx context.Context) (revision int64, err error) {
	err = s.db.Read.QueryRowContext(ctx, `SELECT COALESCE(max(revision), 0) FROM weir_tenants`).Scan(&revision)
	return revision, err
}

// Tenants are all tenants that were made by the API, in the order of their names.
func (s *Records) Tenants(ctx context.Context) (list []tenant.Record, err error) {
	rows, err := s.db.Read.QueryContext(ctx, `SELECT `+tenantColumns+` FROM weir_tenants WHERE deleted = 0 ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scanTenant(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

func scanTenant(scan func(...any) error) (r tenant.Record, err error) {
	var spec string
	var created, changed int64
	err = scan(&r.Name, &spec, &r.Revision, &created, &changed)
	r.Spec, r.Created, r.Changed = []byte(spec), store.FromMicros(created), store.FromMicros(changed)
	return r, err
}

// CreateTenant adds a tenant, or is tenant.ErrTenantExists. One that was deleted may come again.
func (s *Records) CreateTenant(ctx context.Context, name string, spec []byte, at time.Time) (tenant.Record, error) {
	return s.writeTenant(ctx, name, func(tx *sql.Tx, old *tenant.Record) error {
		if old != nil {
			return tenant.ErrTenantExists
		}
		var count int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM weir_tenants WHERE deleted = 0`).Scan(&count); err != nil {
			return err
		}
		if count >= tenant.MaxRecords {
			return tenant.ErrTenantsAtMost
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO weir_tenants (`+tenantColumns+`, deleted)
			VALUES ($1, $2, (SELECT COALESCE(max(revision), 0) + 1 FROM weir_tenants), $3, $3, 0)
			ON CONFLICT (name) DO UPDATE SET spec = excluded.spec, revision = excluded.revision, created = excluded.created,
				changed = excluded.changed, deleted = 0`, name, string(spec), store.Micros(at))
		return err
	})
}

// ChangeTenant replaces what a tenant was at a revision. tenant.ErrNoTenant: there is none; tenant.ErrTenantChanged: it has
// another revision.
func (s *Records) ChangeTenant(ctx context.Context, name string, revision int64, spec []byte, at time.Time) (tenant.Record, error) {
	return s.writeTenant(ctx, name, func(tx *sql.Tx, old *tenant.Record) error {
		switch {
		case old == nil:
			return tenant.ErrNoTenant
		case old.Revision != revision:
			return tenant.ErrTenantChanged
		}
		_, err := tx.ExecContext(ctx, `UPDATE weir_tenants SET spec = $2, revision = (SELECT max(revision) + 1 FROM weir_tenants), changed = $3
			WHERE name = $1`, name, string(spec), store.Micros(at))
		return err
	})
}

// DeleteTenant removes a tenant, or is tenant.ErrNoTenant.
func (s *Records) DeleteTenant(ctx context.Context, name string, at time.Time) error {
	_, err := s.writeTenant(ctx, name, func(tx *sql.Tx, old *tenant.Record) error {
		if old == nil {
			return tenant.ErrNoTenant
		}
		_, err := tx.ExecContext(ctx, `UPDATE weir_tenants SET spec = '', revision = (SELECT max(revision) + 1 FROM weir_tenants), deleted = $2
			WHERE name = $1`, name, store.Micros(at))
		return err
	})
	return err
}

// writeTenant runs f alone among those that change tenants, with the tenant as it is, nil for none, and returns what it is
// afterwards.
func (s *Records) writeTenant(ctx context.Context, name string, f func(tx *sql.Tx, old *tenant.Record) error) (r tenant.Record, err error) {
	if err := store.CheckText("name", name); err != nil {
		return r, err
	}
	find := func(tx *sql.Tx) (tenant.Record, error) {
		return scanTenant(tx.QueryRowContext(ctx, `SELECT `+tenantColumns+` FROM weir_tenants WHERE name = $1 AND deleted = 0`, name).Scan)
	}
	err = s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := s.db.LockTable(ctx, tx, "weir_tenants"); err != nil {
			return err
		}
		was, err := find(tx)
		old := &was
		if errors.Is(err, sql.ErrNoRows) {
			old, err = nil, nil
		}
		if err != nil {
			return err
		}
		if err := f(tx, old); err != nil {
			return err
		}
		if r, err = find(tx); errors.Is(err, sql.ErrNoRows) { // it was deleted
			return nil
		}
		return err
	})
	return r, err
}
