package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// panels are the latencies of the plot, in reading order.
var panels = []struct{ key, title, share string }{
	{"ttft", "Time to first token", "requests"},
	{"itl", "Inter-token latency", "gaps"},
	{"tpot", "Time per output token", "requests"},
	{"e2el", "End-to-end latency", "requests"},
}

// Sizes of the plot of latencies.
const (
	panelWidth, panelHeight = 430.0, 300.0
	panelLeft, panelRight   = 58.0, 18.0
	panelTop, panelBottom   = 28.0, 44.0
	figureLine              = 15.0 // of each result, under a panel's title
	titleHeight             = 40.0
	legendLine              = 18.0
)

// distributions reads what Report.Fill wrote; nil if the result has none.
func (r *Result) distributions() map[string][]float64 {
	var all map[string][]float64
	for _, f := range r.fields {
		if m, ok := f.value.(map[string][]float64); ok && f.name == "distributions_ms" {
			return m
		}
	}
	if json.Unmarshal(r.extra["distributions_ms"], &all) != nil {
		return nil
	}
	return all
}

// Plot draws results as SVG: the distributions of latencies if all have them,
// else each figure as a ratio to the first result's. Names stand in the legend.
func Plot(w io.Writer, results []*Result, names []string) error {
	latencies := len(results) > 0
	for _, r := range results {
		latencies = latencies && r.distributions() != nil
	}
	if latencies {
		return plotLatencies(w, results, names)
	}
	if len(results) < 2 {
		return errors.New("plot: one result without distributions has nothing to draw; give two or more")
	}
	return plotRatios(w, results, names)
}

func plotLatencies(w io.Writer, results []*Result, names []string) error {
	legend := legendLine * float64(len(results))
	height := panelHeight + figureLine*float64(len(results))
	d := newDrawing(2*panelWidth, titleHeight+legend+2*height, "Distributions of latencies")
	d.text(panelLeft, 26, start, "title", "Latency: share of requests at or below")
	for i, r := range results {
		y := titleHeight + legendLine*float64(i) + 6
		d.rect(panelLeft, y-8, 18, 4, "fill "+series(i))
		d.text(panelLeft+26, y, start, "", legendText(r, names[i]))
	}
	for i, p := range panels {
		left, top := panelWidth*float64(i%2), titleHeight+legend+height*float64(i/2)
		d.distribution(left, top, height, p.key, p.title, p.share, results)
	}
	return d.writeTo(w)
}

func series(i int) string { return fmt.Sprintf("s%d", i%palette) }

// legendText names a result and what it measured.
func legendText(r *Result, name string) string {
	for _, row := range r.Rows {
		if row.Name == "output_throughput" {
			return fmt.Sprintf("%s: %s, %s tok/s out", name, r.Model.Name, short(row.Value))
		}
	}
	return name + ": " + r.Model.Name
}

// distribution draws one panel. Its scale begins at the 5th percentile: gaps
// between tokens that came in one packet are next to nothing.
func (d *drawing) distribution(left, top, height float64, key, title, share string, results []*Result) {
	low, high := math.Inf(1), 0.0
	for _, r := range results {
		if p := r.distributions()[key]; len(p) == 101 && p[100] > 0 {
			low, high = min(low, p[5]), max(high, p[100])
		}
	}
	x0, x1 := left+panelLeft, left+panelWidth-panelRight
	y0, y1 := top+height-panelBottom, top+panelTop+figureLine*float64(len(results))
	d.text(x0, top+18, start, "head", title)
	if high == 0 {
		d.text((x0+x1)/2, (y0+y1)/2, middle, "faint", "not measured")
		return
	}
	y := func(percent float64) float64 { return y0 + (y1-y0)*percent/100 }
	for percent := 0.0; percent <= 100; percent += 25 {
		d.line(x0, y(percent), x1, y(percent), "grid")
		d.text(x0-8, y(percent)+4, end, "faint", short(percent)+" %")
	}
	x := newLogScale(low, high, x0, x1)
	for _, t := range x.ticks() {
		d.line(x.at(t), y0, x.at(t), y1, "grid")
		d.text(x.at(t), y0+16, middle, "faint", short(t))
	}
	d.line(x0, y0, x1, y0, "axis")
	d.text((x0+x1)/2, y0+34, middle, "faint", "milliseconds, logarithmic")
	d.upright(left+16, (y0+y1)/2, "faint", "share of "+share)
	for i, r := range results {
		if p := r.distributions()[key]; len(p) == 101 {
			d.cumulative(p, x, y, i)
			d.text(x0, top+18+figureLine*float64(i+1), start, series(i), fmt.Sprintf("p50 %s · p99 %s ms", short(p[50]), short(p[99])))
		}
	}
}

