package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
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

type runRow struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
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

// table is the run for readers.
func (r *storedRun) table(file string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | | %s |\n|---|---|%s\n", r.Model, strings.Join(r.Columns, " | "), strings.Repeat("---|", len(r.Columns)))
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "| %s | %s |", row.Name, row.Unit)
		for _, v := range row.Values {
			fmt.Fprintf(&b, " %s |", threeDigits(v))
		}
		b.WriteByte('\n')
	}
	note := ""
	if r.Note != "" {
		note = "; " + r.Note
	}
	fmt.Fprintf(&b, "\nCommit %s, %s; %s%s. Commands: [%s](%s).\n", r.Commit, r.day.Format(time.DateOnly), r.Machine, note, filepath.Base(file), file)
	return b.String()
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

// The figures of the README are those of stored runs, which name their commit, machine, date and commands. -rewrite writes them.
func TestDocumentsFiguresOfTheReadmeHaveARun(t *testing.T) {
	const page = "../../README.md"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?s)<!-- run: (\S+) -->\n(.*?)<!-- end -->\n`)
	text, n := string(data), 0
	generated := block.ReplaceAllStringFunc(text, func(s string) string {
		file := block.FindStringSubmatch(s)[1]
		n++
		return fmt.Sprintf("<!-- run: %s -->\n%s<!-- end -->\n", file, readRun(t, file).table(file))
	})
	if n == 0 {
		t.Fatal("the README shows no run; the test no longer reads it")
	}
	if *rewrite {
		if err := os.WriteFile(page, []byte(generated), 0o644); err != nil { //nolint:gosec // a page of the tree
			t.Fatal(err)
		}
	} else if generated != text {
		t.Error("figures of README.md are not those of their runs; go test ./cmd/weir -run TestDocumentsFigures -rewrite writes them")
	}
	for i, line := range strings.Split(block.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) }), "\n") {
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
