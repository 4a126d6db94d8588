package bench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// CompareOptions say what counts as a difference.
type CompareOptions struct {
	Threshold float64 // a ratio within 1±Threshold is "same"; 0 is 3 %
	Only      string  // only rows whose name contains it
}

const (
	defaultThreshold = 0.03
	significance     = 0.05 // of the rank sum test
	leastSamples     = 4    // on each side, for the test to be able to find anything
)

// Verdict says how a figure compares with the first result's.
type Verdict string

// The verdicts. Neutral is for counts and the like, of which more is neither
// better nor worse.
const (
	Better  Verdict = "better"
	Worse   Verdict = "worse"
	Same    Verdict = "same"
	Unclear Verdict = "unclear" // beyond the threshold, but the samples overlap too much
	Neutral Verdict = ""
)

func (v Verdict) class() string {
	switch v {
	case Better:
		return "good"
	case Worse:
		return "bad"
	case Same, Unclear, Neutral:
	}
	return "even"
}

// Comparison sets results side by side; the first is what the others are
// compared with.
type Comparison struct {
	Names    []string
	Lines    []CompareLine
	Warnings []string // differences that may explain the figures
	results  []*Result
}

// CompareLine is one figure of all results.
type CompareLine struct {
	Name, Unit string
	Cells      []CompareCell // one per result
}

// CompareCell is one result's figure.
type CompareCell struct {
	There   bool
	Value   float64
	Ratio   float64 // to the first result's; 0 if one is missing or 0
	P       float64 // of the rank sum test; -1 without samples enough
	Verdict Verdict
}

func (l *CompareLine) comparable() bool {
	return l.Cells[0].There && l.Cells[0].Value > 0 &&
		slices.ContainsFunc(l.Cells[1:], func(c CompareCell) bool { return c.Ratio > 0 })
}

// Compare lines up the rows of two or more results, in the first one's order.
func Compare(results []*Result, names []string, o CompareOptions) (*Comparison, error) {
	if len(results) < 2 || len(names) != len(results) {
		return nil, errors.New("compare needs two results or more")
	}
	if o.Threshold < 0 || math.IsNaN(o.Threshold) {
		return nil, fmt.Errorf("threshold is %g, must be 0 or more", o.Threshold)
	}
	if o.Threshold == 0 {
		o.Threshold = defaultThreshold
	}
	c := &Comparison{Names: names, results: results, Warnings: differences(results, names)}
	for _, id := range rowOrder(results) {
		if !strings.Contains(id.Name, o.Only) {
			continue
		}
		c.Lines = append(c.Lines, compareRow(results, id, o.Threshold))
	}
	if len(c.Lines) == 0 {
		return nil, fmt.Errorf("no row's name contains %q", o.Only)
	}
	return c, nil
}

// rowOrder are the names of all rows, each once.
func rowOrder(results []*Result) []Row {
	var order []Row
	seen := map[string]bool{}
	for _, r := range results {
		for _, row := range r.Rows {
			if !seen[row.Name] {
				seen[row.Name] = true
				order = append(order, row)
			}
		}
	}
	return order
}

func compareRow(results []*Result, id Row, threshold float64) CompareLine {
	line := CompareLine{Name: id.Name, Unit: id.Unit}
	var base *Row
	for i, r := range results {
		row := r.row(id.Name)
		cell := CompareCell{There: row != nil, P: -1}
		if row != nil {
			cell.Value = row.Value
		}
		if i == 0 {
			base = row
		} else if base != nil && row != nil {
			cell.judge(base, row, threshold)
		}
		line.Cells = append(line.Cells, cell)
	}
	return line
}

func (r *Result) row(name string) *Row {
	for i := range r.Rows {
		if r.Rows[i].Name == name {
			return &r.Rows[i]
		}
	}
	return nil
}

// judge fills in the ratio of a row to the base row, and the verdict.
func (c *CompareCell) judge(base, row *Row, threshold float64) {
	if base.Unit != row.Unit {
		return
	}
	if base.Value > 0 && row.Value > 0 {
		c.Ratio = row.Value / base.Value
	}
	wants := betterWhen(row.Unit)
	if wants == neither || row.Name == "duration" || strings.HasPrefix(row.Name, "std_") || c.Ratio == 0 {
		return
	}
	if len(base.Samples) >= leastSamples && len(row.Samples) >= leastSamples {
		c.P = rankSum(base.Samples, row.Samples)
	}
	switch {
	case math.Abs(c.Ratio-1) <= threshold:
		c.Verdict = Same
	case c.P >= significance:
		c.Verdict = Unclear
	case (c.Ratio > 1) == (wants == higher):
		c.Verdict = Better
	default:
		c.Verdict = Worse
	}
}

// benignFlags may differ without a figure changing for it.
var benignFlags = []string{
	"base-url", "host", "port", "url", "endpoint-url", "metrics-url", "label", "metadata", "save-result", "save-detailed",
	"result-dir", "result-filename", "plot", "output", "json", "goodput", "percentile-metrics", "metric-percentiles",
	"disable-progress", "ready-check-timeout-sec",
}

