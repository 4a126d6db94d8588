package table

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	parquetzstd "github.com/parquet-go/parquet-go/compress/zstd"
)

// Writer writes rows of columns to a file.
type Writer interface {
	// Prepare makes rows ready to be written: values by column, of the rows that are set in keep. It is called by several
	// goroutines.
	Prepare(values [][]Value, keep []bool) (Piece, error)
	// Write writes what was prepared, in the order of the calls.
	Write(Piece) error
	// Close makes the file whole. It does not close what the file is written to.
	Close() error
}

// Piece is rows that are ready to be written.
type Piece struct {
	text []byte        // of CSV
	rows []parquet.Row // of Parquet
}

// NewWriter writes a file in a format, "csv" or "parquet"; CSV may be compressed by a coding, "gz" or "zst".
func NewWriter(to io.Writer, columns []Column, format, coding string, delimiter rune) (Writer, error) {
	if err := checkNames(columns); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(columns, func(c Column) bool { return c.Kind == Nested }); i >= 0 {
		return nil, fmt.Errorf("column %q is nested", columns[i].Name)
	}
	if format == "parquet" {
		return newParquetWriter(to, columns)
	}
	return newCSVWriter(to, columns, coding, delimiter)
}

type csvWriter struct {
	columns []Column
	comma   rune
	to      io.Writer
	close   func() error
	names   []byte // the first line, until it is written
}

func newCSVWriter(to io.Writer, columns []Column, coding string, delimiter rune) (*csvWriter, error) {
	w := &csvWriter{columns: columns, comma: ',', to: to, close: func() error { return nil }}
	if delimiter != 0 {
		w.comma = delimiter
	}
	switch coding {
	case "gz":
		z := gzip.NewWriter(to)
		w.to, w.close = z, z.Close
	case "zst":
		z, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		w.to, w.close = z, z.Close
	}
	var err error
	w.names, err = header(columns, w.comma)
	return w, err
}

func (w *csvWriter) Prepare(values [][]Value, keep []bool) (Piece, error) {
	text, err := appendRecords(nil, w.columns, values, keep, w.comma)
	return Piece{text: text}, err
}

func (w *csvWriter) Write(p Piece) error {
	for _, text := range [][]byte{w.names, p.text} {
		if len(text) == 0 {
			continue
		}
		if _, err := w.to.Write(text); err != nil {
			return err
		}
	}
	w.names = nil
	return nil
}

func (w *csvWriter) Close() error {
	if err := w.Write(Piece{}); err != nil {
		return err
	}
	return w.close()
}

const (
	// groupCells and groupBytes are when a row group is full: it is in memory until then.
	groupCells = 1 << 22
	groupBytes = 64 << 20
	groupRows  = 1 << 17
)

type parquetWriter struct {
	columns []Column
	at      []int // by column: its place in a row
	out     rowWriter
	rows    int // of the row group
	bytes   int
}

// rowWriter is the library's generic writer, as archtest's TestStructsHideForeignInstances wants it.
type rowWriter interface {
	WriteRows([]parquet.Row) (int, error)
	Flush() error
	Close() error
}

// ordered is a group whose columns keep their order; the library sorts those of a Group.
type ordered struct {
	parquet.Group
	order []string
}

func (o *ordered) Fields() []parquet.Field {
	fields := o.Group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int {
		return slices.Index(o.order, a.Name()) - slices.Index(o.order, b.Name())
	})
	return fields
}

func newParquetWriter(to io.Writer, columns []Column) (w *parquetWriter, err error) {
	defer recovered(&err)
	root := &ordered{Group: parquet.Group{}}
	for i := range columns {
		root.order = append(root.order, columns[i].Name)
		node := nodeOf(&columns[i])
		if kind := node.Type().Kind(); kind == parquet.ByteArray {
			node = parquet.Encoded(node, &parquet.RLEDictionary)
		}
		root.Group[columns[i].Name] = node
	}
	schema := parquet.NewSchema("rows", root)
	w = &parquetWriter{columns: columns, at: make([]int, len(columns))}
	for i := range columns {
		leaf, found := schema.Lookup(columns[i].Name)
		if !found {
			return nil, fmt.Errorf("column %q has no place in the file", columns[i].Name)
		}
		w.at[i] = leaf.ColumnIndex
	}
	w.out = parquet.NewGenericWriter[any](to, schema, parquet.Compression(&parquetzstd.Codec{}))
	return w, nil
}

func (w *parquetWriter) Prepare(values [][]Value, keep []bool) (Piece, error) {
	var p Piece
	cells := make([]Value, 0, len(keep)*len(w.columns))
	for row := range keep {
		if !keep[row] {
			continue
		}
		from := len(cells)
		cells = cells[:from+len(w.columns)]
		for i, at := range w.at {
			v, defined := values[i][row], 1
			if v.IsNull() {
				defined = 0
			}
			cells[from+at] = v.Level(0, defined, at)
		}
		p.rows = append(p.rows, cells[from:])
	}
	return p, nil
}

func (w *parquetWriter) Write(p Piece) (err error) {
	defer recovered(&err)
	if _, err := w.out.WriteRows(p.rows); err != nil {
		return err
	}
	w.rows += len(p.rows)
	for _, row := range p.rows {
		for _, v := range row {
			if k := v.Kind(); !v.IsNull() && k == parquet.ByteArray {
				w.bytes += len(v.ByteArray())
			}
		}
	}
	if w.rows < groupRows && w.rows*len(w.columns) < groupCells && w.bytes < groupBytes {
		return nil
	}
	w.rows, w.bytes = 0, 0
	return w.out.Flush()
}

func (w *parquetWriter) Close() (err error) {
	defer recovered(&err)
	return errors.Join(w.out.Close())
}
