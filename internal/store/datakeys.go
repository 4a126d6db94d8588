package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"

	"weir/internal/envelope"
)

// Keys is what encrypts the texts of tenants.
type Keys struct {
	Masters envelope.Masters // empty: texts are kept in clear
	// URL is where the data keys are kept, encrypted: a database apart from the store, so that a copy of the store
	// from before a tenant was forgotten is unreadable too. "": the store itself.
	URL string
}

// dataKeys are the data keys of all tenants.
type dataKeys struct {
	database
	own     bool // the database is not the store's
	masters envelope.Masters

	mu   sync.Mutex
	open map[string]*envelope.DataKey // by id
}

// ErrKeys says that the data keys that encrypt the store's texts are not at hand. Nothing was changed.
var ErrKeys = errors.New("the keys that encrypt the store's texts")

// openKeys opens the data keys, and finds out whether they are those of the store and can be decrypted.
func (s *sealing) openKeys(ctx context.Context, o Keys) (*dataKeys, error) {
	var bound string
	err := s.Read.QueryRowContext(ctx, `SELECT id FROM weir_key_store`).Scan(&bound)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	if len(o.Masters) == 0 {
		if bound != "" {
			return nil, fmt.Errorf("%w are not opened: no master key is set", ErrKeys)
		}
		return nil, nil
	}
	k := &dataKeys{database: *s.database, masters: o.Masters, open: map[string]*envelope.DataKey{}}
	if o.URL != "" {
		if err := k.connectTo(ctx, o.URL, bound != ""); err != nil {
			return nil, err
		}
	}
	id, err := k.prepare(ctx)
	if err == nil {
		err = s.bind(ctx, bound, id)
	}
	if err == nil {
		err = k.rewrap(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

// connectTo opens a database of its own. known: the store has used it before, so that it must be there.
func (k *dataKeys) connectTo(ctx context.Context, url string, known bool) error {
	t, err := parseTarget(url)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKeys, err)
	}
	if t.path != "" && known {
		if _, err := os.Stat(t.path); err != nil {
			return fmt.Errorf("%w are missing: %w; put the file back from its copy", ErrKeys, err)
		}
	}
	k.database, k.own = database{}, true
	if err := k.connect(ctx, t); err != nil {
		return errors.Join(fmt.Errorf("%w, in %s: %w", ErrKeys, t.shown, err), k.close())
	}
	return nil
}

// close is for a nil receiver, too.
func (k *dataKeys) close() error {
	if k == nil || !k.own {
		return nil
	}
	return k.closePools()
}

// prepare makes the tables where there are none, and returns the id of this store of keys.
func (k *dataKeys) prepare(ctx context.Context) (id string, err error) {
	err = k.Transact(ctx, func(tx *sql.Tx) error {
		if k.dialect.migrationLock != "" {
			if _, err := tx.ExecContext(ctx, k.dialect.migrationLock); err != nil {
				return err
			}
		}
		if err := makeKeyTables(ctx, tx, k.dialect); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO weir_data_key_store (one, id) VALUES (1, $1) ON CONFLICT (one) DO NOTHING`, rand.Text()); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT id FROM weir_data_key_store`).Scan(&id)
	})
	return id, err
}

// makeKeyTables makes the tables where there are none.
func makeKeyTables(ctx context.Context, tx *sql.Tx, d *dialect) error {
	blob := "BLOB"
	if d == postgresDialect {
		blob = "bytea"
	}
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS weir_data_keys (tenant TEXT NOT NULL, id TEXT NOT NULL, created BIGINT NOT NULL,
			master TEXT NOT NULL, wrapped ` + blob + ` NOT NULL, PRIMARY KEY (tenant, id))`,
		`CREATE TABLE IF NOT EXISTS weir_data_key_store (one INTEGER PRIMARY KEY, id TEXT NOT NULL)`,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// bind notes in the store which keys encrypt it, or compares.
func (s *sealing) bind(ctx context.Context, bound, id string) error {
	if bound == "" {
		err := s.Transact(ctx, func(tx *sql.Tx) error {
			if err := s.LockTable(ctx, tx, "weir_key_store"); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO weir_key_store (id) SELECT CAST($1 AS TEXT) WHERE NOT EXISTS (SELECT 1 FROM weir_key_store)`, id); err != nil {
				return err
			}
			return tx.QueryRowContext(ctx, `SELECT id FROM weir_key_store`).Scan(&bound)
		})
		if err != nil {
			return err
		}
	}
	if bound != id {
		return fmt.Errorf("%w are those of another store, or were lost and made again: the store needs the keys %s, and these are %s; put those back from their copy",
			ErrKeys, bound, id)
	}
	return nil
}

