package auditlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"weir/internal/store"
	"weir/telemetry/audit"
)

var (
	_ store.Chain = (*Log)(nil)
	_ store.Chain = Options{}
)

// ReadHead implements store.Chain.
func (o Options) ReadHead(ctx context.Context, tx *sql.Tx) (string, error) {
	head, err := auditHead(ctx, tx)
	return headText(head), err
}

func headText(head audit.Head) string {
	if head == (audit.Head{}) {
		return ""
	}
	return head.String()
}

// CheckRows implements store.Chain.
func (o Options) CheckRows(rows iter.Seq[store.Row], end func() string) error {
	head, err := o.Key.Verify(audit.Head{}, func(yield func(audit.Entry, error) bool) {
		for row := range rows {
			if e, err := entryOf(row); !yield(e, err) {
				return
			}
		}
	})
	if err == nil && headText(head) != end() {
		err = fmt.Errorf("%w: it ends with %v and not with %v", audit.ErrBroken, headText(head), end())
	}
	return err
}

// Restored notes the head of a backup that was put in the place of the store.
func (o Options) Restored(head string) error {
	if o.Heads == nil || head == "" {
		return nil
	}
	h, err := audit.ParseHead(head)
	if err != nil {
		return err
	}
	return o.Heads.Replace(h)
}

// ReadHead implements store.Chain.
func (s *Log) ReadHead(ctx context.Context, tx *sql.Tx) (string, error) {
	return s.options.ReadHead(ctx, tx)
}

// CheckRows implements store.Chain.
func (s *Log) CheckRows(rows iter.Seq[store.Row], end func() string) error {
	return s.options.CheckRows(rows, end)
}

// Findings says what is broken, for DB.Verify.
func (s *Log) Findings(ctx context.Context) (findings []string, err error) {
	_, err = s.Verify(ctx)
	if errors.Is(err, audit.ErrBroken) {
		return []string{err.Error()}, nil
	}
	return nil, err
}

// entryOf is an entry of the audit log by its row.
func entryOf(row store.Row) (e audit.Entry, err error) {
	var ok [8]bool
	var at int64
	var previous, hash []byte
	e.Sequence, ok[0] = row.Cell("sequence").(int64)
	at, ok[1] = row.Cell("at").(int64)
	e.Actor, ok[2] = row.Cell("actor").(string)
	e.Action, ok[3] = row.Cell("action").(string)
	e.Object, ok[4] = row.Cell("object").(string)
	e.Details, ok[5] = row.Cell("details").(string)
	previous, ok[6] = row.Cell("previous").([]byte)
	hash, ok[7] = row.Cell("hash").([]byte)
	if slices.Contains(ok[:], false) || len(previous) != len(e.Previous) || len(hash) != len(e.Hash) {
		return e, fmt.Errorf("%w: an entry of the audit log lacks a field", store.ErrBackup)
	}
	e.Time = time.UnixMicro(at).UTC()
	copy(e.Previous[:], previous)
	copy(e.Hash[:], hash)
	return e, nil
}
