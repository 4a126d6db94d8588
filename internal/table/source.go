package table

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
)

// Stdin names the standard input among the paths of a source.
const Stdin = "-"

// Options say how files are read. The zero value is usual.
type Options struct {
	Format    string // of files whose name does not tell: "csv" or "parquet"; "" refuses them, and takes CSV from the standard input
	Delimiter rune   // of CSV; 0: a comma
	Stdin     io.Reader
}

// Limits of a file.
const (
	maxColumns = 1 << 16
	// chunkCells and chunkBytes are about what a chunk holds: rows enough to compute with, and little memory.
	chunkCells = 1 << 16
	chunkBytes = 4 << 20
	mostRows   = 4096
)

// Chunk is rows of one file, which belong to the caller. Values keep the memory alive that they point into.
type Chunk struct {
	File    string
	First   int64 // the number of the first row in its file, from 1
	Rows    int
	Columns [][]Value // in the order of the source's columns; nil: not selected
	Lines   []int     // of CSV: where each row begins
	Broken  []RowError
}

// RowError is what is wrong with one row.
type RowError struct {
	Row    int    // in its chunk
	Column string // "": the whole row
	Err    error
}

// Place names a row for people: its file, its number and the line of a CSV file.
func (c *Chunk) Place(row int) string {
	if row < len(c.Lines) {
		return fmt.Sprintf("%s row %d (line %d)", c.File, c.First+int64(row), c.Lines[row])
	}
	return fmt.Sprintf("%s row %d", c.File, c.First+int64(row))
}

// reader reads one file.
type reader interface {
	columns() []Column
	selects(selected []bool) // before the first next
	next() (*Chunk, error)   // io.EOF after the last one
	progress() (done, total int64)
	Close() error
}

// Source is one or several files with the same columns, read one after another. It is used by one goroutine; others may
// ask for its progress.
type Source struct {
	opts     Options
	paths    []string
	sizes    []int64 // in bytes
	at       int
	current  reader
	columns  []Column
	selected []bool

	done, total atomic.Int64 // bytes, as Progress says
}

// Open opens the first of the files; a folder stands for the Parquet files in it and below it. The caller closes the source.
func Open(paths []string, o Options) (*Source, error) {
	s := &Source{opts: o}
	for _, path := range paths {
		if err := s.add(path); err != nil {
			return nil, err
		}
	}
	if len(s.paths) == 0 {
		return nil, errors.New("no file is named")
	}
	var err error
	if s.current, err = s.open(s.paths[0]); err != nil {
		return nil, err
	}
	s.columns = s.current.columns()
	return s, nil
}

func (s *Source) add(path string) error {
	if path == Stdin {
		s.paths, s.sizes = append(s.paths, path), append(s.sizes, 0)
		return nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?[") {
		found, _ := filepath.Glob(path)
		if len(found) == 0 {
			return fmt.Errorf("no file matches %s", path)
		}
		for _, one := range found {
			if err := s.add(one); err != nil {
				return err
			}
		}
		return nil
	}
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		s.paths, s.sizes = append(s.paths, path), append(s.sizes, info.Size())
		return nil
	}
	before := len(s.paths)
	err = filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".parquet") {
			return err
		}
		return s.add(path)
	})
	if err == nil && len(s.paths) == before {
		err = fmt.Errorf("%s has no .parquet file", path)
	}
	return err
}

