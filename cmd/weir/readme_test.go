package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/unit"
)

// storedRun is a measurement as docs/runs keeps it.
type storedRun struct {
	Commands []string  `json:"commands"`
	Commit   string    `json:"commit"`
	Date     string    `json:"date"` // a day, or RFC 3339
	Machine  string    `json:"machine"`
	Model    string    `json:"model"`
	Note     string    `json:"note"`
	Columns  []string  `json:"columns"`
	Rows     []runRow  `json:"rows"`
	day      time.Time // Date
}

// runRow is a figure in each column; those of families.json tell the family's models, too.
type runRow struct {
	Name    string    `json:"name"`
	Unit    string    `json:"unit"`
	Values  []float64 `json:"values"`
	Models  string    `json:"models"`
	Refuses string    `json:"refuses"`
	Quality *runRef   `json:"quality"` // nil: no file of the family was measured
	Speed   *runRef   `json:"speed"`
	Memory  struct {
		Of       string `json:"of"`
		Token    int64  `json:"token"`
		Sequence int64  `json:"sequence"`
	} `json:"memory"`
}

// runRef names a stored run, and its row where it is one of several models.
type runRef struct {
	Run string `json:"run"`
	Row string `json:"row"`
}

// readRun reads a run and wants all that lets a reader repeat it.
func readRun(t *testing.T, file string) *storedRun {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	r := new(storedRun)
	if err := json.Unmarshal(data, r); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if r.day, err = time.Parse(time.DateOnly, r.Date[:min(len(r.Date), 10)]); err != nil {
		t.Errorf("%s: the date: %v", file, err)
	}
	if len(r.Commands) == 0 || !regexp.MustCompile(`^[0-9a-f]{7,40}$`).MatchString(r.Commit) || r.Machine == "" || r.Model == "" {
		t.Errorf("%s lacks commands, commit, machine or model", file)
	}
	for _, row := range r.Rows {
		if row.Name == "" || row.Unit == "" || len(row.Values) != len(r.Columns) {
			t.Errorf("%s: the row %q has the unit %q and %d values for %d columns", file, row.Name, row.Unit, len(row.Values), len(r.Columns))
		}
	}
	return r
}

// table is the run for readers of a page of a folder.
func (r *storedRun) table(t *testing.T, folder, file string) string {
	t.Helper()
	var b strings.Builder
	if r.Rows[0].Models != "" {
		return r.families(t, folder) + r.source(folder, file)
	}
	fmt.Fprintf(&b, "| %s | | %s |\n|---|---|%s\n", r.Model, strings.Join(r.Columns, " | "), strings.Repeat("---|", len(r.Columns)))
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "| %s | %s |", row.Name, row.Unit)
		for _, v := range row.Values {
			fmt.Fprintf(&b, " %s |", threeDigits(v))
		}
		b.WriteByte('\n')
	}
	return b.String() + r.source(folder, file)
}

// families is a line per family.
func (r *storedRun) families(t *testing.T, folder string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "| architecture | models | distance from: %s | KL: weir, llama.cpp | times llama.cpp: prompt, 1, 16 | KV: token, 32k tokens | not built |\n|---|---|%s---|---|---|---|\n",
		strings.Join(r.Columns, " | "), strings.Repeat("---|", len(r.Columns)))
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "| `%s` | %s |", row.Name, row.Models)
		for _, v := range row.Values {
			fmt.Fprintf(&b, " %.0e |", v)
		}
		if row.Memory.Of == "" || row.Memory.Token == 0 || row.Memory.Sequence == 0 {
			t.Errorf("the row of %s tells no memory", row.Name)
		}
		fmt.Fprintf(&b, " %s | %s | %s: %s, %s | %s |\n", row.Quality.divergence(t, folder), row.Speed.speed(t, folder),
			row.Memory.Of, unit.Bytes(row.Memory.Token), unit.Bytes(row.Memory.Sequence), row.Refuses)
	}
	return b.String()
}

// notMeasured stands where no run has the figure.
const notMeasured = "–"

// cell is figures that link to their run.
func (r *runRef) cell(folder string, figures []string) string {
	link, err := filepath.Rel(folder, r.Run)
	if err != nil {
		link = r.Run
	}
	return fmt.Sprintf("[%s](%s)", strings.Join(figures, ", "), link)
}

// divergence is how far answers are from those of the exact weights, in nats, over the longest text that was measured: weir's and llama.cpp's.
func (r *runRef) divergence(t *testing.T, folder string) string {
	t.Helper()
	if r == nil {
		return notMeasured
	}
	var figures []string
	for _, row := range readRun(t, r.Run).Rows {
		if row.Unit == "nats" {
			figures = []string{fmt.Sprintf("%.1g", row.Values[0]), fmt.Sprintf("%.1g", row.Values[1])}
		}
	}
	if figures == nil {
		t.Errorf("%s tells no divergence", r.Run)
	}
	return r.cell(folder, figures)
}

// speed is weir's speed beside llama.cpp's: of prompts, one sequence and 16.
func (r *runRef) speed(t *testing.T, folder string) string {
	t.Helper()
	if r == nil {
		return notMeasured
	}
	run := readRun(t, r.Run)
	var pairs [][]float64
	for _, row := range run.Rows {
		switch {
		case r.Row == "" && row.Unit == "tokens/s":
			pairs = append(pairs, row.Values)
		case r.Row == row.Name:
			for i := 0; i+1 < len(row.Values); i += 2 {
				pairs = append(pairs, row.Values[i:i+2])
			}
		}
	}
	if len(pairs) != 4 {
		t.Errorf("%s, row %q: %d speeds, want those of a prompt, 1, 4 and 16 sequences", r.Run, r.Row, len(pairs))
		return notMeasured
	}
	var figures []string
	for _, i := range []int{0, 1, 3} {
		figures = append(figures, fmt.Sprintf("%.2g", pairs[i][0]/pairs[i][1]))
	}
	return r.cell(folder, figures)
}

