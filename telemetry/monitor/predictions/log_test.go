package predictions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/reference"

	"github.com/parquet-go/parquet-go"
)

func testConfig(t testing.TB) Config {
	t.Helper()
	return Config{
		Folder: t.TempDir(), Model: "credit/eu", Version: "3", Schema: "sha256:77", Key: []byte("key"),
		Features: []Feature{
			{Name: "age"}, {Name: "city", Text: true}, {Name: "income", Privacy: Summary}, {Name: "name", Text: true, Privacy: Summary},
			{Name: "ssn", Privacy: Hashed}, {Name: "secret", Text: true, Privacy: Omitted}, {Name: "gone", Privacy: Omitted},
		},
		Outputs: []string{"output"},
		Failed:  func(err error) { t.Error(err) },
	}
}

func testBatch(id string, rows int) Batch {
	b := Batch{ID: id, Tenant: "acme", At: time.UnixMilli(1_760_000_000_123), Rows: rows, Defaulted: make([]string, rows)}
	for i := range rows {
		b.Numbers = append(b.Numbers, float64(i), 123_456, 42, 1)
		b.Texts = append(b.Texts, "Bonn", "Ada", "x")
		b.Outputs = append(b.Outputs, float64(i)/10)
	}
	b.Numbers[0], b.Texts[0], b.Defaulted[0] = math.NaN(), "", "age city"
	return b
}

func finish(t testing.TB, l *Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// What was logged is read back: plain, rounded, hashed and omitted, by id and row.
func TestLogReadsBack(t *testing.T) {
	c := testConfig(t)
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	l.Add(testBatch("a", 2))
	l.Add(testBatch("b", 1))
	finish(t, l)
	if s := l.Stats(); s.Written != 3 || s.Dropped != 0 || s.Files != 1 {
		t.Fatalf("%+v", s)
	}
	table, err := ReadTable(c.Folder)
	if err != nil {
		t.Fatal(err)
	}
	if table.Rows != 3 || table.Has("feature.secret") || table.Has("feature.gone") {
		t.Fatalf("%d rows of %v", table.Rows, table.Names)
	}
	text := func(name string) string { return strings.Join(table.Text(name), " ") }
	for name, want := range map[string]string{
		"id": "a a b", "row": "0 1 0", "tenant": "acme acme acme", "model": "credit/eu credit/eu credit/eu", "version": "3 3 3",
		"time": "1760000000123 1760000000123 1760000000123", "feature.age": " 1 ", "feature.city": " Bonn ",
		"feature.income": "120000 120000 120000", "output.output": "0 0.1 0", "defaulted": "age city  age city",
	} {
		if got := text(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	names, hashes := table.Text("feature.name"), table.Text("feature.ssn")
	if len(names[0]) != 16 || names[0] != names[2] || len(hashes[0]) != 16 || hashes[0] == names[0] || strings.Contains(text("feature.name"), "Ada") {
		t.Errorf("hashes are %v and %v", names, hashes)
	}
	if files, _ := filepath.Glob(filepath.Join(c.Folder, "credit%2Feu", "3", "*.parquet")); len(files) != 1 {
		t.Errorf("the files are %v", files)
	}
}

// A value that the request brought is hashed or rounded, beside values of the same feature that stand as they are.
func TestBroughtValues(t *testing.T) {
	c := testConfig(t)
	c.Features = []Feature{
		{Name: "age", Brought: Hashed}, {Name: "city", Text: true, Brought: Summary}, {Name: "income", Brought: Summary},
		{Name: "ssn", Privacy: Hashed}, {Name: "secret", Text: true, Privacy: Omitted, Brought: Hashed},
	}
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	l.Add(Batch{
		ID: "a", Rows: 2, Numbers: []float64{41, 123_456, 1, 41, 123_456, 1}, Texts: []string{"Bonn", "x", "Bonn", "x"}, Outputs: []float64{0, 1},
		Brought: []bool{false, false, false, false, false, true, true, true, true, true},
	})
	finish(t, l)
	table, err := ReadTable(c.Folder)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"feature.age": "41 ", "feature.city": "Bonn ", "feature.income": "123456 120000",
	} {
		if got := strings.Join(table.Text(name), " "); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"hash.age", "hash.city"} {
		if h := table.Texts[name]; len(h) != 2 || h[0] != "" || len(h[1]) != 16 {
			t.Errorf("%s is %q", name, h)
		}
	}
	if table.Has("feature.secret") || table.Has("hash.secret") || table.Has("hash.ssn") {
		t.Errorf("columns %v", table.Names)
	}
}

// Every file that has the name of one is whole, whatever moment the process dies at; what
// it leaves behind is not read, and deleted later.
func TestFilesAreWhole(t *testing.T) {
	c := testConfig(t)
	c.MaxBytes = 1 // each request makes a file once its row group is on the disk
	c.MaxAge = time.Nanosecond
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(c.Folder, "credit%2Feu", "3")
	partial := filepath.Join(folder, "20200101T000000Z-x.parquet.partial")
	if err := os.WriteFile(partial, []byte("PAR1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		l.Add(testBatch(fmt.Sprint(i), 3))
		for l.Stats().Written < uint64(3*(i+1)) {
			time.Sleep(time.Millisecond)
		}
		// As after a crash at this moment.
		if table, err := ReadTable(c.Folder); err != nil || table.Rows != 3*(i+1) {
			t.Fatalf("after %d requests: %+v, %v", i+1, table, err)
		}
	}
	finish(t, l)
	old := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(partial, old, old); err != nil {
		t.Fatal(err)
	}
	again, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	finish(t, again)
	if _, err := os.Stat(partial); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the partial file of a dead process: %v", err)
	}
}

// A full queue drops and counts, and never waits; what is written plus what is dropped is
// what came.
func TestFullQueueDrops(t *testing.T) {
	reference.Slow(t)
	c := testConfig(t)
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	const each, rows = 3000, 10
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range each {
				l.Add(testBatch(fmt.Sprint(g, i), rows))
			}
		})
	}
	wg.Wait()
	finish(t, l)
	s := l.Stats()
	if s.Written+s.Dropped != 8*each*rows || s.Written == 0 {
		t.Errorf("%+v of %d rows", s, 8*each*rows)
	}
	if table, err := ReadTable(c.Folder); err != nil || table.Rows != int(s.Written) {
		t.Errorf("the files have %d rows, the log says %d; %v", table.Rows, s.Written, err)
	}
}

