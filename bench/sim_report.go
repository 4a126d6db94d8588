package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// SimRow sums up the requests of one label. Latencies are in seconds,
// sorted.
type SimRow struct {
	Label     string
	Requests  int
	Failed    int
	TTFT      []float64
	Steady    []float64 // TTFT without the cold ramp of a closed loop
	ITL       []float64
	LastEnd   time.Duration
	Tokens    int
	PerSecond float64 // output tokens
}

// Rows sums up a simulation by label, in the order of the labels' first requests.
func (r *SimResult) Rows() []SimRow {
	var rows []SimRow
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		at := slices.IndexFunc(rows, func(w SimRow) bool { return w.Label == o.Request.Label })
		if at < 0 {
			at = len(rows)
			rows = append(rows, SimRow{Label: o.Request.Label})
		}
		w := &rows[at]
		w.Requests++
		if o.Err != nil {
			w.Failed++
			continue
		}
		w.TTFT = append(w.TTFT, o.TTFT().Seconds())
		if i >= r.Ramp {
			w.Steady = append(w.Steady, o.TTFT().Seconds())
		}
		for _, gap := range o.Gaps {
			w.ITL = append(w.ITL, gap.Seconds())
		}
		w.Tokens += o.Tokens
		w.LastEnd = max(w.LastEnd, o.Last)
	}
	for i := range rows {
		w := &rows[i]
		slices.Sort(w.TTFT)
		slices.Sort(w.Steady)
		slices.Sort(w.ITL)
		w.PerSecond = float64(w.Tokens) / r.Duration.Seconds()
	}
	return rows
}

// Print writes the simulation as a table.
func (r *SimResult) Print(w io.Writer) error {
	columns := []column{{title: "requests"}}
	for _, title := range []string{
		"n", "failed", "tok/s", "TTFT p50", "p99", "p50 after ramp", "p99 after ramp", "worst", "ITL p50", "ITL p99", "last end",
	} {
		columns = append(columns, column{title: title, align: right})
	}
	var rows [][]string
	for _, s := range r.Rows() {
		row := []string{cmp.Or(s.Label, "all"), strconv.Itoa(s.Requests), strconv.Itoa(s.Failed), fmt.Sprintf("%.1f", s.PerSecond)}
		for _, p := range []struct {
			values []float64
			p      float64
		}{{s.TTFT, 50}, {s.TTFT, 99}, {s.Steady, 50}, {s.Steady, 99}, {s.TTFT, 100}, {s.ITL, 50}, {s.ITL, 99}} {
			row = append(row, fmt.Sprintf("%.0f ms", 1000*Percentile(p.values, p.p)))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.1f s", s.LastEnd.Seconds())))
	}
	if err := markdown(w, columns, rows); err != nil {
		return err
	}
	c := &r.Counters
	_, err := fmt.Fprintf(w, "\n%.1f s in %d steps, the longest %.0f ms; %d rows, %d computed again after %d preemptions, %d pauses\n%s",
		r.Duration.Seconds(), c.Steps, 1000*r.Longest.Seconds(), c.Rows, c.RecomputedTokens, c.Preemptions, c.Pauses, r.fairness())
	return err
}