// cumulative draws a curve through the percentiles, with the median and the
// 99th marked.
func (d *drawing) cumulative(percentiles []float64, x logScale, y func(float64) float64, i int) {
	points := make([]float64, 0, 2*len(percentiles))
	for p, v := range percentiles {
		points = append(points, x.at(v), y(float64(p)))
	}
	d.curve(points, series(i))
	for _, p := range []int{50, 99} {
		d.dot(x.at(percentiles[p]), y(float64(p)), series(i))
	}
}

// Sizes of the plot of ratios.
const (
	ratioWidth, ratioLeft, ratioRight = 860.0, 260.0, 70.0
	barHeight, barGap                 = 12.0, 8.0
	mostBars                          = 200
)

// plotRatios draws a bar for each figure and each result after the first.
func plotRatios(w io.Writer, results []*Result, names []string) error {
	c, err := Compare(results, names, CompareOptions{})
	if err != nil {
		return err
	}
	var lines []CompareLine
	low, high := 0.8, 1.25
	for _, l := range c.Lines {
		if !l.comparable() {
			continue
		}
		lines = append(lines, l)
		for _, cell := range l.Cells[1:] {
			if cell.Ratio > 0 {
				low, high = min(low, cell.Ratio), max(high, cell.Ratio)
			}
		}
	}
	if len(lines) == 0 {
		return errors.New("plot: the results have no figure in common")
	}
	lines = lines[:min(len(lines), mostBars)]
	group := barHeight*float64(len(results)-1) + barGap
	top := titleHeight + legendLine*float64(len(results))
	d := newDrawing(ratioWidth, top+group*float64(len(lines))+44, "Figures as ratios")
	d.text(20, 26, start, "title", "Ratio to "+names[0])
	for i, name := range names[1:] {
		d.text(20, titleHeight+legendLine*float64(i)+6, start, "", fmt.Sprintf("bar %d: %s", i+1, name))
	}
	d.bars(lines, newLogScale(low, high, ratioLeft, ratioWidth-ratioRight), top, group)
	return d.writeTo(w)
}

func (d *drawing) bars(lines []CompareLine, x logScale, top, group float64) {
	bottom := top + group*float64(len(lines))
	for _, t := range x.ticks() {
		d.line(x.at(t), top, x.at(t), bottom, "grid")
		d.text(x.at(t), bottom+16, middle, "faint", short(t))
	}
	d.text((x.from+x.to)/2, bottom+34, middle, "faint", "ratio, logarithmic; green is better, orange worse")
	for i, l := range lines {
		y := top + group*float64(i)
		d.text(x.from-10, y+group/2+2, end, "", l.Name)
		for j, cell := range l.Cells[1:] {
			if !(cell.Ratio > 0) {
				continue
			}
			a, b := x.at(1), x.at(cell.Ratio)
			at := y + barHeight*float64(j)
			d.rect(min(a, b), at+1, max(1, math.Abs(b-a)), barHeight-2, "fill "+cell.Verdict.class())
			d.text(max(a, b)+6, at+barHeight-2, start, "faint", short(cell.Ratio))
		}
	}
	d.line(x.at(1), top, x.at(1), bottom, "axis")
}