// A folder that goes away costs rows and is said; the log goes on.
func TestFolderGoesAway(t *testing.T) {
	c := testConfig(t)
	failed := make(chan error, 100)
	c.Failed = func(err error) { failed <- err }
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(c.Folder); err != nil {
		t.Fatal(err)
	}
	l.Add(testBatch("a", 4))
	if err := <-failed; !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	finish(t, l)
	if s := l.Stats(); s.Dropped != 4 || s.Written != 0 {
		t.Errorf("%+v", s)
	}
}

// A batch that lacks values is dropped and said, and spoils no file.
func TestBatchOfWrongSize(t *testing.T) {
	c := testConfig(t)
	var failed []error
	c.Failed = func(err error) { failed = append(failed, err) }
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	b := testBatch("a", 2)
	b.Numbers = b.Numbers[1:]
	l.Add(b)
	l.Add(testBatch("b", 1))
	finish(t, l)
	if s := l.Stats(); s.Dropped != 2 || s.Written != 1 || len(failed) != 1 {
		t.Errorf("%+v, %v", s, failed)
	}
}

// The oldest files go when the bytes that are kept are used up.
func TestKeepBytes(t *testing.T) {
	c := testConfig(t)
	c.MaxAge, c.KeepBytes = time.Nanosecond, 12_000
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		l.Add(testBatch(fmt.Sprint(i), 3))
		for l.Stats().Written < uint64(3*(i+1)) {
			time.Sleep(time.Millisecond)
		}
	}
	finish(t, l)
	var bytes int64
	files, _ := filepath.Glob(filepath.Join(c.Folder, "*", "*", "*.parquet"))
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	if bytes > 12_000 || len(files) < 2 || len(files) > 20 {
		t.Errorf("%d files with %d bytes are left", len(files), bytes)
	}
}