// differences lists what else is not the same in the results.
func differences(results []*Result, names []string) []string {
	var out []string
	differ := func(what string, of func(*Result) string) {
		values := make([]string, len(results))
		for i, r := range results {
			values[i] = of(r)
		}
		if len(slices.Compact(slices.Clone(values))) > 1 {
			for i := range values {
				values[i] = cmp.Or(values[i], "unknown")
			}
			out = append(out, what+" differs: "+strings.Join(values, " | "))
		}
	}
	differ("kind", func(r *Result) string { return r.Kind })
	differ("CPU", func(r *Result) string { return r.CPU })
	differ("threads", func(r *Result) string { return strconv.Itoa(r.Threads) })
	differ("model", func(r *Result) string { return cmp.Or(r.Model.Digest, r.Model.Name, r.Model.Path) })
	differ("seed", func(r *Result) string { return strconv.FormatUint(r.Seed, 10) })
	for _, name := range flagNames(results) {
		differ("--"+name, func(r *Result) string { return r.Flags[name] })
	}
	for i, r := range results {
		if failed := r.row("failed"); failed != nil && failed.Value > 0 {
			out = append(out, fmt.Sprintf("%s: %g requests failed; their absence may flatter the others", names[i], failed.Value))
		}
		for _, note := range r.Notes {
			if !shared(results, note) {
				out = append(out, names[i]+": "+note)
			}
		}
	}
	return out
}

// shared reports whether all results have the note.
func shared(results []*Result, note string) bool {
	return !slices.ContainsFunc(results, func(r *Result) bool { return !slices.Contains(r.Notes, note) })
}

// flagNames are the flags that matter, of results that record flags.
func flagNames(results []*Result) []string {
	all := map[string]bool{}
	for _, r := range results {
		if len(r.Flags) == 0 {
			return nil
		}
		for name := range r.Flags {
			if !slices.Contains(benignFlags, name) && name != "seed" && name != "threads" {
				all[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Print writes the comparison as a table: values, then ratios to the first
// result with a word about each.
func (c *Comparison) Print(w io.Writer) error {
	var b strings.Builder
	for i, r := range c.results {
		fmt.Fprintf(&b, "%s: %s\n", c.Names[i], r.origin())
	}
	for _, warning := range c.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	b.WriteString("\n")
	header := append([]string{"figure", "unit"}, c.Names...)
	for _, name := range c.Names[1:] {
		header = append(header, name+"/"+c.Names[0], "")
	}
	table := [][]string{header}
	for _, line := range c.Lines {
		row := []string{line.Name, line.Unit}
		for i := range line.Cells {
			row = append(row, line.Cells[i].value())
		}
		for i := range line.Cells[1:] {
			row = append(row, line.Cells[i+1].ratio(), line.Cells[i+1].verdict())
		}
		table = append(table, row)
	}
	writeTable(&b, table, func(column int) bool {
		return column < 2 || column > len(c.Names)+2 && (column-len(c.Names))%2 == 1
	})
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTable lines columns up, two spaces apart; left tells which begin on the
// left.
func writeTable(b *strings.Builder, table [][]string, left func(column int) bool) {
	widths := make([]int, len(table[0]))
	for _, row := range table {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range table {
		var line strings.Builder
		for i, cell := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if left(i) {
				line.WriteString(cell + space + "  ")
			} else {
				line.WriteString(space + cell + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// origin says in a line where a result comes from.
func (r *Result) origin() string {
	parts := []string{cmp.Or(r.Tool, "unknown tool") + " " + cmp.Or(r.Kind, "serve")}
	if r.Model.Name != "" || r.Model.Path != "" {
		parts = append(parts, "model "+cmp.Or(r.Model.Name, r.Model.Path))
	}
	if r.Commit != "" {
		parts = append(parts, "commit "+r.Commit)
	}
	if r.CPU != "" {
		parts = append(parts, r.CPU)
	}
	if r.Date != "" {
		parts = append(parts, r.Date)
	}
	return strings.Join(parts, ", ")
}

func (c *CompareCell) value() string {
	if !c.There {
		return "–"
	}
	return figure(c.Value)
}

// figure prints a value with four digits, and never fewer than it has before
// the point.
func figure(v float64) string {
	switch {
	case v == math.Trunc(v) && math.Abs(v) < 1e9, math.Abs(v) >= 1000 && math.Abs(v) < 1e9:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func (c *CompareCell) ratio() string {
	if c.Ratio == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", c.Ratio)
}

func (c *CompareCell) verdict() string {
	if c.P >= 0 {
		return fmt.Sprintf("%s (p=%.3f)", c.Verdict, c.P)
	}
	return string(c.Verdict)
}

// ShortNames are the names A, B, C … for results read from files.
func ShortNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = string(rune('A' + i%26))
		if i >= 26 {
			names[i] += strconv.Itoa(i / 26)
		}
	}
	return names
}
