package auditlog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"weir/telemetry/audit"
)

// keyAudit ends a chain without a key that an earlier weir has left, by an entry with the key. Where heads were
// noted the log was keyed before: a chain without a key was put in its place, and is left for Check to find.
func (s *Log) keyAudit(ctx context.Context) error {
	a := s.options
	if a.Key.IsZero() {
		return nil
	}
	if a.Heads != nil {
		if noted, err := a.Heads.Last(); err != nil || noted != (audit.Head{}) {
			return nil //nolint:nilerr // Check says it
		}
	}
	var entry audit.Entry
	err := s.transactAudit(ctx, func(tx *sql.Tx) error {
		var keyed int
		err := tx.QueryRowContext(ctx, `SELECT keyed FROM weir_audit ORDER BY sequence DESC LIMIT 1`).Scan(&keyed)
		if errors.Is(err, sql.ErrNoRows) || err == nil && keyed == 1 {
			return nil
		}
		if err != nil {
			return err
		}
		last, err := auditHead(ctx, tx)
		if err != nil {
			return err
		}
		entry = a.Key.Next(last, audit.Change{Time: time.Now(), Actor: "weir", Action: audit.ActionKeyed, Object: last.String(),
			Details: `{"before":"entries up to this one are a chain without a key"}`})
		return s.addEntry(ctx, tx, &entry)
	})
	if err == nil && entry.Sequence > 0 {
		s.NoteHead(&entry)
	}
	return err
}

// Verify checks the whole audit log: each entry's hash, the guards of its table, the heads that were noted
// beside the store and those that are given. The head is that of the last good entry. An error that is no
// audit.ErrBroken came from reading.
func (s *Log) Verify(ctx context.Context, noted ...audit.Head) (audit.Head, error) {
	last, err := s.NotedHead()
	if err != nil {
		return audit.Head{}, err
	}
	if last != (audit.Head{}) {
		noted = append(noted, last)
	}
	head, err := s.options.Key.Verify(audit.Head{}, s.Entries(ctx, 0), noted...)
	if err != nil {
		return head, err
	}
	return head, s.checkGuards(ctx)
}

// Check is Verify for a start: where a head was noted, only that entry and those behind it are read, since
// its hash stands for all before it. noted is zero where none was.
func (s *Log) Check(ctx context.Context) (noted audit.Head, err error) {
	if noted, err = s.NotedHead(); err != nil {
		return noted, err
	}
	if noted.Sequence > 0 && s.hasEntry(ctx, noted) {
		if _, err := s.options.Key.Verify(noted, s.Entries(ctx, noted.Sequence)); err == nil {
			return noted, s.checkGuards(ctx)
		}
	}
	_, err = s.Verify(ctx) // which says what is wrong
	return noted, err
}

// NotedHead is the last head that was noted apart from the store; zero where none is.
func (s *Log) NotedHead() (audit.Head, error) {
	if s.options.Heads == nil {
		return audit.Head{}, nil
	}
	return s.options.Heads.Last()
}

// HeadFile is where heads are noted.
func (s *Log) HeadFile() string {
	if s.options.Heads == nil {
		return "there is no file for it"
	}
	return s.options.Heads.Path()
}

// hasEntry reports whether an entry is there as its head was noted.
func (s *Log) hasEntry(ctx context.Context, head audit.Head) bool {
	for e, err := range s.Entries(ctx, head.Sequence-1) {
		return err == nil && e.Head() == head && s.options.Key.Made(&e)
	}
	return false
}

// Accept says that what is wrong with the audit log was seen: it puts the guards of its table back, and adds an
// entry with the reason, with which the log begins to be whole again. It returns what was wrong; "" is nothing.
func (s *Log) Accept(ctx context.Context, by, reason string) (found string, err error) {
	_, broken := s.Verify(ctx)
	if !errors.Is(broken, audit.ErrBroken) {
		return "", broken
	}
	found = broken.Error()
	if err := s.restoreGuards(ctx); err != nil {
		return found, err
	}
	digest, err := s.options.Key.Digest(s.Entries(ctx, 0))
	if err != nil {
		return found, err
	}
	details, err := json.Marshal(audit.Acceptance{Found: found, Reason: reason, Before: digest.String()})
	if err != nil {
		return found, err
	}
	entry, err := s.Append(ctx, audit.Change{Time: time.Now(), Actor: by, Action: audit.ActionAccept, Details: string(details)})
	if err == nil && s.options.Heads != nil {
		err = s.options.Heads.Replace(entry.Head())
	}
	return found, err
}

// checkGuards finds triggers of the log that are missing, switched off or not what they were.
func (s *Log) checkGuards(ctx context.Context) error {
	fault, err := s.db.CheckGuards(ctx)
	if err == nil && fault != "" {
		err = fmt.Errorf("%w: %s", audit.ErrBroken, fault)
	}
	return err
}

// restoreGuards makes the guards again.
func (s *Log) restoreGuards(ctx context.Context) error {
	return s.transactAudit(ctx, func(tx *sql.Tx) error { return s.db.RestoreGuards(ctx, tx) })
}
