package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"weir/telemetry/audit"
)

// keyAudit ends a chain without a key that an earlier weir has left, by an entry with the key. Where heads were
// noted the log was keyed before: a chain without a key was put in its place, and is left for CheckAudit to find.
func (s *Store) keyAudit(ctx context.Context) error {
	a := s.options.Audit
	if a.Key.IsZero() {
		return nil
	}
	if a.Heads != nil {
		if noted, err := a.Heads.Last(); err != nil || noted != (audit.Head{}) {
			return nil //nolint:nilerr // CheckAudit says it
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
		s.noteHead(&entry)
	}
	return err
}

// VerifyAudit checks the whole audit log: each entry's hash, the guards of its table, the heads that were noted
// beside the store and those that are given. The head is that of the last good entry. An error that is no
// audit.ErrBroken came from reading.
func (s *Store) VerifyAudit(ctx context.Context, noted ...audit.Head) (audit.Head, error) {
	last, err := s.NotedHead()
	if err != nil {
		return audit.Head{}, err
	}
	if last != (audit.Head{}) {
		noted = append(noted, last)
	}
	head, err := s.options.Audit.Key.Verify(audit.Head{}, s.Entries(ctx, 0), noted...)
	if err != nil {
		return head, err
	}
	return head, s.checkGuards(ctx)
}

// CheckAudit is VerifyAudit for a start: where a head was noted, only that entry and those behind it are read, since
// its hash stands for all before it. noted is zero where none was.
func (s *Store) CheckAudit(ctx context.Context) (noted audit.Head, err error) {
	if noted, err = s.NotedHead(); err != nil {
		return noted, err
	}
	if noted.Sequence > 0 && s.hasEntry(ctx, noted) {
		if _, err := s.options.Audit.Key.Verify(noted, s.Entries(ctx, noted.Sequence)); err == nil {
			return noted, s.checkGuards(ctx)
		}
	}
	_, err = s.VerifyAudit(ctx) // which says what is wrong
	return noted, err
}

// NotedHead is the last head that was noted apart from the store; zero where none is.
func (s *Store) NotedHead() (audit.Head, error) {
	if s.options.Audit.Heads == nil {
		return audit.Head{}, nil
	}
	return s.options.Audit.Heads.Last()
}

// HeadFile is where heads are noted.
func (s *Store) HeadFile() string {
	if s.options.Audit.Heads == nil {
		return "there is no file for it"
	}
	return s.options.Audit.Heads.Path()
}

// hasEntry reports whether an entry is there as its head was noted.
func (s *Store) hasEntry(ctx context.Context, head audit.Head) bool {
	for e, err := range s.Entries(ctx, head.Sequence-1) {
		return err == nil && e.Head() == head && s.options.Audit.Key.Made(&e)
	}
	return false
}

// AcceptAudit says that what is wrong with the audit log was seen: it puts the guards of its table back, and adds an
// entry with the reason, with which the log begins to be whole again. It returns what was wrong; "" is nothing.
func (s *Store) AcceptAudit(ctx context.Context, by, reason string) (found string, err error) {
	_, broken := s.VerifyAudit(ctx)
	if !errors.Is(broken, audit.ErrBroken) {
		return "", broken
	}
	found = broken.Error()
	if err := s.restoreGuards(ctx); err != nil {
		return found, err
	}
	digest, err := s.options.Audit.Key.Digest(s.Entries(ctx, 0))
	if err != nil {
		return found, err
	}
	details, err := json.Marshal(audit.Acceptance{Found: found, Reason: reason, Before: digest.String()})
	if err != nil {
		return found, err
	}
	entry, err := s.Append(ctx, audit.Change{Time: time.Now(), Actor: by, Action: audit.ActionAccept, Details: string(details)})
	if err == nil && s.options.Audit.Heads != nil {
		err = s.options.Audit.Heads.Replace(entry.Head())
	}
	return found, err
}

// guard is a trigger on the table of the audit log, or the function that one calls.
type guard struct{ kind, name, text string }

var guardText = regexp.MustCompile(`(?ms)^CREATE (TRIGGER|FUNCTION) (weir_audit_\w+).*?(?:END|\$\$|\(\));$`)

// auditGuards are the guards as the migrations make them.
func (d *dialect) auditGuards() (guards []guard, err error) {
	steps, err := migrations(d.folder)
	for _, step := range steps {
		for _, m := range guardText.FindAllStringSubmatch(step.text, -1) {
			guards = append(guards, guard{m[1], m[2], strings.TrimSuffix(m[0], ";")})
		}
	}
	return guards, err
}

// checkGuards finds triggers of the audit log that are missing, switched off or not what they were.
func (s *Store) checkGuards(ctx context.Context) error {
	guards, err := s.dialect.auditGuards()
	if err != nil {
		return err
	}
	rows, err := s.read.QueryContext(ctx, s.dialect.guards)
	if err != nil {
		return fmt.Errorf("the triggers of the audit log: %w", err)
	}
	defer rows.Close()
	have := map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return err
		}
		have[name] = text
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, g := range guards {
		switch text, there := have[g.name]; {
		case !there:
			return fmt.Errorf("%w: the %s %s of its table is missing or switched off", audit.ErrBroken, strings.ToLower(g.kind), g.name)
		case text != "" && !strings.Contains(g.text, text):
			return fmt.Errorf("%w: the %s %s of its table was replaced", audit.ErrBroken, strings.ToLower(g.kind), g.name)
		}
	}
	return nil
}

// restoreGuards makes the guards anew.
func (s *Store) restoreGuards(ctx context.Context) error {
	guards, err := s.dialect.auditGuards()
	if err != nil {
		return err
	}
	return s.transactAudit(ctx, func(tx *sql.Tx) error {
		var statements []string
		for _, g := range slices.Backward(guards) { // triggers before the functions that they call
			statements = append(statements, fmt.Sprintf(s.dialect.dropGuard[g.kind], g.name))
		}
		for _, g := range guards {
			statements = append(statements, g.text)
		}
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%.60s: %w", statement, err)
			}
		}
		return nil
	})
}