// source tells where the figures come from.
func (r *storedRun) source(folder, file string) string {
	note := ""
	if r.Note != "" {
		note = "; " + r.Note
	}
	link, err := filepath.Rel(folder, file)
	if err != nil {
		link = file
	}
	return fmt.Sprintf("\nCommit %s, %s; %s%s. Commands: [%s](%s).\n", r.Commit, r.day.Format(time.DateOnly), r.Machine, note, filepath.Base(file), link)
}

func threeDigits(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	rounded, _ := strconv.ParseFloat(fmt.Sprintf("%.3g", v), 64)
	return strconv.FormatFloat(rounded, 'g', -1, 64)
}

// measured finds what looks like a figure of a measurement.
var measured = regexp.MustCompile(`(?i)\d[\d.,]*\s?(×|%|tok\b|tokens?(/s| per second| a second)|requests?(/s| per second)|m?s\b|µs\b|seconds|[kmg]i?b(/s)?\b|times\b)`)

// runBlock is what a page shows of a stored run.
var runBlock = regexp.MustCompile(`(?s)<!-- run: (\S+) -->\n(.*?)<!-- end -->\n`)

// holdRuns wants a page's figures to be those of stored runs, and returns it. -rewrite writes them.
func holdRuns(t *testing.T, page string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	text, n := string(data), 0
	generated := runBlock.ReplaceAllStringFunc(text, func(s string) string {
		file := runBlock.FindStringSubmatch(s)[1]
		n++
		return fmt.Sprintf("<!-- run: %s -->\n%s<!-- end -->\n", file, readRun(t, file).table(t, filepath.Dir(page), file))
	})
	if n == 0 {
		t.Fatalf("%s shows no run; the test no longer reads it", page)
	}
	if *rewrite {
		if err := os.WriteFile(filepath.Join("../..", page), []byte(generated), 0o644); err != nil { //nolint:gosec // a page of the tree
			t.Fatal(err)
		}
	} else if generated != text {
		t.Errorf("figures of %s are not those of their runs; go test ./cmd/weir -run TestDocumentsFigures -rewrite writes them", page)
	}
	return text
}

// The figures of models are those of stored runs; that every family has its row is engine/llm's test.
func TestDocumentsFiguresOfModelsHaveARun(t *testing.T) { holdRuns(t, "docs/families.md") }

// The figures of the README are those of stored runs, which name their commit, machine, date and commands.
func TestDocumentsFiguresOfTheReadmeHaveARun(t *testing.T) {
	text := holdRuns(t, "README.md")
	for i, line := range strings.Split(runBlock.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) }), "\n") {
		if m := measured.FindString(line); m != "" {
			t.Errorf("README.md:%d: %q has no run: put it into a file of docs/runs", i+1, m)
		}
	}
	if lines := strings.Count(text, "\n"); lines > 140 {
		t.Errorf("README.md has %d lines; two screens are enough, details belong to docs", lines)
	}
}

// Every stored run can be read and repeated.
func TestDocumentsRunsAreWhole(t *testing.T) {
	files, err := filepath.Glob("../../docs/runs/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		readRun(t, strings.TrimPrefix(file, "../../"))
	}
}

// A family whose model stands in a run beside llama.cpp tells that speed.
func TestDocumentsFamiliesTellTheirSpeed(t *testing.T) {
	files, err := filepath.Glob("../../docs/runs/shapes-*.json")
	if err != nil {
		t.Fatal(err)
	}
	run, named := readRun(t, "docs/runs/families.json"), 0
	for _, file := range files {
		file = strings.TrimPrefix(file, "../../")
		shapes := readRun(t, file)
		if !slices.Contains(shapes.Columns, "prompt of 512: llama.cpp") {
			continue
		}
		for _, shape := range shapes.Rows {
			at := slices.IndexFunc(run.Rows, func(r runRow) bool { return r.Memory.Of == shape.Name })
			if at < 0 {
				continue
			}
			if named++; run.Rows[at].Speed == nil {
				t.Errorf("docs/runs/families.json: %s has no speed, and %s has that of %s", run.Rows[at].Name, file, shape.Name)
			}
		}
	}
	if named < 3 {
		t.Errorf("%d families stand in runs beside llama.cpp; the test no longer reads them", named)
	}
}

// Each real model that .ci/real-models fetches has a run, which docs/families.md shows: how near its answers are, and how fast.
func TestDocumentsRealModelsHaveARun(t *testing.T) {
	script, err := os.ReadFile("../../.ci/real-models")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/families.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^\t([a-z][a-z0-9.-]*)\)$`).FindAllStringSubmatch(string(script), -1)
	if len(names) < 4 {
		t.Fatalf("%d models in .ci/real-models; the test no longer reads it", len(names))
	}
	for _, n := range names {
		if file := "docs/runs/real-" + n[1] + ".json"; !strings.Contains(string(page), "<!-- run: "+file+" -->") {
			t.Errorf("docs/families.md does not show %s", file)
		}
	}
}
