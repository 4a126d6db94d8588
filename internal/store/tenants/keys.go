// Package tenants keeps API keys and the tenants that were made by the API in the store.
package tenants

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"weir/api/tenant"
	"weir/internal/store"
)

var _ tenant.Keys = (*Keys)(nil)

// Keys are the API keys.
type Keys struct{ db *store.DB }

// NewKeys has the keys of a store.
func NewKeys(db *store.DB) *Keys { return &Keys{db} }

const keyColumns = `id, tenant, label, scope, hash, created, expires, revoked, last_used, terms, account`

// Create adds a key.
func (s *Keys) Create(ctx context.Context, k tenant.Key) error {
	return s.writeKeys(ctx, func(tx *sql.Tx) error { return createKey(ctx, tx, &k) })
}

// writeKeys runs f alone among those that count keys: two processes that count at once
// would each find room for one. The lock comes first, so that no two wait for each
// other.
func (s *Keys) writeKeys(ctx context.Context, f func(*sql.Tx) error) error {
	return s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := s.db.LockTable(ctx, tx, "weir_keys"); err != nil {
			return err
		}
		return f(tx)
	})
}

func createKey(ctx context.Context, tx *sql.Tx, k *tenant.Key) error {
	if err := errors.Join(store.CheckText("id", k.ID), store.CheckText("tenant", k.Tenant), store.CheckText("label", k.Label)); err != nil {
		return err
	}
	var same, live int
	row := tx.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM weir_keys WHERE id = $1),
		(SELECT count(*) FROM weir_keys WHERE tenant = $2 AND label = $3 AND revoked = 0 AND (expires = 0 OR expires > $4))`,
		k.ID, k.Tenant, k.Label, store.Micros(k.Created))
	if err := row.Scan(&same, &live); err != nil {
		return err
	}
	switch {
	case same > 0:
		return tenant.ErrKeyExists
	case live >= tenant.MaxLiveKeys:
		return tenant.ErrKeysAtMost
	}
	terms, err := termsText(&k.KeyTerms)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO weir_keys (`+keyColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		k.ID, k.Tenant, k.Label, k.Scope.String(), k.Hash[:],
		store.Micros(k.Created), store.Micros(k.Expires), store.Micros(k.Revoked), store.Micros(k.LastUsed), terms, k.Account)
	return err
}

// Rotate adds next and lets the key id end at oldEnds.
func (s *Keys) Rotate(ctx context.Context, id string, oldEnds time.Time, next tenant.Key) error {
	if !store.Storable(id) {
		return tenant.ErrNoKey
	}
	return s.writeKeys(ctx, func(tx *sql.Tx) error {
		ended, err := tx.ExecContext(ctx, `UPDATE weir_keys
			SET expires = CASE WHEN expires > 0 AND expires < $2 THEN expires ELSE $2 END
			WHERE id = $1 AND revoked = 0 AND (expires = 0 OR expires > $3)`, id, store.Micros(oldEnds), store.Micros(next.Created))
		if err := store.OneRow(ended, err, tenant.ErrNoKey); err != nil {
			return err
		}
		if err := createKey(ctx, tx, &next); err != nil {
			return err
		}
		return countKeyChange(ctx, tx)
	})
}

// termsText is what the store keeps of a key's terms; "" where there are none.
func termsText(t *tenant.KeyTerms) (string, error) {
	if t.Plain() {
		return "", nil
	}
	text, err := json.Marshal(t)
	return string(text), errors.Join(err, store.CheckText("models", string(text)))
}

// Change has f change a key's terms and end.
func (s *Keys) Change(ctx context.Context, id string, f func(*tenant.Key) error) (k tenant.Key, err error) {
	if !store.Storable(id) {
		return k, tenant.ErrNoKey
	}
	err = s.writeKeys(ctx, func(tx *sql.Tx) error {
		k, err = scanKey(tx.QueryRowContext(ctx, `SELECT `+keyColumns+` FROM weir_keys WHERE id = $1`, id).Scan)
		if errors.Is(err, sql.ErrNoRows) {
			return tenant.ErrNoKey
		}
		if err != nil {
			return err
		}
		if err := f(&k); err != nil {
			return err
		}
		terms, err := termsText(&k.KeyTerms)
		if err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, `UPDATE weir_keys SET terms = $2, expires = $3 WHERE id = $1`, id, terms, store.Micros(k.Expires)); err != nil {
			return err
		}
		return countKeyChange(ctx, tx)
	})
	return k, err
}

