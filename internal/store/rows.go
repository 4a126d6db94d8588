package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Micros is a time as the tables keep it; the zero time is 0.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// FromMicros is the time that Micros was made of.
func FromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// CheckText refuses texts that the tables do not keep. PostgreSQL keeps neither NUL nor broken UTF-8, so neither does SQLite.
func CheckText(what, text string) error {
	const most = 1024
	switch {
	case len(text) > most:
		return fmt.Errorf("the %s has %d bytes; the store keeps at most %d", what, len(text), most)
	case !Storable(text):
		return fmt.Errorf("the %s %.60q is no UTF-8 text without NUL", what, text)
	}
	return nil
}

// Storable reports whether the tables can keep a text.
func Storable(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }

// OneRow is none where a statement that should change a row found none to change.
func OneRow(result sql.Result, err, none error) error {
	if err != nil {
		return err
	}
	changed, err := result.RowsAffected()
	if err == nil && changed == 0 {
		return none
	}
	return err
}

// deletedRows is how many rows one statement deletes, so that others get to write between.
const deletedRows = 500

// DeleteAll deletes what a statement finds, some rows at a time: their number is the statement's last parameter.
func (d *database) DeleteAll(ctx context.Context, statement string, which ...any) (deleted int64, err error) {
	for {
		result, err := d.Write.ExecContext(ctx, statement, append(slices.Clip(which), deletedRows)...)
		if err != nil {
			return deleted, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return deleted, err
		}
		if deleted += n; n < deletedRows {
			return deleted, nil
		}
	}
}

// Wiped is DeleteAll of what must not stay in SQLite's log either.
func (d *database) Wiped(ctx context.Context, statement string, which ...any) (deleted int64, err error) {
	if deleted, err = d.DeleteAll(ctx, statement, which...); err != nil {
		return deleted, err
	}
	return deleted, d.Wipe(ctx)
}

// strings reads a column of texts.
func (d *database) strings(ctx context.Context, query string, args ...any) (list []string, err error) {
	rows, err := d.Read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, rows.Err()
}
