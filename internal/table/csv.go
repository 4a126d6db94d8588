package table

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
)

const (
	// maxRecord bounds one record of a CSV file, before its end is found.
	maxRecord = 16 << 20
	// maxWindow bounds the memory of a zstd decoder: what zstd's own command takes without being told to take more.
	maxWindow = 128 << 20
	readAhead = 256 << 10
)

// csvFile reads a CSV file with a line of names.
type csvFile struct {
	in       io.Closer
	raw      *counted // bytes of the file
	records  *limited // bytes of records
	csv      *csv.Reader
	names    []Column
	selected []bool
	size     int64
	row      int64
	texts    int // bytes of the last chunk's values: what the next one probably has
}

// counted counts the bytes that are read of a file.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

// limited ends a record that does not end.
type limited struct {
	io.Reader
	since int // bytes since the last record's end
}

var errLongRecord = fmt.Errorf("the record is longer than %d bytes: a quote may be open, or the file is no CSV", maxRecord)

func (l *limited) Read(p []byte) (int, error) {
	if l.since > maxRecord {
		return 0, errLongRecord
	}
	n, err := l.Reader.Read(p)
	l.since += n
	return n, err
}

func openCSV(path, coding string, o *Options) (reader, error) {
	f := &csvFile{raw: &counted{Reader: o.Stdin}, in: io.NopCloser(nil)}
	if path != Stdin {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		if info, err := file.Stat(); err == nil {
			f.size = info.Size()
		}
		f.raw.Reader, f.in = file, file
	}
	if err := f.begin(coding, o.Delimiter); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// begin undoes the compression, which the first bytes tell where the name does not, and reads the names.
func (f *csvFile) begin(coding string, delimiter rune) error {
	buffered := bufio.NewReaderSize(f.raw, readAhead)
	head, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch text := string(head); {
	case coding == "gz" || strings.HasPrefix(text, "\x1f\x8b"):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return fmt.Errorf("its gzip: %w", err)
		}
		buffered = bufio.NewReaderSize(z, readAhead)
	case coding == "zst" || text == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return fmt.Errorf("its zstd: %w", err)
		}
		buffered = bufio.NewReaderSize(z, readAhead) // a decoder of one goroutine has nothing to close
	case strings.HasPrefix(text, "PAR1"):
		return errors.New("it is a Parquet file: say --format parquet, or let its name end in .parquet")
	}
	if mark, _ := buffered.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = buffered.Discard(len(mark)) // was peeked
	}
	f.records = &limited{Reader: buffered}
	f.csv = csv.NewReader(f.records)
	if f.csv.ReuseRecord = true; delimiter != 0 {
		f.csv.Comma = delimiter
	}
	names, err := f.csv.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty; its first line must name the columns")
	}
	if err != nil {
		return fmt.Errorf("its line of names: %w", err)
	}
	if len(names) > maxColumns {
		return fmt.Errorf("it has %d columns, and at most %d are read", len(names), maxColumns)
	}
	for _, name := range names {
		f.names = append(f.names, untyped(strings.Clone(name)))
	}
	f.records.since = 0
	return checkNames(f.names)
}

func (f *csvFile) columns() []Column             { return f.names }
func (f *csvFile) selects(selected []bool)       { f.selected = selected }
func (f *csvFile) progress() (done, total int64) { return f.raw.n, f.size }

func (f *csvFile) Close() error { return f.in.Close() }

func (f *csvFile) next() (*Chunk, error) {
	rows, bytes := rowsOf(len(f.names)), 0
	c := &Chunk{First: f.row + 1, Columns: make([][]Value, len(f.names)), Lines: make([]int, 0, rows)}
	for i := range c.Columns {
		if f.selected == nil || f.selected[i] {
			c.Columns[i] = make([]Value, 0, rows)
		}
	}
	texts := make([]byte, 0, f.texts)
	for c.Rows < rows && bytes < chunkBytes {
		record, err := f.csv.Read()
		bytes += f.records.since
		f.records.since = 0
		if errors.Is(err, io.EOF) {
			break
		}
		wrong, isRow := errors.AsType[*csv.ParseError](err)
		if err != nil && (!isRow || errors.Is(err, errLongRecord)) {
			return nil, err
		}
		if err != nil {
			c.Broken = append(c.Broken, RowError{Row: c.Rows, Err: explain(wrong, len(record), len(f.names))})
			c.Lines, record = append(c.Lines, wrong.StartLine), nil
		} else {
			line, _ := f.csv.FieldPos(0)
			c.Lines = append(c.Lines, line)
		}
		for i := range c.Columns {
			switch {
			case c.Columns[i] == nil:
			case i < len(record) && record[i] != "":
				at := len(texts)
				texts = append(texts, record[i]...)
				c.Columns[i] = append(c.Columns[i], parquet.ByteArrayValue(texts[at:len(texts):len(texts)]))
			default:
				c.Columns[i] = append(c.Columns[i], Value{})
			}
		}
		c.Rows++
	}
	if c.Rows == 0 {
		return nil, io.EOF
	}
	f.row, f.texts = f.row+int64(c.Rows), len(texts)
	return c, nil
}

// explain says what is wrong with a record.
func explain(e *csv.ParseError, have, want int) error {
	if errors.Is(e, csv.ErrFieldCount) {
		return fmt.Errorf("it has %d fields, and the file %d columns", have, want)
	}
	return e.Err
}

// appendRecords writes rows as CSV. rows: nil for all.
func appendRecords(dst []byte, columns []Column, values [][]Value, rows []bool, comma rune) ([]byte, error) {
	out := &appender{dst}
	w := csv.NewWriter(out)
	w.Comma = comma
	record := make([]string, len(columns))
	for row := range rows {
		if !rows[row] {
			continue
		}
		for i := range columns {
			text, err := columns[i].Format(values[i][row])
			if err != nil {
				return nil, err
			}
			record[i] = text
		}
		if err := w.Write(record); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return out.b, w.Error()
}

// appender appends what is written.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// header is the line of names.
func header(columns []Column, comma rune) ([]byte, error) {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].Name
	}
	out := &appender{}
	w := csv.NewWriter(out)
	w.Comma = comma
	err := w.Write(names)
	w.Flush()
	return out.b, errors.Join(err, w.Error())
}
