package bench

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ClusterFigures are a run's, over all requests that were not under way at its end.
type ClusterFigures struct {
	Requests, Failed int
	FailedBefore     int // of these, without a byte of an answer
	OutputPerSecond  float64
	HitShare         float64    // of prompt tokens that came from a prefix cache
	TTFT             [3]float64 // p50, p90, p99 in milliseconds
	ByReplica        map[string]int
	Errors           map[string]int // by kind of failure
}

// Figures computes them.
func (r *ClusterRun) Figures() ClusterFigures {
	f := ClusterFigures{Requests: len(r.Turns), ByReplica: map[string]int{}, Errors: map[string]int{}}
	var first []float64
	tokens, prompt, cached := 0, 0, 0
	for i := range r.Turns {
		t := &r.Turns[i]
		f.ByReplica[t.Replica]++
		tokens += t.OutputTokens
		if !t.ok() {
			f.Failed++
			f.Errors[t.Kind]++
			if t.Chunks == 0 {
				f.FailedBefore++
			}
			continue
		}
		first = append(first, 1000*t.FirstText)
		prompt, cached = prompt+t.PromptTokens, cached+t.CachedTokens
	}
	f.OutputPerSecond = float64(tokens) / r.Duration.Seconds()
	if prompt > 0 {
		f.HitShare = float64(cached) / float64(prompt)
	}
	slices.Sort(first)
	if len(first) > 0 {
		for i, p := range []float64{50, 90, 99} {
			f.TTFT[i] = Percentile(first, p)
		}
	}
	return f
}

// AddCluster writes the runs' figures into the result, and those of their simulation.
func (r *Result) AddCluster(runs []*ClusterRun, simulated []*FleetResult) {
	for _, row := range clusterRows(runs, simulated) {
		f, at := row.ClusterFigures, strings.ReplaceAll(row.name, ", ", "_")+"_"
		r.AddValue(at+"output_throughput", "tok/s", f.OutputPerSecond)
		r.AddValue(at+"cached_share", "share", f.HitShare)
		for i, p := range []string{"p50", "p90", "p99"} {
			r.AddValue(at+p+"_ttft_ms", "ms", f.TTFT[i])
		}
		r.AddValue(at+"requests", "", float64(f.Requests))
		r.AddValue(at+"failed", "", float64(f.Failed))
	}
}

// clusterRow is a row of the table of runs.
type clusterRow struct {
	name string
	base *ClusterFigures // what its ratios refer to: the last row of its kind
	ClusterFigures
}

// clusterRows are the runs and then their simulation.
func clusterRows(runs []*ClusterRun, simulated []*FleetResult) []clusterRow {
	var rows []clusterRow
	ratios := func(of []clusterRow) {
		for i := range of {
			of[i].base = &of[len(of)-1].ClusterFigures
		}
	}
	for _, run := range runs {
		rows = append(rows, clusterRow{name: run.Policy, ClusterFigures: run.Figures()})
	}
	ratios(rows)
	for _, r := range simulated {
		rows = append(rows, clusterRow{name: r.Policy.String() + ", simulated", ClusterFigures: r.figures()})
	}
	ratios(rows[len(runs):])
	return rows
}

// WriteClusterMarkdown writes the runs as a table, and those of their simulation, with ratios beside the last one of their kind.
func WriteClusterMarkdown(w io.Writer, runs []*ClusterRun, simulated []*FleetResult) error {
	columns := []column{{title: "policy"}, {title: "requests", align: right}, {title: "failed", align: right}, {title: "output tok/s", align: right},
		{title: "cached", align: right}, {title: "TTFT p50 ms", align: right}, {title: "p90", align: right}, {title: "p99", align: right}, {title: "by replica"}}
	var rows [][]string
	for _, f := range clusterRows(runs, simulated) {
		var shares []string
		for _, name := range slices.Sorted(maps.Keys(f.ByReplica)) {
			shares = append(shares, strconv.Itoa(f.ByReplica[name]))
		}
		rows = append(rows, []string{f.name, strconv.Itoa(f.Requests), strconv.Itoa(f.Failed),
			fmt.Sprintf("%.0f (%.2fx)", f.OutputPerSecond, f.OutputPerSecond/f.base.OutputPerSecond), fmt.Sprintf("%.0f %%", 100*f.HitShare),
			fmt.Sprintf("%.0f (%.2fx)", f.TTFT[0], f.TTFT[0]/f.base.TTFT[0]), fmt.Sprintf("%.0f", f.TTFT[1]),
			fmt.Sprintf("%.0f (%.2fx)", f.TTFT[2], f.TTFT[2]/f.base.TTFT[2]), strings.Join(shares, " ")})
	}
	if err := markdown(w, columns, rows); err != nil {
		return err
	}
	for _, run := range runs {
		f := run.Figures()
		for _, kind := range slices.Sorted(maps.Keys(f.Errors)) {
			fmt.Fprintf(w, "%s: %d requests failed with %s: %s\n", run.Policy, f.Errors[kind], kind, run.example(kind))
		}
	}
	return nil
}

