package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/router/balance"
)

func simulateFleet(t *testing.T, o FleetOptions) *FleetResult {
	t.Helper()
	o.Check = true
	r, err := SimulateFleet(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// longSimulation skips a test in short runs: the race detector has nothing to find in a simulation, which is one goroutine, and takes
// ten times as long for it. TestFleetIsDeterministic and the smaller ones stay.
func longSimulation(t *testing.T) {
	t.Helper()
	reference.Slow(t)
}

// The promise of the router: with equal load, half the time to the first token that taking turns gives, or half as much output again.
func TestFleetPrefixesBeatTakingTurns(t *testing.T) {
	longSimulation(t)
	for seed := range uint64(3) {
		o := FleetOptions{Seed: seed, Load: FleetLoad{Requests: 900, Rate: 1.8}}
		prefix := simulateFleet(t, o)
		o.Policy = balance.RoundRobin
		turns := simulateFleet(t, o)
		p, q := Percentile(prefix.TTFT, 50), Percentile(turns.TTFT, 50)
		if p > 0.5*q && prefix.PerSecond() < 1.5*turns.PerSecond() {
			t.Errorf("seed %d: TTFT p50 %.2f s and %.1f tok/s by prefix, %.2f s and %.1f tok/s by turns", seed, p, prefix.PerSecond(),
				q, turns.PerSecond())
		}
		if prefix.HitRate() < turns.HitRate()+0.1 {
			t.Errorf("seed %d: %.2f of prompts cached by prefix, %.2f by turns", seed, prefix.HitRate(), turns.HitRate())
		}
		if got := float64(prefix.Guessed) / float64(prefix.Prompt); got < prefix.HitRate()-0.1 || got > prefix.HitRate()+0.1 {
			t.Errorf("seed %d: the router took %.2f of prompts to be cached, %.2f were", seed, got, prefix.HitRate())
		}
	}
}

func TestFleetIsDeterministic(t *testing.T) {
	reference.Slow(t)
	for p := range balance.Policies() {
		o := FleetOptions{Policy: balance.Policy(p), Seed: 4, Load: FleetLoad{Requests: 200},
			Faults: []FleetFault{{Replica: 1, At: 20 * time.Second, Down: 30 * time.Second}}}
		a, b := simulateFleet(t, o), simulateFleet(t, o)
		o.Seed++
		if c := simulateFleet(t, o); a.Digest != b.Digest || a.Digest == c.Digest {
			t.Errorf("%v: digests %x and %x of one seed, %x of the next", balance.Policy(p), a.Digest, b.Digest, c.Digest)
		}
	}
}

// Each request ends once, whatever dies; what had no token yet is answered by another replica.
func TestFleetSurvivesDeaths(t *testing.T) {
	longSimulation(t)
	for p := range balance.Policies() {
		r := simulateFleet(t, FleetOptions{
			Replicas: 4, Policy: balance.Policy(p), Seed: 2, Load: FleetLoad{Requests: 800, Rate: 4},
			Faults: []FleetFault{
				{Replica: 0, At: 30 * time.Second, Down: 20 * time.Second},
				{Replica: 1, At: 45 * time.Second, Down: 20 * time.Second}, // two of four are down
				{Replica: 0, At: 90 * time.Second, Down: time.Second},
				{Replica: 3, At: 120 * time.Second},
			},
		})
		if r.Failed > 0 || r.Retries == 0 || r.Cut == 0 || r.Cut > 80 {
			t.Errorf("%v: %d done, %d cut, %d failed, %d retries", r.Policy, r.Done, r.Cut, r.Failed, r.Retries)
		}
	}
}

func TestFleetWithoutReplicasFailsItsRequests(t *testing.T) {
	r := simulateFleet(t, FleetOptions{Replicas: 1, Load: FleetLoad{Requests: 50}, Faults: []FleetFault{{At: time.Second}}})
	if r.Failed == 0 || r.Done+r.Cut+r.Failed != 50 {
		t.Errorf("%d done, %d cut, %d failed of 50", r.Done, r.Cut, r.Failed)
	}
}

// Old reports, or none, cost little: own counts of what is in flight decide then.
func TestFleetReportsMayBeLate(t *testing.T) {
	longSimulation(t)
	base := 0.0
	for i, o := range []FleetOptions{{}, {Report: time.Second, Late: time.Second}, {Report: -1}} {
		o.Seed, o.Load = 1, FleetLoad{Requests: 900, Rate: 1.8}
		p50 := Percentile(simulateFleet(t, o).TTFT, 50)
		if i == 0 {
			base = p50
		} else if p50 > 1.5*base {
			t.Errorf("TTFT p50 is %.2f s with reports every %v, %v late; %.2f s with fresh ones", p50, o.Report, o.Late, base)
		}
	}
}

func TestFleetTableAndPlot(t *testing.T) {
	r := simulateFleet(t, FleetOptions{Load: FleetLoad{Requests: 60}})
	var table, picture bytes.Buffer
	if err := PrintFleets(&table, []*FleetResult{r}); err != nil || !strings.Contains(table.String(), "| prefix") {
		t.Errorf("%v\n%s", err, table.String())
	}
	if err := PlotFleets(&picture, "a fleet", []*FleetResult{r}); err != nil || strings.Count(picture.String(), "<polyline") != 1 {
		t.Errorf("%v\n%s", err, picture.String())
	}
	if err := PlotFleets(&picture, "a fleet", []*FleetResult{{}}); err == nil {
		t.Error("a result without requests is drawn")
	}
}

func TestFleetOptionsAreChecked(t *testing.T) {
	for _, o := range []FleetOptions{
		{Replicas: -1}, {KVTokens: 100}, {Load: FleetLoad{Rate: -1}}, {Load: FleetLoad{Turns: 0.5}}, {Load: FleetLoad{Tenants: -1}},
		{Faults: []FleetFault{{Replica: 3}}},
	} {
		if _, err := SimulateFleet(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
