package bench

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// The simulated autoscaler has the numbers of the manifest.
func TestScalingIsTheManifests(t *testing.T) {
	data, err := os.ReadFile("../configs/kubernetes/autoscale.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type policies struct {
		StabilizationWindowSeconds int `yaml:"stabilizationWindowSeconds"`
		Policies                   []struct {
			Value         int `yaml:"value"`
			PeriodSeconds int `yaml:"periodSeconds"`
		} `yaml:"policies"`
	}
	var m struct {
		Spec struct {
			MinReplicas int `yaml:"minReplicas"`
			Metrics     []struct {
				Pods struct {
					Target struct {
						AverageValue string `yaml:"averageValue"`
					} `yaml:"target"`
				} `yaml:"pods"`
			} `yaml:"metrics"`
			Behavior struct {
				ScaleUp   policies `yaml:"scaleUp"`
				ScaleDown policies `yaml:"scaleDown"`
			} `yaml:"behavior"`
		} `yaml:"spec"`
	}
	if err := yaml.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	s := FleetScaling{Max: 16}
	if err := s.defaults(); err != nil {
		t.Fatal(err)
	}
	up, down, seconds := m.Spec.Behavior.ScaleUp, m.Spec.Behavior.ScaleDown, func(n int) time.Duration { return time.Duration(n) * time.Second }
	var targets []string
	for _, metric := range m.Spec.Metrics {
		targets = append(targets, metric.Pods.Target.AverageValue)
	}
	if want := []string{fmt.Sprint(s.Running), fmt.Sprint(s.Waiting), fmt.Sprintf("%gm", 1000*s.KV)}; !slices.Equal(targets, want) {
		t.Errorf("the manifest's targets are %q, the simulated autoscaler's %q", targets, want)
	}
	if s.Min != m.Spec.MinReplicas ||
		up.StabilizationWindowSeconds != 0 || len(up.Policies) != 2 || s.OutShare*100 != float64(up.Policies[0].Value) || s.OutCount != up.Policies[1].Value ||
		s.OutPeriod != seconds(up.Policies[0].PeriodSeconds) || s.OutPeriod != seconds(up.Policies[1].PeriodSeconds) ||
		s.InWindow != seconds(down.StabilizationWindowSeconds) || len(down.Policies) != 1 || s.InCount != down.Policies[0].Value ||
		s.InPeriod != seconds(down.Policies[0].PeriodSeconds) {
		t.Errorf("the simulated autoscaler has %+v, the manifest %+v", s, m.Spec)
	}
}

// Out at once, by at most the greater of twice as many and two more in 30 s; in by one in five minutes, after a quarter of an hour in
// which were not wanted more.
func TestScalingGoesOutFastAndInSlowly(t *testing.T) {
	o := FleetScaling{Max: 16}
	if err := o.defaults(); err != nil {
		t.Fatal(err)
	}
	s, have := &scaling{o: o}, 2
	var out []int
	at := func(seconds int, waiting, kv float64) int {
		have = s.look(time.Duration(seconds)*time.Second, have, fleetSignals{0, waiting, kv})
		return have
	}
	for i := range 8 {
		out = append(out, at(15*i, 100, 1))
	}
	if want := []int{4, 4, 8, 8, 16, 16, 16, 16}; !slices.Equal(out, want) {
		t.Errorf("out: %v, want %v", out, want)
	}
	var in []int
	for i := range 8 {
		in = append(in, at(110+300*i, 0, 1.7))
	}
	if want := []int{16, 16, 16, 15, 14, 13, 12, 11}; !slices.Equal(in, want) {
		t.Errorf("in: %v, want %v", in, want)
	}
	s, have = &scaling{o: o}, 10
	if got := at(0, 0, 8.6); got != 10 {
		t.Errorf("within a tenth of what is wanted: %d replicas", got)
	}
	if got := at(15, 0, 9); got != 12 {
		t.Errorf("a full KV cache: %d replicas, want 12", got)
	}
	s, have = &scaling{o: o}, 2
	if have = s.look(0, have, fleetSignals{running: 18}); have != 3 {
		t.Errorf("nine running requests each: %d replicas, want 3", have)
	}
}

// While a load rises, an autoscaler that sees what runs is ahead of one that sees only what waits: a replica is full before
// anything waits there, and those that come meanwhile take none of it.
func TestScalingByWhatRunsIsInTime(t *testing.T) {
	longSimulation(t)
	p99 := func(running float64) float64 {
		r := simulateFleet(t, FleetOptions{Seed: 1, Load: FleetLoad{Requests: 1500, Rate: 3, Swing: 0.9},
			Scaling: FleetScaling{Max: 12, Running: running}})
		return r.TTFT[len(r.TTFT)*99/100]
	}
	if late, early := p99(1000), p99(6); early > late/2 {
		t.Errorf("p99 of the first token is %.2f s by what runs too, and %.2f s by what waits alone", early, late)
	}
}

// A load that rises and falls is served by replicas that come and go: no request is lost, each replica that comes begins with a cold
// cache, and the fleet is smaller in the mean than at its height.
func TestFleetScales(t *testing.T) {
	longSimulation(t)
	o := FleetOptions{Seed: 5, Load: FleetLoad{Requests: 1500, Rate: 1.2, Swing: 0.9, Think: 5 * time.Second},
		Scaling: FleetScaling{Min: 1, Max: 6, Waiting: 1, StartUp: 20 * time.Second, InWindow: 2 * time.Minute, InPeriod: time.Minute}}
	r := simulateFleet(t, o)
	more, fewer := 0, 0
	for _, c := range r.Scales {
		if c.To > c.From {
			more++
		} else {
			fewer++
		}
	}
	if r.Done != r.Requests || more == 0 || fewer == 0 || r.Most < 3 || r.MeanReplicas() > float64(r.Most)-0.5 {
		t.Errorf("%d of %d done, %d times more replicas, %d times fewer, %.2f in the mean, %d at most", r.Done, r.Requests, more, fewer,
			r.MeanReplicas(), r.Most)
	}
	if again := simulateFleet(t, o); again.Digest != r.Digest {
		t.Errorf("digests %x and %x of one seed", r.Digest, again.Digest)
	}
	o.Faults = []FleetFault{{}}
	if _, err := SimulateFleet(o); err == nil {
		t.Error("faults under an autoscaler are taken")
	}
}
