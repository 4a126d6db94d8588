package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"weir/engine/classic"
	"weir/internal/defaultmodel"
	"weir/internal/table"
	"weir/internal/tensor"
)

// scoreRig is a folder with a model of named features and files of rows for it.
type scoreRig struct {
	t      *testing.T
	folder string
	model  *classic.Version
}

func newScoreRig(t *testing.T) *scoreRig {
	t.Helper()
	r := &scoreRig{t: t, folder: t.TempDir()}
	iris, _ := defaultmodel.Iris()
	r.file("iris.json", iris)
	var err error
	if r.model, err = classic.Load([]byte(iris), "iris", classic.Options{}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *scoreRig) path(name string) string { return filepath.Join(r.folder, name) }

func (r *scoreRig) file(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// run scores with arguments; those that begin with @ are files of the folder.
func (r *scoreRig) run(args ...string) (code int, out, errs string) {
	full := []string{"score", r.path("iris.json")}
	for _, a := range args {
		if name, ours := strings.CutPrefix(a, "@"); ours {
			a = r.path(name)
		}
		full = append(full, a)
	}
	var o, e bytes.Buffer
	code = execute(full, &o, &e)
	return code, o.String(), e.String()
}

// irisRow is the features of row i, in the model's order.
func irisRow(i int) []float64 {
	return []float64{4 + float64(i%40)/10, 2 + float64(i%25)/10, 1 + float64(i%60)/10, float64(i%25) / 10}
}

// rows are a file of n rows, whose columns are in another order than the model's.
func irisRows(n int) string {
	var b strings.Builder
	b.WriteString("id,petal_width,sepal_length,petal_length,sepal_width,note\n")
	for i := range n {
		x := irisRow(i)
		fmt.Fprintf(&b, "%03d,%g,%g,%g,%g,\"n, %d\"\n", i, x[3], x[0], x[2], x[1], i)
	}
	return b.String()
}

// want are the model's own outputs for rows 0 to n-1.
func (r *scoreRig) want(n int) []float32 {
	r.t.Helper()
	var values []float64
	for i := range n {
		values = append(values, irisRow(i)...)
	}
	out, err := r.model.Score([]tensor.Tensor{tensor.Of("input", tensor.Float64, []int64{int64(n), 4}, values)})
	if err != nil {
		r.t.Fatal(err)
	}
	return tensor.Values[float32](&out[0])
}

// All rows come out in their order, with the columns that they came with and the model's own numbers, whatever the formats.
func TestScore(t *testing.T) {
	r := newScoreRig(t)
	const n = 9000 // three chunks
	r.file("in.csv", irisRows(n))
	want := r.want(n)
	if code, _, errs := r.run("@in.csv", "-o", "@out.parquet"); code != exitOK || !strings.Contains(errs, "scored 9000 rows in ") {
		t.Fatal(errs)
	}
	code, text, errs := r.run("@out.parquet", "--keep", "id,note,output.1", "--prefix", "again.", "--version-column", "model")
	if code != exitOK {
		t.Fatal(errs)
	}
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(records) != n+1 || strings.Join(records[0], " ") != "id note output.1 again.output.0 again.output.1 again.output.2 model" {
		t.Fatalf("%v, %d records, %q", err, len(records), records[0])
	}
	for i, record := range records[1:] {
		if record[0] != fmt.Sprintf("%03d", i) || record[1] != fmt.Sprintf("n, %d", i) || !strings.HasPrefix(record[6], "sha256:") {
			t.Fatalf("row %d: %q", i, record)
		}
		for j, text := range []string{record[3], record[4], record[5], record[2]} {
			x, err := strconv.ParseFloat(text, 32)
			if k := []int{0, 1, 2, 1}[j]; err != nil || float32(x) != want[3*i+k] {
				t.Fatalf("row %d: output %d is %s, want %v", i, k, text, want[3*i+k])
			}
		}
	}
	left, err := filepath.Glob(r.path(".weir-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A row that the model does not take is named, and ends the command, is left out, or has no prediction.
func TestScoreRowsThatAreWrong(t *testing.T) {
	r := newScoreRig(t)
	lines := strings.SplitAfter(irisRows(50), "\n")
	lines[8] = "007,0.2,abc,1,1,x\n"
	lines[21] = "020,0.2,1e99,1,1,x\n"
	r.file("in.csv", strings.Join(lines, ""))
	code, out, errs := r.run("@in.csv", "-o", "@out.csv")
	if want := `in.csv row 8 (line 9), column "sepal_length": "abc" is no number; --on-error skip`; code != exitFailure || out != "" || !strings.Contains(errs, want) {
		t.Errorf("%d %s", code, errs)
	}
	if _, err := os.Stat(r.path("out.csv")); err == nil {
		t.Error("a file is left of rows that failed")
	}
	code, out, errs = r.run("@in.csv", "--on-error", "skip", "--keep", "id")
	if code != exitOK || strings.Count(out, "\n") != 49 || strings.Contains(out, "\n007,") || strings.Contains(out, "\n020,") || !strings.Contains(errs, "2 rows are left out, the first: ") {
		t.Errorf("%d %s\n%s", code, errs, out)
	}
	code, out, errs = r.run("@in.csv", "--on-error", "null", "--keep", "id")
	if code != exitOK || !strings.Contains(out, "\n007,,,\n") || !strings.Contains(out, "\n020,,,\n") || strings.Count(out, ",,") != 2 || !strings.Contains(errs, "2 rows have no prediction") {
		t.Errorf("%d %s\n%s", code, errs, out)
	}
	r.file("in.csv", "sepal_length,sepal_width,petal_length,petal_width\n1,2,3,4\n1,2,3\n")
	if code, _, errs = r.run("@in.csv", "--on-error", "null"); code != exitFailure || !strings.Contains(errs, "row 2 (line 3): it has 3 fields, and the file 4 columns; --on-error skip") {
		t.Errorf("%d %s", code, errs)
	}
}

// Columns are told apart by their names, and what does not fit is named before any row is computed.
func TestScoreColumnsThatAreWrong(t *testing.T) {
	r := newScoreRig(t)
	r.file("few.csv", "id,sepal_length,petal_length\n1,2,3\n")
	r.file("other.csv", "a,b,c,d\n5.1,3.5,1.4,0.2\n")
	r.file("output.csv", "sepal_length,sepal_width,petal_length,petal_width,output.2\n1,2,3,4,5\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"@few.csv"}, "the rows have no column sepal_width, petal_width; they have besides: id; --features"},
		{[]string{"@other.csv", "--features", "a,b,c"}, "the model takes 4 columns (sepal_length, sepal_width, petal_length, petal_width), and 3 are named"},
		{[]string{"@output.csv"}, `have the same name, "output.2"; --prefix`},
		{[]string{"@output.csv", "--keep", "nothing"}, `--keep names the column "nothing"`},
		{[]string{"../../internal/table/testdata/pyarrow.parquet", "--features", "f32,f64,i8,when"}, `column "when" holds values of the type timestamp; the model takes numbers`},
		{[]string{"../../internal/table/testdata/pyarrow.parquet", "--features", "f32,f64,i8,name"}, `column "name" holds text; the model takes numbers`},
		{[]string{"../../internal/table/testdata/pyarrow-nested.parquet", "--features", "f32,f64,i8,u32"}, `column "list" is nested (a list, a map or a struct) and cannot be copied; --keep`},
		{[]string{"@few.csv", "--on-error", "ignore"}, "it must be fail, skip or null"},
		{[]string{"@few.csv", "-o", "@out.txt"}, "its ending tells no format"},
		{[]string{"@few.csv", "--delimiter", "||"}, "it must be one character"},
		{[]string{"@other.csv", "-o", "@other.csv", "--features", "a,b,c,d"}, "is an input and the output"},
		{[]string{}, "takes a model and at least one file"},
	} {
		if code, out, errs := r.run(c.args...); code == exitOK || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: %d %s; want %s", c.args, code, errs, c.want)
		}
	}
	code, out, errs := r.run("@other.csv", "--features", "a,b,c,d", "--keep", "")
	if code != exitOK || !strings.HasPrefix(out, "output.0,output.1,output.2\n") {
		t.Errorf("%d %s%s", code, errs, out)
	}
	code, _, errs = r.run("../../internal/table/testdata/pyarrow.parquet", "--features", "f32,f64,i8,flag", "-o", "@p.parquet")
	if code != exitOK || !strings.Contains(errs, "scored 60 rows") {
		t.Errorf("nulls, integers and truth values: %d %s", code, errs)
	}
	s, err := table.Open([]string{r.path("p.parquet")}, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if c := s.Columns(); len(c) != 13 || c[7].Name != "when" || c[7].Type != "timestamp" || c[12].Name != "output.2" {
		t.Errorf("%+v", c)
	}
}

// A model whose file names no features takes the columns in their order, and says so.
func TestScoreByOrder(t *testing.T) {
	r := newScoreRig(t)
	nameless := strings.ReplaceAll(readFile(t, r.path("iris.json")), `"feature_names":["sepal_length","sepal_width","petal_length","petal_width"]`, `"feature_names":[]`)
	r.file("iris.json", nameless)
	r.file("in.csv", "a,b,c,d\n5.1,3.5,1.4,0.2\n")
	code, out, errs := r.run("@in.csv")
	if code != exitOK || !strings.Contains(errs, "note: the model's file does not name its features; it takes the columns in their order: a, b, c, d") {
		t.Errorf("%d %s%s", code, errs, out)
	}
	r.file("in.csv", "id,a,b,c,d\n7,5.1,3.5,1.4,0.2\n")
	if code, _, errs := r.run("@in.csv"); code == exitOK || !strings.Contains(errs, `the model takes 4 columns as input "input", and its file does not name them; the rows have 5: id, a, b, c, d; --features`) {
		t.Errorf("%d %s", code, errs)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// An interrupt leaves nothing half-written, also where the standard input neither goes on nor ends.
func TestScoreInterrupted(t *testing.T) {
	r := newScoreRig(t)
	r.file("in.csv", irisRows(5000))
	stopped, stop := context.WithCancel(t.Context())
	stop()
	in, feed := io.Pipe()
	defer feed.Close()
	go func() { _, _ = io.WriteString(feed, irisRows(10)) }() // ends with the pipe
	for _, path := range []string{r.path("in.csv"), table.Stdin} {
		s := &scoring{output: r.path("out.csv"), onError: onErrorFail, threads: 2, comma: ',', errs: io.Discard}
		cmd := newScore()
		cmd.SetIn(in)
		if err := s.run(stopped, r.model, "1", []string{path}, cmd); err == nil || err.Error() != "interrupted; nothing was written" {
			t.Errorf("%s: %v", path, err)
		}
	}
	left, err := os.ReadDir(r.folder)
	if err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A file that is there keeps its mode, and a link stays one: what it points at is replaced.
func TestScoreKeepsModeAndLinks(t *testing.T) {
	r := newScoreRig(t)
	r.file("in.csv", irisRows(5))
	r.file("out.csv", "of yesterday")
	if err := os.Symlink("out.csv", r.path("link.csv")); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"@out.csv", "@link.csv"} {
		if code, _, errs := r.run("@in.csv", "-o", to); code != exitOK {
			t.Fatal(errs)
		}
		info, err := os.Stat(r.path("out.csv"))
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("-o %s: a file of mode 0600 has %v afterwards, %v", to, info.Mode(), err)
		}
	}
	if info, err := os.Lstat(r.path("link.csv")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v afterwards, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile(r.path("out.csv")); err != nil || !strings.HasPrefix(string(text), "id,") {
		t.Errorf("what the link points at holds %.20q, %v", text, err)
	}
}

// An output that cannot be written is told as such, with what to do about it.
func TestScoreToAFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	r := newScoreRig(t)
	r.file("in.csv", irisRows(5))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	var toStdout bytes.Buffer
	code := execute([]string{"score", r.path("iris.json"), r.path("in.csv")}, full, &toStdout)
	if want := "weir: write the output: no space left on device; make room, or name another place with --output\n"; code != exitFailure || toStdout.String() != want {
		t.Errorf("status %d, %q; want %q", code, toStdout.String(), want)
	}
	code, _, errs := r.run("@in.csv", "-o", "/dev/full", "--format", "csv")
	if code != exitFailure || !strings.Contains(errs, "no space left on device") {
		t.Errorf("status %d, %q", code, errs)
	}
}
