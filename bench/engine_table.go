package bench

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/engine/llm"
)

// EngineSubject is what every row of an engine's table repeats.
type EngineSubject struct {
	Model   string
	Info    llm.Info
	Backend string // the level of instructions
}

// alignment of a table's columns.
type alignment uint8

const (
	left alignment = iota
	right
)

// column of a Markdown table.
type column struct {
	title string
	width int // at least
	align alignment
}

// markdown writes a table whose source is aligned, too.
func markdown(w io.Writer, columns []column, rows [][]string) error {
	var out strings.Builder
	for i := range columns {
		c := &columns[i]
		c.width = max(c.width, utf8.RuneCountInString(c.title))
		for _, row := range rows {
			c.width = max(c.width, utf8.RuneCountInString(row[i]))
		}
	}
	line := func(cell func(i int) string) {
		for i := range columns {
			out.WriteString("| " + cell(i) + " ")
		}
		out.WriteString("|\n")
	}
	line(func(i int) string { return columns[i].pad(columns[i].title) })
	line(func(i int) string {
		if columns[i].align == right {
			return strings.Repeat("-", columns[i].width-1) + ":"
		}
		return strings.Repeat("-", columns[i].width)
	})
	for _, row := range rows {
		line(func(i int) string { return columns[i].pad(row[i]) })
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (c column) pad(text string) string {
	space := strings.Repeat(" ", c.width-utf8.RuneCountInString(text))
	if c.align == right {
		return space + text
	}
	return text + space
}

// WriteEngineMarkdown writes the table that llama-bench prints.
func WriteEngineMarkdown(w io.Writer, s EngineSubject, rows []EngineRow) error {
	columns := []column{
		{"model", 20, left}, {"size", 10, right}, {"params", 10, right}, {"backend", 10, left},
		{"threads", 7, right}, {"test", 13, right}, {"t/s", 20, right},
	}
	var cells [][]string
	for _, r := range rows {
		rates := r.Rates()
		cells = append(cells, []string{
			s.Model, fmt.Sprintf("%.2f MiB", float64(s.Info.FileBytes)/(1<<20)),
			fmt.Sprintf("%.2f %s", scaled(s.Info.Params), scaleOf(s.Info.Params)), s.Backend,
			strconv.Itoa(s.Info.Threads), r.Test.String(), fmt.Sprintf("%.2f ± %.2f", mean(rates), sampleDeviation(rates)),
		})
	}
	return markdown(w, columns, cells)
}

// scaled and scaleOf show a count of parameters in millions or billions.
func scaled(n uint64) float64 {
	if n >= 1e9 {
		return float64(n) / 1e9
	}
	return float64(n) / 1e6
}

func scaleOf(n uint64) string {
	if n >= 1e9 {
		return "B"
	}
	return "M"
}

// WriteEngineCSV writes one line per test, with the names that llama-bench
// gives its columns.
func WriteEngineCSV(w io.Writer, s EngineSubject, rows []EngineRow) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{ // Flush reports what went wrong
		"model", "model_size", "model_n_params", "backends", "n_threads", "type_kv",
		"n_prompt", "n_gen", "n_depth", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts",
	})
	number := func(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	for _, r := range rows {
		rates := r.Rates()
		_ = out.Write([]string{
			s.Model, strconv.FormatInt(s.Info.FileBytes, 10), strconv.FormatUint(s.Info.Params, 10),
			s.Backend, strconv.Itoa(s.Info.Threads), s.Info.KVType,
			strconv.Itoa(r.Test.Prompt), strconv.Itoa(r.Test.Generate), strconv.Itoa(r.Test.Depth),
			number(1e9*mean(r.Seconds), 0), number(1e9*sampleDeviation(r.Seconds), 0),
			number(mean(rates), 6), number(sampleDeviation(rates), 6),
		})
	}
	out.Flush()
	return out.Error()
}