// example is what a client read of one failure of a kind.
func (r *ClusterRun) example(kind string) string {
	i := slices.IndexFunc(r.Turns, func(t Turn) bool { return t.Kind == kind })
	return r.Turns[i].Error
}

// Sizes of a cluster's plot.
const (
	clusterWidth, clusterLeft, clusterRight = 900.0, 130.0, 20.0
	clusterHead, clusterLane, clusterFoot   = 74.0, 92.0, 44.0
)

// PlotCluster draws what happened, as SVG: a lane for each replica and run, with a line for
// each request from its start to its end and a dot at its first token.
func PlotCluster(w io.Writer, runs []*ClusterRun) error {
	if len(runs) == 0 {
		return errors.New("plot: there is no run")
	}
	lanes := 0
	for _, r := range runs {
		lanes += len(r.lanes())
	}
	height := clusterHead*float64(len(runs)) + clusterLane*float64(lanes) + clusterFoot
	d := newDrawing(clusterWidth, height, "Requests of a cluster over time")
	top := 0.0
	for _, r := range runs {
		top = r.draw(d, top)
	}
	return d.writeTo(w)
}

// laneColours are classes of the style sheet that are not taken for "bad".
var laneColours = []string{series(0), series(2), series(3)}

// lanes are the replicas of a run, and "" for requests that none took.
func (r *ClusterRun) lanes() []string { return slices.Sorted(maps.Keys(r.Figures().ByReplica)) }

func (r *ClusterRun) draw(d *drawing, top float64) (bottom float64) {
	f, lanes := r.Figures(), r.lanes()
	d.text(clusterLeft, top+24, start, "title", fmt.Sprintf("%s: %.0f tokens/s, TTFT p50 %.0f ms, p99 %.0f ms, %.0f %% cached, %d of %d requests failed",
		r.Policy, f.OutputPerSecond, f.TTFT[0], f.TTFT[2], 100*f.HitShare, f.Failed, f.Requests))
	d.text(clusterLeft, top+44, start, "faint", "a line is a request, its dot the first token; orange broke off or was refused")
	top += clusterHead
	bottom = top + clusterLane*float64(len(lanes))
	x := func(seconds float64) float64 {
		return clusterLeft + (clusterWidth-clusterLeft-clusterRight)*min(seconds/r.Duration.Seconds(), 1)
	}
	for i, name := range lanes {
		y := top + clusterLane*float64(i)
		label := name
		if label == "" {
			label = "no replica"
		}
		d.text(clusterLeft-8, y+clusterLane/2, end, "head", label)
		d.line(clusterLeft, y+clusterLane-4, clusterWidth-clusterRight, y+clusterLane-4, "grid")
		r.drawLane(d, name, y, i, x)
	}
	for _, mark := range []struct {
		at   time.Duration
		what string
	}{{r.KilledAt, r.Killed + " killed"}, {r.Returned, "and back"}} {
		if mark.at > 0 {
			d.line(x(mark.at.Seconds()), top-16, x(mark.at.Seconds()), bottom, "axis")
			d.text(x(mark.at.Seconds())+4, top-6, start, "faint", mark.what)
		}
	}
	for s := 0.0; s <= r.Duration.Seconds(); s += max(1, float64(int(r.Duration.Seconds()/10))) {
		d.text(x(s), bottom+14, middle, "faint", fmt.Sprintf("%.0f s", s))
	}
	return bottom + clusterFoot/2
}

func (r *ClusterRun) drawLane(d *drawing, replica string, top float64, lane int, x func(float64) float64) {
	most := 1
	for i := range r.Turns {
		most = max(most, r.Turns[i].Client+1)
	}
	for i := range r.Turns {
		t := &r.Turns[i]
		if t.Replica != replica {
			continue
		}
		y := top + 6 + (clusterLane-16)*float64(t.Client)/float64(most)
		class := laneColours[lane%len(laneColours)]
		if !t.ok() {
			class = "bad"
		}
		d.curve([]float64{x(t.Start), y, max(x(t.Start+t.Latency), x(t.Start)+1), y}, class)
		if t.Chunks > 0 {
			d.dot(x(t.Start+t.TTFT), y, class)
		}
	}
}
