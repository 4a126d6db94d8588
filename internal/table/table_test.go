package table

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"weir/internal/tensor"
)

// file writes a file of a test.
func file(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// read reads all rows as texts, and the errors of rows.
func read(paths []string, o Options) (names []string, rows [][]string, broken []string, err error) {
	s, err := Open(paths, o)
	if err != nil {
		return nil, nil, nil, err
	}
	defer s.Close()
	for _, c := range s.Columns() {
		names = append(names, c.Name)
	}
	for {
		c, err := s.Next()
		if errors.Is(err, io.EOF) {
			return names, rows, broken, nil
		}
		if err != nil {
			return names, rows, broken, err
		}
		for _, b := range c.Broken {
			broken = append(broken, strings.TrimPrefix(c.Place(b.Row), c.File+" ")+": "+b.Err.Error())
		}
		for row := range c.Rows {
			var record []string
			for i := range c.Columns {
				text, err := s.Columns()[i].Format(c.Columns[i][row])
				if err != nil {
					return names, rows, broken, err
				}
				record = append(record, text)
			}
			rows = append(rows, record)
		}
	}
}

// foreign is row i of the files that other programs wrote.
func foreign(i int) []string {
	optional := func(missing bool, text string) string {
		if missing {
			return ""
		}
		return text
	}
	at := time.Date(2026, 1, 1, 0, 0, i, i*int(time.Millisecond), time.UTC)
	cents := i - 30
	price := fmt.Sprintf("%d.%02d", max(cents, -cents)/100, max(cents, -cents)%100)
	if cents < 0 {
		price = "-" + price
	}
	return []string{
		strconv.Itoa(1<<53 + 1 + i), strconv.FormatFloat(float64(i)/4, 'g', -1, 32), optional(i%5 == 0, strconv.FormatFloat(float64(i)/3, 'g', -1, 64)),
		strconv.Itoa(i - 30), strconv.Itoa(4_000_000_000 - i), optional(i == 40, strconv.FormatBool(i < 23 || i%3 == 0)), optional(i%10 == 3, fmt.Sprintf("r%d", i%7)),
		at.Format("2006-01-02T15:04:05.999999999"), time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly), price,
	}
}

