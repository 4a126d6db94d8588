package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"weir/router/balance"
)

// PrintFleets writes the results of one load under several policies as a table.
func PrintFleets(w io.Writer, results []*FleetResult) error {
	columns := []column{{title: "policy"}}
	for _, title := range []string{
		"done", "cut", "failed", "retries", "cached", "TTFT p50", "p99", "end p50", "p99", "tok/s", "busiest", "gated", "lasted", "replicas",
	} {
		columns = append(columns, column{title: title, align: right})
	}
	documents := slices.ContainsFunc(results, func(r *FleetResult) bool { return len(r.Documents) > 0 })
	if documents {
		for _, title := range []string{"ITL p50", "p99", "documents' TTFT p50", "p99", "prefills"} {
			columns = append(columns, column{title: title, align: right})
		}
	}
	var rows [][]string
	for _, r := range results {
		row := []string{r.Policy.String(), strconv.Itoa(r.Done), strconv.Itoa(r.Cut), strconv.Itoa(r.Failed), strconv.Itoa(r.Retries),
			fmt.Sprintf("%.1f %%", 100*r.HitRate())}
		for _, p := range []struct {
			values []float64
			p      float64
		}{{r.TTFT, 50}, {r.TTFT, 99}, {r.E2E, 50}, {r.E2E, 99}} {
			row = append(row, short(Percentile(p.values, p.p))+" s")
		}
		row = append(row, fmt.Sprintf("%.1f", r.PerSecond()), fmt.Sprintf("%.2f", r.Busiest), strconv.Itoa(r.Gated),
			fmt.Sprintf("%.0f s", r.Duration.Seconds()), fmt.Sprintf("%.2f", r.MeanReplicas()))
		if documents {
			for _, of := range [][]float64{r.Gaps, r.Documents} {
				row = append(row, short(1000*Percentile(of, 50))+" ms", short(1000*Percentile(of, 99))+" ms")
			}
			row = append(row, strconv.Itoa(r.Prefills))
		}
		rows = append(rows, row)
	}
	return markdown(w, columns, rows)
}

// PlotFleets draws the distributions of TTFT under several policies as SVG.
func PlotFleets(w io.Writer, title string, results []*FleetResult) error {
	const width, height = 2 * panelWidth, 420.0
	low, high := math.Inf(1), 0.0
	for _, r := range results {
		if len(r.TTFT) == 0 {
			return fmt.Errorf("plot: no request of policy %s was done", r.Policy)
		}
		low, high = min(low, Percentile(r.TTFT, 1)), max(high, Percentile(r.TTFT, 100))
	}
	legend := figureLine * float64(len(results))
	d := newDrawing(width, height+legend, title)
	d.text(panelLeft, 26, start, "title", title)
	x0, x1 := panelLeft, width-panelRight
	y0, y1 := height+legend-panelBottom, titleHeight+legend+10
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
	d.text((x0+x1)/2, y0+34, middle, "faint", "seconds to the first token, logarithmic")
	d.upright(16, (y0+y1)/2, "faint", "share of requests")
	for i, r := range results {
		percentiles := make([]float64, 101)
		for p := range percentiles {
			percentiles[p] = Percentile(r.TTFT, float64(p))
		}
		d.cumulative(percentiles, x, y, i)
		d.text(x0, titleHeight+figureLine*float64(i)+6, start, series(i), fmt.Sprintf("%s: p50 %s s · p99 %s s · %.0f %% of prompt tokens cached · %.0f tok/s",
			r.Policy, short(percentiles[50]), short(percentiles[99]), 100*r.HitRate(), r.PerSecond()))
	}
	return d.writeTo(w)
}

// FleetResult is what a simulated fleet did.
type FleetResult struct {
	Policy    balance.Policy
	Replicas  int
	Requests  int
	Done      int
	Cut       int // their replica died after the first token
	Failed    int // refused or dead replicas until attempts were used up
	Retries   int
	Prompt    uint64 // tokens of admitted requests
	Cached    uint64 // of these, taken from the replicas' caches
	Output    uint64 // tokens
	Guessed   uint64 // tokens that the router took to be cached where it sent requests
	Gated     int    // picks that passed the preferred replica over
	TTFT      []float64
	E2E       []float64     // both in seconds, sorted, of requests that are done
	Duration  time.Duration // until the last request ended
	Busiest   float64       // most compute time of a replica, by the mean
	Gaps      []float64     // between tokens, in seconds, of a load with documents
	Documents []float64     // times to the first tokens of documents, in seconds; TTFT is then of the others
	Prefills  int           // prompts that prefill replicas computed
	Digest    uint64        // equal simulations have equal ones

	ByReplica []int // requests that are done, of each replica

	Present time.Duration // of all replicas together, from their start to their end
	Most    int           // replicas at a time
	Scales  []FleetScale  // what an autoscaler changed
}

// HitRate is the share of prompt tokens that came from replicas' caches.
func (r *FleetResult) HitRate() float64 { return float64(r.Cached) / max(1, float64(r.Prompt)) }

// PerSecond is the output tokens by the second.
func (r *FleetResult) PerSecond() float64 { return float64(r.Output) / r.Duration.Seconds() }

// MeanReplicas is how many replicas were there in the mean, those that start or end included.
func (r *FleetResult) MeanReplicas() float64 {
	return r.Present.Seconds() / max(r.Duration.Seconds(), 1e-9)
}