// A file of pyarrow, with snappy, dictionaries, several row groups and pages, reads as what
// was written.
func TestForeignParquet(t *testing.T) {
	table, err := ReadTable("testdata/foreign.parquet")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"id", "label", "amount", "exact", "big", "flag", "tag"}; !slices.Equal(table.Names, want) || table.Rows != 1000 {
		t.Fatalf("%d rows of %v", table.Rows, table.Names)
	}
	for i := range 1000 {
		label, flag, tag := float64(i%2), 0.0, ""
		if i%10 == 3 {
			label = math.NaN()
		}
		if i%3 == 0 {
			flag = 1
		}
		if i%2 == 1 {
			tag = "a"
		}
		n := table.Numbers
		got := fmt.Sprint(table.Texts["id"][i], n["label"][i], n["amount"][i], n["exact"][i], n["big"][i], n["flag"][i], table.Texts["tag"][i])
		if want := fmt.Sprint(fmt.Sprintf("r%d", i%7), label, float64(i)/4, float64(i)/3, float64(i)*1e12, flag, tag); got != want {
			t.Fatalf("row %d is %s, want %s", i, got, want)
		}
	}
}

func parseCSV(t *testing.T, text string) (*Table, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ReadTable(path)
}

func TestCSV(t *testing.T) {
	table, err := parseCSV(t, "id,label,score\na,true,1.5\nb,,nan\n3,False,-1e3\n")
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(table.Texts, table.Numbers) != "map[id:[a b 3]] map[label:[1 NaN 0] score:[1.5 NaN -1000]]" {
		t.Errorf("%v %v", table.Texts, table.Numbers)
	}
	for _, text := range []string{"", "a,a\n1,2\n", "a,\n1,2\n", "a,b\n1\n", "a\n\"x"} {
		if _, err := parseCSV(t, text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// Files with other columns join; a column of both types is one of strings.
func TestTablesJoin(t *testing.T) {
	a, _ := parseCSV(t, "id,x\n1,2\n")
	b, _ := parseCSV(t, "id,y\nz,5\n")
	if err := a.join(b); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(a.Rows, a.Text("id"), a.Numbers["x"], a.Numbers["y"]) != "2 [1 z] [2 NaN] [NaN 5]" {
		t.Errorf("%+v", a)
	}
}

// Broken files are errors, whatever the library makes of them.
func FuzzParquet(f *testing.F) {
	whole, err := os.ReadFile("testdata/foreign.parquet")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole[len(whole)-300:])
	var small bytes.Buffer
	if err := parquet.Write(&small, []struct {
		ID string `parquet:"id,zstd"`
		X  float64
	}{{"a", 1}, {"b", 2}}); err != nil {
		f.Fatal(err)
	}
	f.Add(small.Bytes())
	path := filepath.Join(f.TempDir(), "x.parquet")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if table, err := ReadTable(path); err == nil {
			for _, name := range table.Names {
				if len(table.Text(name)) != table.Rows {
					t.Errorf("%s has %d of %d values", name, len(table.Text(name)), table.Rows)
				}
			}
		}
	})
}

// BenchmarkAdd is what a request pays for its record.
func BenchmarkAdd(b *testing.B) {
	c := testConfig(b)
	l, err := Open(c)
	if err != nil {
		b.Fatal(err)
	}
	batch := testBatch("a", 1)
	b.ReportAllocs()
	for b.Loop() {
		l.Add(batch)
	}
	finish(b, l)
	b.ReportMetric(float64(l.Stats().Dropped)/float64(b.N), "dropped/op")
}

// Pages of the second version, LZ4 and other writers' files read as the same table as a plain file does.
func TestWritersOfParquetAgree(t *testing.T) {
	const folder = "../../../internal/table/testdata/"
	want, err := ReadTable(folder + "pyarrow.parquet")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pyarrow-v2", "pyarrow-lz4", "pyarrow-delta", "polars", "duckdb", "duckdb-v2"} {
		got, err := ReadTable(folder + name + ".parquet")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, column := range []string{"id", "f32", "f64", "i8", "u32", "flag", "name"} {
			if !slices.Equal(got.Text(column), want.Text(column)) {
				t.Errorf("%s: %s is %q, want %q", name, column, got.Text(column), want.Text(column))
			}
		}
	}
}
