package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/engine/classic"
	"weir/internal/defaultmodel"
)

// What weir golden writes is what a load of the model compares: with the same model it
// passes, with a changed one it does not, and written again of itself it is the same.
func TestGoldenRowsRoundTrip(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	iris, _ := defaultmodel.Iris()
	model := file("iris.json", iris)
	var table strings.Builder
	table.WriteString("sepal_length,sepal_width,petal_length,petal_width\n")
	for i := range 50 {
		fmt.Fprintf(&table, "%d.5,%g,%d,\n", 4+i%4, 2+0.1*float64(i%20), 1+i%6)
	}
	request := `{"inputs": [{"name": "input", "shape": [2, 4], "datatype": "FP64", "data": [[5.1, 3.5, 1.4, 0.2], [6.5, null, 5.1, 2]]}]}`
	for name, c := range map[string]struct {
		args []string
		rows int
	}{
		"made up": {nil, 100},
		"table":   {[]string{"--rows", file("rows.csv", table.String()), "--count", "20"}, 20},
		"request": {[]string{"--rows", file("request.json", request), "--tolerance", "0"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := execute(append([]string{"golden", model}, c.args...), &out, &errs); code != exitOK {
				t.Fatal(errs.String())
			}
			golden, err := classic.ReadGolden(out.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if rows := golden.Inputs[0].Rows(); rows != int64(c.rows) {
				t.Errorf("%d rows, want %d", rows, c.rows)
			}
			load := func(model string) (*classic.Version, error) {
				return classic.Load([]byte(model), "iris", classic.Options{Golden: golden})
			}
			if _, err := load(iris); err != nil {
				t.Errorf("the same model: %v", err)
			}
			if _, err := load(strings.Replace(iris, "5.7416266E-1", "6.7416266E-1", 1)); err == nil || !strings.Contains(err.Error(), "golden rows: output") {
				t.Errorf("another leaf: %v", err)
			}
			if _, err := load(strings.Replace(iris, "[2.45E0,5.7", "[2.46E0,5.7", 1)); name == "made up" && err == nil {
				t.Error("another threshold passes")
			}
			again := filepath.Join(folder, "again.json")
			if err := os.WriteFile(again, out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			var second bytes.Buffer
			if code := execute([]string{"golden", model, "--rows", again, "--tolerance", fmt.Sprint(golden.Tolerance)}, &second, &errs); code != exitOK || second.String() != out.String() {
				t.Errorf("written again: %s\n%s\nafter\n%s", errs.String(), second.String(), out.String())
			}
		})
	}
}

func TestGoldenRefusals(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	iris, _ := defaultmodel.Iris()
	model := file("iris.json", iris)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{model, "--rows", file("few.csv", "sepal_length,petal_length\n1,2\n")}, "the rows have no column sepal_width, petal_width; they have besides: "},
		{[]string{model, "--rows", file("text.csv", "sepal_length,sepal_width,petal_length,petal_width\n1,2,red,4\n")}, `row 1 (line 2), column "petal_length": "red" is no number`},
		{[]string{model, "--rows", file("none.csv", "a,b,c,d\n")}, "no rows"},
		{[]string{model, "--rows", file("bad.json", "{")}, "bad.json"},
		{[]string{model, "--rows", file("empty.json", `{"inputs": []}`)}, "inputs are needed"},
		{[]string{model, "--count", "0"}, "--count is 0"},
		{[]string{model, "--tolerance", "1"}, "tolerance is 1"},
		{[]string{file("no.json", "{}")}, "no.json: it is no GGUF file and no classical model"},
		{[]string{file("cut.onnx", "version https://git-lfs")}, "cut.onnx: its name ends with .onnx, but it is no ONNX model: "},
		{[]string{file("broken.json", `{"learner": 7}`)}, "broken.json: read model: "},
		{[]string{file("x.gguf", "GGUF")}, "for classical models"},
	} {
		var out, errs bytes.Buffer
		if code := execute(append([]string{"golden"}, c.args...), &out, &errs); code == exitOK || out.Len() > 0 || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%q: %d, %s%s; want %q", c.args, code, errs.String(), out.String(), c.says)
		}
	}
}

// A table's columns may stand in any order under the features' names, also behind those of
// a prediction log, and among others.
func TestGoldenRowsOfALog(t *testing.T) {
	folder := t.TempDir()
	iris, _ := defaultmodel.Iris()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	model := write("iris.json", iris)
	var want, got, errs bytes.Buffer
	plain := write("plain.csv", "sepal_length,sepal_width,petal_length,petal_width\n5.1,3.5,1.4,0.2\n6,3,5,2\n")
	log := write("log.csv", "id,feature.petal_width,feature.sepal_length,feature.sepal_width,feature.petal_length,output.output.0\nx,0.2,5.1,3.5,1.4,1\ny,2,6,3,5,0\n")
	if execute([]string{"golden", model, "--rows", plain}, &want, &errs) != exitOK || execute([]string{"golden", model, "--rows", log}, &got, &errs) != exitOK || got.String() != want.String() {
		t.Errorf("%s\ngot  %s\nwant %s", errs.String(), got.String(), want.String())
	}
	named := write("named.csv", "id,petal_width,sepal_length,sepal_width,petal_length\nx,0.2,5.1,3.5,1.4\ny,2,6,3,5\n")
	if got.Reset(); execute([]string{"golden", model, "--rows", named}, &got, &errs) != exitOK || got.String() != want.String() {
		t.Errorf("%s\ngot  %s\nwant %s", errs.String(), got.String(), want.String())
	}
}

// weir golden takes the columns and rows that weir score takes: compressed CSV, missing values in words, numbers as whole as the model
// wants them; and the columns that a log has beside its features are none.
func TestGoldenReadsTablesAsScoreDoes(t *testing.T) {
	r := newScoreRig(t)
	r.file("plain.csv", "sepal_length,sepal_width,petal_length,petal_width\n5.1,3.5,NA,0.2\n6,3,5,2\n")
	r.file("log.csv", "id,sepal_length,feature.petal_width,feature.sepal_length,feature.sepal_width,feature.petal_length\nx,7,0.2,5.1,3.5,NaN\ny,7,2,6,3,5\n")
	if code, _, errs := r.run("@plain.csv", "-o", "@plain.csv.gz"); code != exitOK {
		t.Fatal(errs)
	}
	var want string
	for _, rows := range []string{"plain.csv", "plain.csv.gz", "log.csv"} {
		var got, errs bytes.Buffer
		if code := execute([]string{"golden", r.path("iris.json"), "--rows", r.path(rows)}, &got, &errs); code != exitOK {
			t.Errorf("%s: %s", rows, errs.String())
		}
		if want == "" {
			want = got.String()
		}
		if got.String() != want {
			t.Errorf("%s gives\n%s, want\n%s", rows, got.String(), want)
		}
	}
	if code, scored, errs := r.run("@log.csv", "--keep", "id"); code != exitOK || strings.Count(scored, "\n") != 3 {
		t.Errorf("%s%s", scored, errs)
	}
}
