package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

const (
	magic = "PAR1"
	// maxFooter bounds the metadata of a file.
	maxFooter = 64 << 20
	// maxHeld bounds the pages of all columns that are in memory at a time.
	maxHeld = 1 << 30
)

// parquetFile reads a Parquet file, all columns side by side.
type parquetFile struct {
	in       *os.File
	size     int64
	file     *parquet.File
	list     []Column
	leaves   []int // by column: its place among the file's leaves; -1: it is nested
	selected []bool
	group    int // that is open, from 1
	left     int64
	row      int64
	cursors  []*cursor // by column; nil: not selected
}

func openParquet(path string) (_ reader, err error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f := &parquetFile{in: in}
	defer recovered(&err)
	if err = f.open(); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return f, nil
}

// recovered makes an error of a panic: the library panics at some files that are broken.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the file is broken: %v", p)
	}
}

func (f *parquetFile) open() error {
	info, err := f.in.Stat()
	if err != nil {
		return err
	}
	f.size = info.Size()
	if err := checkFooter(f.in, f.size); err != nil {
		return err
	}
	f.file, err = parquet.OpenFile(f.in, f.size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return err
	}
	halves := halfFloats(f.file.Metadata())
	for _, field := range f.file.Root().Columns() {
		c, at := columnOf(field.Name(), field), -1
		if c.Kind != Nested {
			if at = field.Index(); halves[at] {
				c.asHalf()
			}
		}
		f.list, f.leaves = append(f.list, c), append(f.leaves, at)
	}
	f.cursors = make([]*cursor, len(f.list))
	return checkNames(f.list)
}

// checkFooter looks at a file's metadata before the library takes memory for them.
func checkFooter(in io.ReaderAt, size int64) error {
	var tail [8]byte // length, magic
	if size < int64(len(magic)+len(tail)) {
		return fmt.Errorf("it has %d bytes, less than a Parquet file", size)
	}
	if _, err := in.ReadAt(tail[:], size-int64(len(tail))); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	switch room := size - int64(len(magic)+len(tail)); {
	case string(tail[4:]) == "PARE":
		return errors.New("it is encrypted")
	case string(tail[4:]) != magic || length > room:
		return fmt.Errorf("its end is %q: no Parquet file, or one that was cut", tail)
	case length > maxFooter:
		return fmt.Errorf("its metadata have %d bytes, and at most %d are read; write larger row groups", length, maxFooter)
	}
	footer := make([]byte, length)
	if _, err := in.ReadAt(footer, size-int64(len(tail))-length); err != nil {
		return err
	}
	if _, err := skimStruct(footer); err != nil {
		return fmt.Errorf("its metadata: %w", err)
	}
	return nil
}

// halfFloats tells the leaves that are float16, which the library has as bytes.
func halfFloats(m *format.FileMetaData) map[int]bool {
	list, leaf := map[int]bool{}, 0
	for i := range m.Schema {
		e := &m.Schema[i]
		if !e.Type.Valid {
			continue
		}
		if _, half := e.LogicalType.Value.(*format.Float16Type); half {
			list[leaf] = true
		}
		leaf++
	}
	return list
}

func (f *parquetFile) columns() []Column       { return f.list }
func (f *parquetFile) selects(selected []bool) { f.selected = selected }
func (f *parquetFile) progress() (done, total int64) {
	return f.row, max(f.file.NumRows(), 1)
}

func (f *parquetFile) Close() error {
	return f.in.Close()
}

func (f *parquetFile) next() (c *Chunk, err error) {
	defer recovered(&err)
	for f.left == 0 {
		if err := f.enter(); err != nil {
			return nil, err
		}
	}
	rows := int(min(f.left, int64(rowsOf(f.width()))))
	c = &Chunk{First: f.row + 1, Rows: rows, Columns: make([][]Value, len(f.list))}
	held := int64(0)
	for i, cursor := range f.cursors {
		if cursor == nil {
			continue
		}
		values := make([]Value, rows)
		if err := cursor.read(values, maxHeld-held); err != nil {
			return nil, fmt.Errorf("column %q: %w", f.list[i].Name, err)
		}
		if held += cursor.held; f.list[i].half {
			for j := range values {
				values[j] = halfValue(values[j])
			}
		}
		c.Columns[i] = values
	}
	f.left -= int64(rows)
	f.row += int64(rows)
	return c, nil
}

// width is how many columns are read.
func (f *parquetFile) width() (n int) {
	for _, c := range f.cursors {
		if c != nil {
			n++
		}
	}
	return n
}

// enter opens the next row group.
func (f *parquetFile) enter() error {
	groups := f.file.Metadata().RowGroups
	if f.group == len(groups) {
		return io.EOF
	}
	about := &groups[f.group]
	f.group++
	if f.left = about.NumRows; f.left < 0 {
		return fmt.Errorf("a row group has %d rows", f.left)
	}
	for i, leaf := range f.leaves {
		if leaf < 0 || f.selected != nil && !f.selected[i] {
			continue
		}
		if leaf >= len(about.Columns) {
			return fmt.Errorf("column %q is missing in a row group", f.list[i].Name)
		}
		if about.Columns[leaf].FilePath != "" {
			return fmt.Errorf("column %q stands in another file, %q", f.list[i].Name, about.Columns[leaf].FilePath)
		}
		p, err := newPages(f.in, f.size, &about.Columns[leaf].MetaData, f.file.Root().Columns()[i])
		if err != nil {
			return fmt.Errorf("column %q: %w", f.list[i].Name, err)
		}
		f.cursors[i] = &cursor{pages: p}
	}
	return nil
}

// cursor reads a column of a row group.
type cursor struct {
	*pages
	left []Value // of the page that is open
	held int64   // bytes of it
}

// read fills dst. most bounds the bytes of a page.
func (c *cursor) read(dst []Value, most int64) error {
	for len(dst) > 0 {
		if len(c.left) == 0 {
			left, held, err := c.next(most)
			if errors.Is(err, io.EOF) {
				return errors.New("it has fewer values than rows")
			}
			if err != nil {
				return err
			}
			c.left, c.held = left, held
			continue
		}
		n := copy(dst, c.left)
		dst, c.left = dst[n:], c.left[n:]
	}
	return nil
}
