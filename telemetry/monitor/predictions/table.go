package predictions

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/internal/table"
)

// Table holds columns of equal length, read of CSV and Parquet files.
type Table struct {
	Rows    int
	Names   []string             // of the columns, in the file's order
	Numbers map[string][]float64 // NaN is missing
	Texts   map[string][]string  // "" is missing
}

// maxTableCells bounds a table: values, whatever their type.
const maxTableCells = 1 << 28

// Has reports whether there is such a column.
func (t *Table) Has(name string) bool { return slices.Contains(t.Names, name) }

// Text is a column as strings, whatever its type.
func (t *Table) Text(name string) []string {
	if list, is := t.Texts[name]; is {
		return list
	}
	return textsOf(t.Numbers[name])
}

func textsOf(numbers []float64) []string {
	out := make([]string, 0, len(numbers))
	for _, x := range numbers {
		text := ""
		if !math.IsNaN(x) {
			text = strconv.FormatFloat(x, 'f', -1, 64)
		}
		out = append(out, text)
	}
	return out
}

// ReadTable reads a file by its ending, .csv, .csv.gz, .csv.zst or .parquet, or all Parquet files of a
// folder and below it as one table: columns that a file lacks are missing there.
func ReadTable(path string) (*Table, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return readOne(path)
	}
	var all *Table
	err = filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, fileEnd) {
			return err
		}
		t, err := readOne(path)
		if err != nil {
			return err
		}
		if all == nil {
			all = t
			return nil
		}
		return all.join(t)
	})
	if err == nil && all == nil {
		err = fmt.Errorf("%s has no %s file; files get this name when they are whole, see --prediction-log-age", path, fileEnd)
	}
	return all, err
}

// readOne reads a file. From a Parquet file it takes flat columns of numbers, truth values and strings; a column of a CSV file is one of
// numbers where all its values are, or are missing: true and false are 1 and 0.
func readOne(path string) (*Table, error) {
	source, err := table.Open([]string{path}, table.Options{})
	if err != nil {
		return nil, err
	}
	defer source.Close()
	t := &Table{Numbers: map[string][]float64{}, Texts: map[string][]string{}}
	columns := source.Columns()
	selected := make([]bool, len(columns))
	for i := range columns {
		c := &columns[i]
		switch selected[i] = !c.IsNested() && !c.IsInt96(); {
		case !selected[i]:
			continue
		case c.IsBytes():
			t.Texts[c.Name] = []string{}
		default:
			t.Numbers[c.Name] = []float64{}
		}
		t.Names = append(t.Names, c.Name)
	}
	source.Select(selected)
	for {
		chunk, err := source.Next()
		switch {
		case errors.Is(err, io.EOF):
			t.convert(columns)
			return t, nil
		case err != nil:
			return nil, err
		case len(chunk.Broken) > 0:
			return nil, fmt.Errorf("%s: %w", chunk.Place(chunk.Broken[0].Row), chunk.Broken[0].Err)
		case (t.Rows + chunk.Rows) > maxTableCells/max(len(t.Names), 1):
			return nil, fmt.Errorf("read %s: it has more than %d values", path, maxTableCells)
		}
		t.add(columns, chunk)
	}
}

// convert makes columns of CSV numbers where all their values are.
func (t *Table) convert(columns []table.Column) {
	for i := range columns {
		name := columns[i].Name
		if columns[i].Kind != table.Untyped {
			continue
		}
		texts := t.Texts[name]
		numbers := allNumbers(texts)
		if numbers == nil {
			continue
		}
		if t.Numbers[name] = numbers; name == ColumnID && !slices.Equal(textsOf(numbers), texts) {
			delete(t.Numbers, name) // ids such as 007, which a number would not give back
			continue
		}
		delete(t.Texts, name)
	}
}

// join adds the rows of another table.
func (t *Table) join(other *Table) error {
	if cells := (t.Rows + other.Rows) * max(len(t.Names), 1); cells > maxTableCells {
		return fmt.Errorf("the files have more than %d values together; name fewer files", maxTableCells)
	}
	for _, name := range other.Names {
		if t.Has(name) {
			continue
		}
		t.Names = append(t.Names, name)
		if _, text := other.Texts[name]; text {
			t.Texts[name] = make([]string, t.Rows)
		} else {
			t.Numbers[name] = missing(t.Rows)
		}
	}
	for _, name := range t.Names {
		_, text := t.Texts[name]
		switch {
		case !other.Has(name) && text:
			t.Texts[name] = append(t.Texts[name], make([]string, other.Rows)...)
		case !other.Has(name):
			t.Numbers[name] = append(t.Numbers[name], missing(other.Rows)...)
		case text:
			t.Texts[name] = append(t.Texts[name], other.Text(name)...)
		case other.Numbers[name] == nil: // a string there, a number here
			t.Texts[name] = append(t.Text(name), other.Texts[name]...)
			delete(t.Numbers, name)
		default:
			t.Numbers[name] = append(t.Numbers[name], other.Numbers[name]...)
		}
	}
	t.Rows += other.Rows
	return nil
}

func missing(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = math.NaN()
	}
	return out
}

// allNumbers converts a column, or is nil where a value is no number.
func allNumbers(texts []string) []float64 {
	out := make([]float64, len(texts))
	for i, text := range texts {
		x, ok := table.ParseNumber(text)
		if !ok {
			return nil
		}
		out[i] = x
	}
	return out
}

// add appends the rows of a chunk, whose columns are those of the file.
func (t *Table) add(columns []table.Column, chunk *table.Chunk) {
	t.Rows += chunk.Rows
	for i, values := range chunk.Columns {
		c := &columns[i]
		if texts, is := t.Texts[c.Name]; is {
			for _, v := range values {
				text := ""
				if !v.IsNull() {
					text = string(v.ByteArray())
				}
				texts = append(texts, text)
			}
			t.Texts[c.Name] = texts
		} else if numbers, is := t.Numbers[c.Name]; is {
			for _, v := range values {
				x, _ := c.Float(v)
				numbers = append(numbers, x)
			}
			t.Numbers[c.Name] = numbers
		}
	}
}