// List is all keys of a tenant, or of all tenants for "".
func (s *Keys) List(ctx context.Context, name string) (keys []tenant.Key, err error) {
	rows, err := s.db.Read.QueryContext(ctx, `SELECT `+keyColumns+` FROM weir_keys WHERE $1 = '' OR tenant = $1
		ORDER BY tenant, label, created, id`, name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		k, err := scanKey(rows.Scan)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, rows.Err()
}

// Find is the key of an id.
func (s *Keys) Find(ctx context.Context, id string) (tenant.Key, error) {
	if !store.Storable(id) {
		return tenant.Key{}, tenant.ErrNoKey
	}
	k, err := scanKey(s.db.Read.QueryRowContext(ctx, `SELECT `+keyColumns+` FROM weir_keys WHERE id = $1`, id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return tenant.Key{}, tenant.ErrNoKey
	}
	return k, err
}

func scanKey(scan func(...any) error) (k tenant.Key, err error) {
	var scope, terms string
	var hash []byte
	var created, expires, revoked, lastUsed int64
	if err := scan(&k.ID, &k.Tenant, &k.Label, &scope, &hash, &created, &expires, &revoked, &lastUsed, &terms, &k.Account); err != nil {
		return tenant.Key{}, err
	}
	if k.Scope, err = tenant.ParseScope(scope); err != nil {
		return tenant.Key{}, fmt.Errorf("key %s: %w", k.ID, err)
	}
	if len(hash) != len(k.Hash) {
		return tenant.Key{}, fmt.Errorf("key %s: its hash has %d bytes", k.ID, len(hash))
	}
	copy(k.Hash[:], hash)
	if terms != "" {
		if err := json.Unmarshal([]byte(terms), &k.KeyTerms); err != nil {
			return tenant.Key{}, fmt.Errorf("key %s: its limits: %w", k.ID, err)
		}
	}
	k.Created, k.Expires, k.Revoked, k.LastUsed = store.FromMicros(created), store.FromMicros(expires), store.FromMicros(revoked), store.FromMicros(lastUsed)
	return k, nil
}

// Revoke ends a key; one that was revoked keeps its first time.
func (s *Keys) Revoke(ctx context.Context, id string, at time.Time) error {
	if !store.Storable(id) {
		return tenant.ErrNoKey
	}
	return s.db.Transact(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `UPDATE weir_keys
			SET revoked = CASE WHEN revoked = 0 THEN $2 ELSE revoked END WHERE id = $1`, id, store.Micros(at))
		if err := store.OneRow(result, err, tenant.ErrNoKey); err != nil {
			return err
		}
		return countKeyChange(ctx, tx)
	})
}

// countKeyChange lets other servers see that a key that they may know is another now.
func countKeyChange(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO weir_key_changes (id, number) VALUES (1, 1)
		ON CONFLICT (id) DO UPDATE SET number = weir_key_changes.number + 1`)
	return err
}

// KeyChanges is how many changes there were of keys.
func (s *Keys) KeyChanges(ctx context.Context) (n int64, err error) {
	err = s.db.Read.QueryRowContext(ctx, `SELECT COALESCE(max(number), 0) FROM weir_key_changes`).Scan(&n)
	return n, err
}

// Touch sets when keys were last used; a later time that is there stays.
func (s *Keys) Touch(ctx context.Context, used map[string]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	return s.db.Transact(ctx, func(tx *sql.Tx) error {
		// One order for all processes, so that none waits for another in a circle.
		for _, id := range slices.Sorted(maps.Keys(used)) {
			if !store.Storable(id) {
				continue
			}
			if _, err := tx.ExecContext(ctx, `UPDATE weir_keys SET last_used = $2 WHERE id = $1 AND last_used < $2`,
				id, store.Micros(used[id])); err != nil {
				return err
			}
		}
		return nil
	})
}
