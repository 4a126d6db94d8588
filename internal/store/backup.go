package store

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"iter"
	"slices"
	"time"
	"unicode/utf8"
)

// A backup is lines of JSON: a backupHead; for each table a backupTable, then its rows as arrays; a backupEnd with the
// digest of all lines before. It reads the same whichever database it is of. The data keys are a backup of their
// own, so that they can be kept for less long: their loss is how tenants are forgotten.
const (
	backupFormat = 1
	backupStore  = "store"
	backupKeys   = "data keys"
	// maxBackupLine bounds a row: the largest are answers and responses, of some megabytes.
	maxBackupLine = 256 << 20
)

// keyTables hold the data keys, in the store's own database or another one.
var keyTables = []string{"weir_data_key_store", "weir_data_keys"}

func isKeyTable(table string) bool { return slices.Contains(keyTables, table) }

type backupHead struct {
	Format int       `json:"weir_backup"`
	Kind   string    `json:"kind"`
	Schema int       `json:"schema"` // how many migrations the store had
	Made   time.Time `json:"made"`
	From   string    `json:"from"` // the database
}

type backupTable struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
}

type backupEnd struct {
	Rows   int64  `json:"rows"`
	Audit  string `json:"audit_head,omitempty"`
	SHA256 string `json:"sha256"`
}

// BackupSummary says what a backup holds.
type BackupSummary struct {
	Rows  int64
	Audit string // the head of its audit log; "": it has no entry
}

// Chain is what knows how the rows of the audit log follow from one another.
type Chain interface {
	// ReadHead names the last row that a transaction sees; "": there is none.
	ReadHead(ctx context.Context, tx *sql.Tx) (string, error)
	// CheckRows reads the log's rows from a backup. end is the head that the backup names, once all of them are read.
	CheckRows(rows iter.Seq[Row], end func() string) error
}

// Row is a row of a table in a backup.
type Row struct {
	columns []string
	cells   []any
}

// Cell is what a row has in a column; nil where there is no such column.
func (r Row) Cell(column string) any {
	if i := slices.Index(r.columns, column); i >= 0 {
		return r.cells[i]
	}
	return nil
}

// Backup writes all of the store but the data keys, as it is at one moment, while servers go on writing.
func (s *DB) Backup(ctx context.Context, to io.Writer, log Chain) (BackupSummary, error) {
	return s.backup(ctx, to, backupStore, log)
}

// BackupKeys writes the data keys, which are encrypted with the master key. Made after Backup it has all
// that the rows there need, but those of tenants that were forgotten in between.
func (s *DB) BackupKeys(ctx context.Context, to io.Writer) error {
	if s.keys == nil {
		return fmt.Errorf("%w are not opened: no master key is set", ErrKeys)
	}
	_, err := s.keys.backup(ctx, to, backupKeys, nil)
	return err
}

