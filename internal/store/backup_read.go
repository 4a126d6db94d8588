package store

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
)

// ErrBackup says that a backup is damaged, cut off or none.
var ErrBackup = errors.New("this is no whole backup of a store")

// Opener opens a backup, from its beginning each time.
type Opener func() (io.ReadCloser, error)

var (
	backupTableName  = regexp.MustCompile(`^weir_[a-z_]{1,50}$`)
	backupColumnName = regexp.MustCompile(`^[a-z_]{1,50}$`)
)

// readBackup calls each for the rows of a backup in their order. That the backup is whole is known at its end.
func readBackup(open Opener, kind string, each func(backupTable, []any) error) (schema int, backed BackupSummary, err error) {
	file, err := open()
	if err != nil {
		return 0, backed, err
	}
	schema, backed, err = readBackupLines(file, kind, each)
	return schema, backed, errors.Join(err, file.Close())
}

func readBackupLines(from io.Reader, kind string, each func(backupTable, []any) error) (schema int, backed BackupSummary, err error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 1<<16), maxBackupLine)
	var head backupHead
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &head) != nil || head.Format == 0 {
		return 0, backed, errors.Join(fmt.Errorf("%w: it does not begin as one", ErrBackup), lines.Err())
	}
	switch {
	case head.Format != backupFormat:
		return 0, backed, fmt.Errorf("%w that this weir reads: its form is %d, and this weir knows %d", ErrBackup, head.Format, backupFormat)
	case head.Kind != kind:
		return 0, backed, fmt.Errorf("%w: it is one of %.20q, where one of %q is needed", ErrBackup, head.Kind, kind)
	}
	r := backupReader{kind: kind, each: each}
	sum := sha256.New()
	for {
		sum.Write(lines.Bytes())
		sum.Write([]byte{'\n'})
		if !lines.Scan() {
			return 0, backed, errors.Join(fmt.Errorf("%w: it ends before its last line", ErrBackup), lines.Err())
		}
		line := lines.Bytes()
		var end backupEnd
		if bytes.HasPrefix(line, []byte(`{"rows":`)) && json.Unmarshal(line, &end) == nil {
			backed, err = r.end(&end, hex.EncodeToString(sum.Sum(nil)))
			if err == nil && lines.Scan() {
				err = fmt.Errorf("%w: something follows its last line", ErrBackup)
			}
			return head.Schema, backed, err
		}
		if err := r.take(line); err != nil {
			return 0, backed, err
		}
	}
}

type backupReader struct {
	kind  string
	each  func(backupTable, []any) error
	table backupTable
	rows  int64
}

func (r *backupReader) end(end *backupEnd, sum string) (backed BackupSummary, err error) {
	if sum != end.SHA256 || r.rows != end.Rows {
		return backed, fmt.Errorf("%w: its checksum is %s and should be %.64q, for %d rows and %d", ErrBackup, sum, end.SHA256, r.rows, end.Rows)
	}
	return BackupSummary{r.rows, end.Audit}, nil
}

// take reads a line that begins a table or is a row.
func (r *backupReader) take(line []byte) error {
	if len(line) > 0 && line[0] == '{' {
		var t backupTable
		if err := json.Unmarshal(line, &t); err != nil {
			return fmt.Errorf("%w: %w", ErrBackup, err)
		}
		if !backupTableName.MatchString(t.Table) || t.Table == "weir_schema" || isKeyTable(t.Table) != (r.kind == backupKeys) || len(t.Columns) == 0 || len(t.Columns) > 200 ||
			slices.ContainsFunc(t.Columns, func(c string) bool { return !backupColumnName.MatchString(c) }) {
			return fmt.Errorf("%w: it has the table %.60q with %d columns, which no store has", ErrBackup, t.Table, len(t.Columns))
		}
		r.table = t
		return nil
	}
	var cells []json.RawMessage
	if err := json.Unmarshal(line, &cells); err != nil || r.table.Table == "" || len(cells) != len(r.table.Columns) {
		return fmt.Errorf("%w: row %d of the table %q cannot be read", ErrBackup, r.rows+1, r.table.Table)
	}
	row := make([]any, len(cells))
	for i, text := range cells {
		var err error
		if row[i], err = cellIn(text); err != nil {
			return fmt.Errorf("%w: row %d, column %s of the table %s: %w", ErrBackup, r.rows+1, r.table.Columns[i], r.table.Table, err)
		}
	}
	r.rows++
	return r.each(r.table, row)
}