// rewrap decrypts a data key of each master key, to find out whether it can be, and encrypts those with the first
// master key that are encrypted with another one.
func (k *dataKeys) rewrap(ctx context.Context) error {
	all, err := k.list(ctx, `SELECT tenant, id, master, wrapped FROM weir_data_keys WHERE (master, id) IN
		(SELECT master, min(id) FROM weir_data_keys GROUP BY master) OR master <> $1`, k.masters[0].ID())
	if err != nil {
		return err
	}
	old := false
	for _, w := range all {
		if w.Master == k.masters[0].ID() {
			if _, err := k.masters.Open(ctx, w); err != nil {
				return fmt.Errorf("%w: %w", ErrKeys, err)
			}
			continue
		}
		old = true
		again, err := k.masters.Rewrap(ctx, w)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrKeys, err)
		}
		if _, err := k.Write.ExecContext(ctx, `UPDATE weir_data_keys SET master = $3, wrapped = $4 WHERE tenant = $1 AND id = $2 AND master = $5`,
			w.Tenant, w.ID, again.Master, again.Bytes, w.Master); err != nil {
			return err
		}
	}
	if !old {
		return nil
	}
	return k.Wipe(ctx)
}

func (k *dataKeys) list(ctx context.Context, query string, args ...any) (all []envelope.Wrapped, err error) {
	rows, err := k.Read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var w envelope.Wrapped
		if err := rows.Scan(&w.Tenant, &w.ID, &w.Master, &w.Bytes); err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, rows.Err()
}

const newestKey = `SELECT id FROM weir_data_keys WHERE tenant = $1 ORDER BY created DESC, id DESC LIMIT 1`

// current is the key that encrypts what a tenant brings now. It is asked for each time: another process may have
// destroyed the one before.
func (k *dataKeys) current(ctx context.Context, tenant string) (*envelope.DataKey, error) {
	var id string
	err := k.Read.QueryRowContext(ctx, newestKey, tenant).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return k.add(ctx, tenant, true)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, err)
	}
	key, err := k.find(ctx, tenant, id)
	if errors.Is(err, envelope.ErrNoKey) { // destroyed in between
		return k.add(ctx, tenant, true)
	}
	return key, err
}

// find is a key by its id; envelope.ErrNoKey where it was destroyed.
func (k *dataKeys) find(ctx context.Context, tenant, id string) (*envelope.DataKey, error) {
	k.mu.Lock()
	key := k.open[id]
	k.mu.Unlock()
	if key != nil {
		return key, nil
	}
	found, err := k.list(ctx, `SELECT tenant, id, master, wrapped FROM weir_data_keys WHERE tenant = $1 AND id = $2`, tenant, id)
	if err == nil && len(found) == 0 {
		return nil, envelope.ErrNoKey
	}
	if err == nil {
		key, err = k.masters.Open(ctx, found[0])
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, err)
	}
	k.remember(key)
	return key, nil
}

func (k *dataKeys) remember(key *envelope.DataKey) {
	k.mu.Lock()
	k.open[key.ID] = key
	k.mu.Unlock()
}

// add makes a tenant's next key. first: unless it has one by now.
func (k *dataKeys) add(ctx context.Context, tenant string, first bool) (*envelope.DataKey, error) {
	key, w, err := k.masters.New(ctx, tenant) // before the transaction: a command takes its time
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, err)
	}
	var id string
	err = k.Transact(ctx, func(tx *sql.Tx) error {
		if err := k.LockTable(ctx, tx, "weir_data_keys"); err != nil {
			return err
		}
		err := tx.QueryRowContext(ctx, newestKey, tenant).Scan(&id)
		if first && err == nil || err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		id = w.ID
		_, err = tx.ExecContext(ctx, k.SQL(`INSERT INTO weir_data_keys (tenant, id, created, master, wrapped) VALUES ($1, $2,
			(SELECT CASE WHEN coalesce(max(created), 0) >= NOW THEN max(created) + 1 ELSE NOW END FROM weir_data_keys WHERE tenant = $1), $3, $4)`),
			tenant, w.ID, w.Master, w.Bytes)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeys, err)
	}
	if id != w.ID {
		return k.find(ctx, tenant, id)
	}
	k.remember(key)
	return key, nil
}

// destroy deletes a tenant's keys: what they encrypted is unreadable from then on.
func (k *dataKeys) destroy(ctx context.Context, tenant string) error {
	if _, err := k.Write.ExecContext(ctx, `DELETE FROM weir_data_keys WHERE tenant = $1`, tenant); err != nil {
		return fmt.Errorf("%w: %w", ErrKeys, err)
	}
	return errors.Join(k.Wipe(ctx), k.prune(ctx))
}

// prune forgets keys that are no longer there.
func (k *dataKeys) prune(ctx context.Context) error {
	ids, err := k.strings(ctx, `SELECT id FROM weir_data_keys`)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, id := range ids {
		there[id] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.open {
		if !there[id] {
			delete(k.open, id)
		}
	}
	return nil
}