// open opens a file by its name's ending.
func (s *Source) open(path string) (r reader, err error) {
	format, coding := Format(path)
	switch {
	case format == "" && s.opts.Format != "":
		format = s.opts.Format
	case format == "" && path == Stdin:
		format = "csv"
	}
	switch format {
	case "csv":
		r, err = openCSV(path, coding, &s.opts)
	case "parquet":
		if path == Stdin {
			return nil, errors.New("a Parquet file is read from its end, which the standard input has not: name a file")
		}
		r, err = openParquet(path)
	default:
		return nil, fmt.Errorf("read %s: its name ends in none of .csv, .csv.gz, .csv.zst and .parquet; --format csv or --format parquet says what it is", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// Format is what a name's ending says: "csv", "parquet" or "", and "gz" or "zst" for a CSV file that is compressed.
func Format(path string) (format, coding string) {
	name := strings.ToLower(path)
	for _, c := range []string{"gz", "zst"} {
		if short, ok := strings.CutSuffix(name, "."+c); ok {
			name, coding = short, c
		}
	}
	switch {
	case strings.HasSuffix(name, ".csv"):
		return "csv", coding
	case strings.HasSuffix(name, ".parquet") && coding == "":
		return "parquet", ""
	}
	return "", coding
}

// Columns are those of all files.
func (s *Source) Columns() []Column { return s.columns }

// Paths are the files.
func (s *Source) Paths() []string { return s.paths }

// Select says which columns chunks have; all, where it is not called. It is called before the first Next.
func (s *Source) Select(selected []bool) {
	s.selected = selected
	s.current.selects(selected)
}

// Next is the next chunk; io.EOF after the last row.
func (s *Source) Next() (*Chunk, error) {
	for {
		chunk, err := s.current.next()
		if err == nil {
			chunk.File = s.paths[s.at]
			s.advance()
			return chunk, nil
		}
		if !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read %s: %w", s.paths[s.at], err)
		}
		if s.at+1 == len(s.paths) {
			return nil, io.EOF
		}
		if err := s.follow(); err != nil {
			return nil, err
		}
	}
}

// follow opens the next file, whose columns must be those of the first.
func (s *Source) follow() error {
	if err := s.current.Close(); err != nil {
		return err
	}
	s.at++
	next, err := s.open(s.paths[s.at])
	if err != nil {
		s.current = closed{}
		return err
	}
	s.current = next
	same := func(a, b Column) bool { return a.Name == b.Name && a.Kind == b.Kind && a.Type == b.Type }
	if have := next.columns(); !slices.EqualFunc(have, s.columns, same) {
		return fmt.Errorf("%s has other columns than %s: %s instead of %s; score them apart", s.paths[s.at], s.paths[0], listed(have), listed(s.columns))
	}
	if s.selected != nil {
		next.selects(s.selected)
	}
	return nil
}

func listed(columns []Column) string {
	list := make([]string, len(columns))
	for i := range columns {
		list[i] = columns[i].Name + " (" + columns[i].Type + ")"
	}
	return strings.Join(list, ", ")
}

// Progress is how many bytes of all files are read, about, with the latest chunk; total is 0 where it is not known. Any
// goroutine may call it.
func (s *Source) Progress() (done, total int64) { return s.done.Load(), s.total.Load() }

// advance notes how far the files are read.
func (s *Source) advance() {
	var done, total int64
	for i, size := range s.sizes {
		if size == 0 && s.paths[i] == Stdin {
			return
		}
		total += size
		if i < s.at {
			done += size
		}
	}
	if part, whole := s.current.progress(); whole > 0 {
		done += int64(float64(s.sizes[s.at]) * float64(part) / float64(whole))
	}
	s.done.Store(done)
	s.total.Store(total)
}

// Close closes the file that is open.
func (s *Source) Close() error { return s.current.Close() }

// closed is a file that could not be opened.
type closed struct{}

func (closed) columns() []Column        { return nil }
func (closed) selects([]bool)           {}
func (closed) next() (*Chunk, error)    { return nil, io.EOF }
func (closed) progress() (int64, int64) { return 0, 0 }
func (closed) Close() error             { return nil }

// rowsOf is how many rows a chunk of so many columns has.
func rowsOf(columns int) int { return min(max(chunkCells/max(columns, 1), 1), mostRows) }

// checkNames refuses tables whose columns cannot be told apart.
func checkNames(columns []Column) error {
	if len(columns) > maxColumns {
		return fmt.Errorf("it has %d columns, and at most %d are read", len(columns), maxColumns)
	}
	seen := make(map[string]int, len(columns))
	for i := range columns {
		name := columns[i].Name
		if before, twice := seen[name]; twice || name == "" {
			if name == "" {
				return fmt.Errorf("column %d has no name; the first line of a CSV file names the columns", i+1)
			}
			return fmt.Errorf("columns %d and %d have the same name, %q", before+1, i+1, name)
		}
		seen[name] = i
	}
	return nil
}
