// Package auditlog keeps the log of changes in the store: entries are added alone, under a lock, and name the one before; the last one is
// noted apart from the store.
package auditlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"weir/internal/store"
	"weir/telemetry/audit"
)

var _ audit.Log = (*Log)(nil)

// Options of Open: how the log is keyed, and where its heads are noted.
type Options struct {
	Key   audit.Key    // zero: the log is a chain without a key
	Heads *audit.Heads // nil: nowhere
}

// Log is the audit log of a store.
type Log struct {
	db      *store.DB
	options Options
}

// Open opens the log of a store, and keys it if an earlier weir has left it without a key.
func Open(ctx context.Context, db *store.DB, options Options) (*Log, error) {
	s := &Log{db, options}
	if err := s.keyAudit(ctx); err != nil {
		return nil, fmt.Errorf("key the audit log: %w", err)
	}
	return s, nil
}

// Append adds a change at the end of the audit log.
func (s *Log) Append(ctx context.Context, c audit.Change) (audit.Entry, error) {
	var entry *audit.Entry
	err := s.db.Transact(ctx, func(tx *sql.Tx) (err error) {
		entry, err = s.AppendWithin(ctx, tx, &c)
		return err
	})
	if err != nil {
		return audit.Entry{}, err
	}
	s.NoteHead(entry)
	return *entry, nil
}

// AppendWithin adds a change in a transaction, alone among those that add entries. Its head is noted once the transaction is durable.
func (s *Log) AppendWithin(ctx context.Context, tx *sql.Tx, c *audit.Change) (*audit.Entry, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	entry, err := s.nextEntry(ctx, tx, c)
	if err != nil {
		return nil, fmt.Errorf("the audit log: %w", err)
	}
	return entry, nil
}

func (s *Log) nextEntry(ctx context.Context, tx *sql.Tx, c *audit.Change) (*audit.Entry, error) {
	if err := s.db.LockTable(ctx, tx, "weir_audit"); err != nil {
		return nil, err
	}
	last, err := auditHead(ctx, tx)
	if err != nil {
		return nil, err
	}
	entry := s.options.Key.Next(last, *c)
	return &entry, s.addEntry(ctx, tx, &entry)
}

// NoteHead notes an entry that is durable. Where that fails the next note takes this one's place.
func (s *Log) NoteHead(e *audit.Entry) {
	if heads := s.options.Heads; heads != nil {
		if err := heads.Note(e.Head()); err != nil {
			s.db.Failed(err)
		}
	}
}

// transactAudit runs f alone among those that add entries.
func (s *Log) transactAudit(ctx context.Context, f func(*sql.Tx) error) error {
	return s.db.Transact(ctx, func(tx *sql.Tx) error {
		if err := s.db.LockTable(ctx, tx, "weir_audit"); err != nil {
			return err
		}
		return f(tx)
	})
}

func (s *Log) addEntry(ctx context.Context, tx *sql.Tx, e *audit.Entry) error {
	keyed := 1
	if s.options.Key.IsZero() {
		keyed = 0
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO weir_audit (sequence, at, actor, action, object, details, previous, hash, keyed)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`, e.Sequence, e.Time.UnixMicro(),
		e.Actor, e.Action, e.Object, e.Details, e.Previous[:], e.Hash[:], keyed)
	return err
}

// Head names the last entry.
func (s *Log) Head(ctx context.Context) (audit.Head, error) {
	head, err := auditHead(ctx, s.db.Read)
	if err != nil {
		return head, fmt.Errorf("the audit log: %w", err)
	}
	return head, nil
}

// rowQuerier is a database or a transaction.
type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func auditHead(ctx context.Context, tx rowQuerier) (last audit.Head, err error) {
	var hash []byte
	err = tx.QueryRowContext(ctx, `SELECT sequence, hash FROM weir_audit ORDER BY sequence DESC LIMIT 1`).Scan(&last.Sequence, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return audit.Head{}, nil
	}
	copy(last.Hash[:], hash)
	return last, err
}

// auditPage is how many entries are read at once: a reader who takes long holds no
// transaction open.
const auditPage = 500

// Entries are those after a sequence number, in their order.
func (s *Log) Entries(ctx context.Context, after int64) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		for {
			page, err := s.auditPage(ctx, after)
			if err != nil {
				yield(audit.Entry{}, fmt.Errorf("the audit log: %w", err))
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
				after = e.Sequence
			}
			if len(page) < auditPage {
				return
			}
		}
	}
}

func (s *Log) auditPage(ctx context.Context, after int64) (page []audit.Entry, err error) {
	rows, err := s.db.Read.QueryContext(ctx, `SELECT sequence, at, actor, action, object, details, previous, hash
		FROM weir_audit WHERE sequence > $1 ORDER BY sequence LIMIT $2`, after, auditPage)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e audit.Entry
		var at int64
		var previous, hash []byte
		if err := rows.Scan(&e.Sequence, &at, &e.Actor, &e.Action, &e.Object, &e.Details, &previous, &hash); err != nil {
			return nil, err
		}
		e.Time = time.UnixMicro(at).UTC()
		copy(e.Previous[:], previous)
		copy(e.Hash[:], hash)
		page = append(page, e)
	}
	return page, rows.Err()
}
