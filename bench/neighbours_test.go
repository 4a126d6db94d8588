package bench

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAttacksAreRequests(t *testing.T) {
	for _, a := range Attacks {
		path, body := a.request(50, 1, 2)
		_, next := a.request(50, 1, 3)
		var fields map[string]any
		if err := json.Unmarshal(body, &fields); err != nil || fields["model"] != clusterModel || !strings.HasPrefix(path, "/") {
			t.Errorf("%s: %s %.80s: %v", a.Name, path, body, err)
		}
		if string(body) == string(next) && a.Name != "allowed" {
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
		{First: []float64{10, 20, 30}}, {Attack: "streams", About: "thirty streams", First: []float64{40, 50, 300}, Sent: 9, Refused: 2, Peak: 5 << 20},
		{Attack: "regex", About: "a regular expression", Failed: map[string]int{failTimeout: 3, "http_503": 1}},
	}
	var table, plot strings.Builder
	if err := WriteNeighbours(&table, rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| nothing | 20 | 30 | 1.0x | 0 | 0 (0) |", "| thirty streams | 50 | 300 | 2.5x | 0 | 9 (2) | 5 |", "3 timeout"} {
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
