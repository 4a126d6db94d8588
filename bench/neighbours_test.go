package bench

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"weir/internal/reference"
)

func TestAttacksAreRequests(t *testing.T) {
	reference.Slow(t)
	for _, a := range Attacks {
		if a.do != nil {
			continue
		}
		path, body := a.request(50, 1, 2)
		_, next := a.request(50, 1, 3)
		var fields map[string]any
		if err := json.Unmarshal(body, &fields); err != nil || fields["model"] != clusterModel || !strings.HasPrefix(path, "/") {
			t.Errorf("%s: %s %.80s: %v", a.Name, path, body, err)
		}
		if string(body) == string(next) {
			t.Errorf("%s sends the same request each time, which a cache answers", a.Name)
		}
	}
	if list, err := attacksNamed([]string{"regex", "prompts"}); err != nil || len(list) != 2 || list[0].Name != "regex" {
		t.Errorf("%v %v", list, err)
	}
	if _, err := attacksNamed([]string{"nosuch"}); err == nil || !strings.Contains(err.Error(), "prompts, choices") {
		t.Errorf("%v", err)
	}
}

func TestNeighboursAreReported(t *testing.T) {
	rows := []*Neighbour{
		{First: []float64{10, 20, 30}}, {Attack: "streams", About: "thirty streams", First: []float64{40, 50, 300}, Sent: AttackCounts{Answered: 9, Refused: 2, HungUp: 1, Seconds: 2}, Cores: Cores{1.2, 0.3},
			Gaps: []float64{4, 5, 70}, Steps: Steps{P50: 30, Worst: 200}, Peak: Memory{Resident: 5 << 20, Heap: 2 << 20}, Rest: Memory{Resident: 4 << 20, Heap: 1 << 20}},
		{Attack: "regex", About: "a regular expression", Failed: map[string]int{failTimeout: 3, "http_503": 1}},
	}
	var table, plot strings.Builder
	if err := WriteNeighboursHead(&table); err != nil {
		t.Fatal(err)
	}
	for _, n := range rows {
		if err := n.WriteRow(&table); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"| nothing | 20 | 30 | 0 | 0 | 0.0 |", "| thirty streams | 50 | 300 | 30 | 200 | 1.5 | 5 | 70 | 0 | 9 (2) | 1 | 5 | 1.2, 0.3 | 5 (2) | 4 (1) |", "3 timeout"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	if err := PlotNeighbours(&plot, rows); err != nil || !strings.Contains(plot.String(), "thirty streams") || !strings.Contains(plot.String(), "no answer") {
		t.Errorf("%v %s", err, plot.String())
	}
	if err := PlotNeighbours(&plot, rows[2:]); err == nil {
		t.Error("a plot of nothing")
	}
}

func TestStepsBetweenTwoPages(t *testing.T) {
	const first = "# TYPE weir_step_seconds histogram\n" +
		`weir_step_seconds_bucket{engine="0",model_name="m",le="0.01"} 5` + "\n" + `weir_step_seconds_bucket{engine="0",model_name="m",le="0.012"} 5` + "\n" +
		`weir_step_seconds_bucket{engine="0",model_name="m",le="0.1"} 5` + "\n" + `weir_step_seconds_bucket{engine="0",model_name="m",le="+Inf"} 6` + "\n" +
		"go_memstats_heap_inuse_bytes 1.048576e+06\nprocess_cpu_seconds_total 1.5\n"
	before, err := readPage([]byte(first))
	if err != nil {
		t.Fatal(err)
	}
	after, err := readPage([]byte(strings.NewReplacer(`"0.012"} 5`, `"0.012"} 8`, `"0.1"} 5`, `"0.1"} 9`, `"+Inf"} 6`, `"+Inf"} 10`).Replace(first)))
	if err != nil {
		t.Fatal(err)
	}
	if s := stepsBetween(before, after); math.Abs(s.P50-11) > 1e-9 || math.Abs(s.Worst-56) > 1e-9 {
		t.Errorf("steps %+v, want 11 and 56 ms", s)
	}
	if s := stepsBetween(after, after); s != (Steps{}) {
		t.Errorf("steps %+v where there were none", s)
	}
	if after.heap != 1<<20 || after.cpu != 1.5 {
		t.Errorf("heap %d, processor time %v", after.heap, after.cpu)
	}
	if _, err := readPage([]byte("go_memstats_heap_inuse_bytes many\n")); err == nil {
		t.Error("a page that is none")
	}
}