func (d *database) backup(ctx context.Context, to io.Writer, kind string, log Chain) (BackupSummary, error) {
	tx, err := d.snapshot(ctx)
	if err != nil {
		return BackupSummary{}, err
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	w := &backupWriter{to: bufio.NewWriterSize(to, 1<<16), sum: sha256.New()}
	head := backupHead{Format: backupFormat, Kind: kind, Made: time.Now().UTC(), From: d.dialect.folder}
	tables := keyTables
	last := ""
	if kind == backupStore {
		if err := tx.QueryRowContext(ctx, `SELECT max(version) FROM weir_schema`).Scan(&head.Schema); err != nil {
			return BackupSummary{}, err
		}
		if tables, err = d.backupTables(ctx, tx); err != nil {
			return BackupSummary{}, err
		}
		if last, err = log.ReadHead(ctx, tx); err != nil {
			return BackupSummary{}, err
		}
	}
	w.line(head)
	for _, table := range tables {
		if err := w.table(ctx, tx, table); err != nil {
			return BackupSummary{}, fmt.Errorf("back up the table %s: %w", table, err)
		}
	}
	w.line(backupEnd{Rows: w.rows, Audit: last, SHA256: hex.EncodeToString(w.sum.Sum(nil))})
	return BackupSummary{w.rows, last}, w.flush()
}

// tablesOf lists weir's tables.
func (d *database) tablesOf(ctx context.Context, tx *sql.Tx) ([]string, error) {
	rows, err := tx.QueryContext(ctx, d.dialect.tables)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// backupTables are those that a backup of a store holds.
func (d *database) backupTables(ctx context.Context, tx *sql.Tx) ([]string, error) {
	all, err := d.tablesOf(ctx, tx)
	return slices.DeleteFunc(all, func(name string) bool { return name == "weir_schema" || isKeyTable(name) }), err
}

// clear makes sure that a database has none of weir's tables that are mine. force: it drops those that are there.
func (d *database) clear(ctx context.Context, tx *sql.Tx, force bool, mine func(table string) bool) error {
	tables, err := d.tablesOf(ctx, tx)
	tables = slices.DeleteFunc(tables, func(table string) bool { return !mine(table) })
	if err != nil || len(tables) == 0 {
		return err
	}
	if !force {
		return fmt.Errorf("%w, with %d tables of weir; restore into another place, or say --force, which drops them with all that they hold", ErrNotEmpty, len(tables))
	}
	for _, table := range tables {
		if _, err := tx.ExecContext(ctx, `DROP TABLE `+table); err != nil {
			return err
		}
	}
	if !slices.Contains(tables, chainTable) {
		return nil
	}
	return d.dropGuardFunctions(ctx, tx)
}

// backupWriter writes lines, and keeps the first error.
type backupWriter struct {
	to   *bufio.Writer
	sum  hash.Hash
	rows int64
	err  error
}

func (w *backupWriter) line(v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil && w.err == nil {
		w.err = err
	}
	if b.Len() > maxBackupLine && w.err == nil {
		w.err = fmt.Errorf("a row has %d bytes; a backup takes %d", b.Len(), maxBackupLine)
	}
	if w.err == nil {
		_, w.err = w.to.Write(b.Bytes())
		w.sum.Write(b.Bytes())
	}
}

func (w *backupWriter) flush() error {
	if w.err != nil {
		return w.err
	}
	return w.to.Flush()
}

func (w *backupWriter) table(ctx context.Context, tx *sql.Tx, table string) error {
	order := ""
	if table == chainTable {
		order = " ORDER BY sequence"
	}
	rows, err := tx.QueryContext(ctx, `SELECT * FROM `+table+order)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	w.line(backupTable{table, columns})
	cells, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() && w.err == nil {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		row := make([]any, len(cells))
		for i, c := range cells {
			row[i] = cellOut(c)
		}
		w.line(row)
		w.rows++
	}
	return cmp.Or(rows.Err(), w.err)
}

// bytesCell is a cell of bytes, or of text that is no UTF-8; JSON has either in base64.
type bytesCell struct {
	Bytes []byte `json:"bytes,omitempty"`
	Text  []byte `json:"text,omitempty"`
	Kind  string `json:"kind"`
}

func cellOut(c any) any {
	switch c := c.(type) {
	case []byte:
		return bytesCell{Bytes: c, Kind: "bytes"}
	case string:
		if !utf8.ValidString(c) {
			return bytesCell{Text: []byte(c), Kind: "text"}
		}
	}
	return c
}

// cellIn is what cellOut was made of.
func cellIn(text json.RawMessage) (any, error) {
	switch {
	case bytes.Equal(text, []byte("null")):
		return nil, nil
	case text[0] == '"':
		var s string
		err := json.Unmarshal(text, &s)
		return s, err
	case text[0] == '{':
		var c bytesCell
		if err := json.Unmarshal(text, &c); err != nil {
			return nil, err
		}
		if c.Kind == "text" {
			return string(c.Text), nil
		}
		return append([]byte{}, c.Bytes...), nil
	}
	var n int64
	err := json.Unmarshal(text, &n)
	return n, err
}