// Files of pyarrow, polars and duckdb, with all pages, codecs and encodings that they write, read as what was written.
func TestForeignFiles(t *testing.T) {
	for _, name := range []string{"pyarrow", "pyarrow-v2", "pyarrow-lz4", "pyarrow-delta", "pyarrow-half", "polars", "duckdb", "duckdb-v2"} {
		names, rows, _, err := read([]string{"testdata/" + name + ".parquet"}, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := []string{"id", "f32", "f64", "i8", "u32", "flag", "name", "when", "day", "price"}; !slices.Equal(names[:10], want) || len(rows) != 60 {
			t.Errorf("%s: %d rows of %q", name, len(rows), names)
			continue
		}
		for i, row := range rows {
			if want := foreign(i); !slices.Equal(row[:10], want) {
				t.Errorf("%s: row %d is\n%q, want\n%q", name, i, row, want)
				break
			}
			if len(row) > 10 && row[10] != strconv.FormatFloat(float64(i)/8, 'g', -1, 32) {
				t.Errorf("%s: row %d has the half %s", name, i, row[10])
			}
		}
	}
}

// What is read is written as it was, to both formats and back, in the columns' order, with nulls and further columns.
func TestWriteReadsBack(t *testing.T) {
	for _, out := range []string{"x.parquet", "x.csv", "x.csv.gz", "x.csv.zst"} {
		s, err := Open([]string{"testdata/pyarrow.parquet"}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		more, err := TensorColumn("a first name", tensor.Float32)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		format, coding := Format(out)
		w, err := NewWriter(&b, append(slices.Clone(s.Columns()), more), format, coding, 0)
		if err != nil {
			t.Fatal(err)
		}
		for {
			c, err := s.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			x := tensor.Of("x", tensor.Float32, []int64{60}, make([]float32, 60))
			keep := make([]bool, c.Rows)
			for i := range keep {
				keep[i] = i != 7
			}
			p, err := w.Prepare(append(slices.Clone(c.Columns), TensorValues(&x)), keep)
			if err == nil {
				err = w.Write(p)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
		names, rows, _, err := read([]string{file(t, out, b.Bytes())}, Options{})
		if err != nil || len(rows) != 59 || names[0] != "id" || names[10] != "a first name" {
			t.Fatalf("%s: %v, %d rows of %q", out, err, len(rows), names)
		}
		for i, row := range rows {
			if i >= 7 {
				i++
			}
			if want := append(foreign(i), "0"); !slices.Equal(row, want) {
				t.Fatalf("%s: row %d is %q, want %q", out, i, row, want)
			}
		}
	}
}

func TestCSVOfAllKinds(t *testing.T) {
	text := "\xef\xbb\xbfid,x\n7,\"a, \"\"b\"\"\nc\"\n8,\n9\n10,NaN\n1\"1,2\n"
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, text) // into memory
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"a.csv": []byte(text), "a.csv.gz": zipped.Bytes(), "b.csv": zipped.Bytes(), "a.csv.zst": e.EncodeAll([]byte(text), nil)} {
		names, rows, broken, err := read([]string{file(t, name, data)}, Options{})
		if err != nil || fmt.Sprintf("%q", names) != `["id" "x"]` || fmt.Sprintf("%q", rows) != `[["7" "a, \"b\"\nc"] ["8" ""] ["" ""] ["10" "NaN"] ["" ""]]` {
			t.Errorf("%s: %v, %q of %q", name, err, rows, names)
		}
		if len(broken) != 2 || broken[0] != "row 3 (line 5): it has 1 fields, and the file 2 columns" || !strings.HasPrefix(broken[1], `row 5 (line 7): bare "`) {
			t.Errorf("%s: %q", name, broken)
		}
	}
	_, rows, _, err := read([]string{Stdin}, Options{Stdin: strings.NewReader("a;b\n1;2\n"), Delimiter: ';'})
	if err != nil || fmt.Sprint(rows) != "[[1 2]]" {
		t.Errorf("%v %v", rows, err)
	}
}

// Several files are one table; a pattern and a folder stand for files.
func TestFilesOfOneTable(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"a.csv": "x\n1\n2\n", "b.csv": "x\n3\n", "other.csv": "y\n3\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, rows, _, err := read([]string{filepath.Join(folder, "[ab].csv")}, Options{}); err != nil || fmt.Sprint(rows) != "[[1] [2] [3]]" {
		t.Errorf("%v %v", rows, err)
	}
	if _, _, _, err := read([]string{filepath.Join(folder, "a.csv"), filepath.Join(folder, "other.csv")}, Options{}); err == nil ||
		!strings.Contains(err.Error(), "other.csv has other columns than") {
		t.Error(err)
	}
	for path, want := range map[string]string{folder: "has no .parquet file", filepath.Join(folder, "*.txt"): "no file matches", filepath.Join(folder, "none.csv"): "no such file"} {
		if _, _, _, err := read([]string{path}, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	whole, err := os.ReadFile("testdata/pyarrow.parquet")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"a.txt", []byte("x\n1\n"), "its name ends in none of"}, {"a.csv", nil, "it is empty"}, {"a.csv", []byte("x,x\n"), "columns 1 and 2 have the same name"},
		{"a.csv", []byte("x,\n"), "column 2 has no name"}, {"a.csv", whole, "it is a Parquet file"}, {"a.parquet", []byte("x\n1\n"), "less than a Parquet file"},
		{"a.parquet", whole[:len(whole)-100], "or one that was cut"}, {"a.parquet", append(slices.Clone(whole[:len(whole)-4]), "PARE"...), "it is encrypted"},
		{"a.csv", []byte("x\n\"" + strings.Repeat("y", maxRecord+maxRecord/8)), "the record is longer than"},
	} {
		if _, _, _, err := read([]string{file(t, c.name, c.data)}, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %d bytes: %v, want %s", c.name, len(c.data), err, c.want)
		}
	}
	if _, _, _, err := read([]string{"testdata/pyarrow-prefix.parquet"}, Options{}); err == nil || !strings.Contains(err.Error(), `column "name": it has the encoding DELTA_BYTE_ARRAY`) {
		t.Error(err)
	}
	s, err := Open([]string{"testdata/pyarrow-nested.parquet"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if c := s.Columns(); c[10].Name != "list" || c[10].Kind != Nested {
		t.Errorf("%+v", c[10])
	}
	if c, err := s.Next(); err != nil || c.Columns[10] != nil || len(c.Columns[0]) != 60 {
		t.Errorf("%+v, %v", c, err)
	}
}
