package quality

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteText writes a report for a terminal, with a plot of the calibration.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(append([]string{"slice"}, r.heads()...), "\t"))
	for _, s := range append([]Slice{r.All}, r.Slices...) {
		fmt.Fprintln(t, strings.Join(append([]string{s.Name}, s.cells()...), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	bins := r.All.bins()
	if len(bins) == 0 {
		return nil
	}
	fmt.Fprint(w, "\ncalibration: mean label of the rows by score (█), and where it should be (│)\n")
	low, high := bounds(bins)
	for _, b := range bins {
		fmt.Fprintf(w, "%10.4g to %-10.4g %s %.4g of %d rows\n", b.Low, b.High, textBar(b, low, high), b.Rate, b.Rows)
	}
	return nil
}

const barCells = 40

func textBar(b Calibrated, low, high float64) string {
	at := func(x float64) int {
		return min(max(int(math.Round((x-low)/(high-low)*barCells)), 0), barCells)
	}
	bar := []rune(strings.Repeat("█", at(b.Rate)) + strings.Repeat(" ", barCells+1-at(b.Rate)))
	bar[at(b.Score)] = '│'
	return string(bar)
}

// bounds of the axes: 0 to 1, or what a regression's scores and labels need.
func bounds(bins []Calibrated) (low, high float64) {
	low, high = 0, 1
	for _, b := range bins {
		low, high = min(low, b.Score, b.Rate), max(high, b.Score, b.Rate)
	}
	return low, high
}

func (s *Slice) bins() []Calibrated {
	switch {
	case s.Binary != nil:
		return s.Binary.Bins
	case s.Numbers != nil:
		return s.Numbers.Bins
	}
	return nil
}

func (r *Report) heads() []string {
	switch r.Task {
	case BinaryTask:
		return []string{"rows", "positives", "AUC", "log loss", "Brier", "accuracy", "calibration error"}
	case ClassesTask:
		return []string{"rows", "log loss", "accuracy"}
	default:
		return []string{"rows", "RMSE", "MAE", "bias", "R²"}
	}
}

func (s *Slice) cells() []string {
	var list []any
	rows := 0
	switch {
	case s.Binary != nil:
		b := s.Binary
		rows, list = b.Rows, []any{b.AUC, Figure(b.LogLoss), Figure(b.Brier), Figure(b.Accuracy), Figure(b.ECE)}
		list = append([]any{b.Positives}, list...)
	case s.Classes != nil:
		rows, list = s.Classes.Rows, []any{Figure(s.Classes.LogLoss), Figure(s.Classes.Accuracy)}
	case s.Numbers != nil:
		n := s.Numbers
		rows, list = n.Rows, []any{Figure(n.RMSE), Figure(n.MAE), Figure(n.Bias), n.R2}
	}
	out := []string{strconv.Itoa(rows)}
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// WriteHTML writes a report as one page, without scripts and files beside it.
func (r *Report) WriteHTML(w io.Writer) error { return page.Execute(w, r) }

// side of the plot, in its units.
const side = 260

// dot is a point of the plot.
type dot struct{ X, Y, R float64 }

// dots are the calibration's bins: score to the right, label upwards, rows by area.
func dots(s Slice) []dot {
	bins := s.bins()
	low, high := bounds(bins)
	most := 1
	for _, b := range bins {
		most = max(most, b.Rows)
	}
	var out []dot
	for _, b := range bins {
		out = append(out, dot{(b.Score - low) / (high - low) * side, side - (b.Rate-low)/(high-low)*side,
			2 + 8*math.Sqrt(float64(b.Rows)/float64(most))})
	}
	return out
}

var page = template.Must(template.New("quality").Funcs(template.FuncMap{
	"dots": dots, "cells": func(s Slice) []string { return s.cells() }, "heads": func(r *Report) []string { return r.heads() },
	"rows": func(r *Report) []Slice { return append([]Slice{r.All}, r.Slices...) },
}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>weir: quality of predictions</title>
<style>
body{font:14px/1.4 system-ui,sans-serif;margin:1.5rem;color:#222;background:#fff}
h1{font-size:1.2rem}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .7rem;border-bottom:1px solid #ddd;text-align:right}
td:first-child,th:first-child{text-align:left}
circle{fill:#1f6feb;fill-opacity:.7}line{stroke:#9aa5b1}rect{fill:none;stroke:#ccc}
</style>
<h1>Quality of predictions ({{.Task}})</h1>
<table><tr><th>slice</th>{{range heads .}}<th>{{.}}</th>{{end}}</tr>
{{range rows .}}<tr><td>{{.Name}}</td>{{range cells .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table>
{{with dots .All}}<svg width="290" height="290" viewBox="-15 -15 290 290" role="img" aria-label="calibration"><rect width="260" height="260"/>
<line x1="0" y1="260" x2="260" y2="0"/>{{range .}}<circle cx="{{.X}}" cy="{{.Y}}" r="{{.R}}"/>{{end}}</svg>
<p>Calibration: mean score of a bin to the right, mean label upwards; the area is its rows. On the line scores are what they say.</p>{{end}}
</html>
`))
