package bench

import (
	"testing"
	"time"

	"weir/internal/reference"
)

// Prefill replicas take the documents' prompts, and answers that run wait less for them; a prefill replica that dies costs no answer.
func TestFleetPools(t *testing.T) {
	reference.Slow(t)
	run := func(prefill int, faults ...FleetFault) *FleetResult {
		t.Helper()
		r, err := SimulateFleet(FleetOptions{
			Replicas: 8, Pools: FleetPools{Prefill: prefill}, Check: true, Seed: 3, Faults: faults,
			Load: FleetLoad{Requests: 400, Rate: 2.4, Documents: FleetDocuments{Rate: 0.4}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.Done != r.Requests || len(r.Documents) == 0 {
			t.Errorf("%d of %d requests are done, %d documents", r.Done, r.Requests, len(r.Documents))
		}
		return r
	}
	plain, pooled := run(0), run(3)
	if plain.Prefills != 0 || pooled.Prefills < len(pooled.Documents)/2 {
		t.Errorf("%d and %d prompts were computed for other replicas, of %d documents", plain.Prefills, pooled.Prefills, len(pooled.Documents))
	}
	if a, b := Percentile(plain.Gaps, 90), Percentile(pooled.Gaps, 90); b >= a {
		t.Errorf("the 90th percentile of the time between tokens is %g s with pools, %g s without", b, a)
	}
	again := run(3)
	if again.Digest != pooled.Digest {
		t.Error("the same options give another result")
	}
	dead := run(3, FleetFault{Replica: 0, At: 20 * time.Second}, FleetFault{Replica: 1, At: 40 * time.Second, Down: 20 * time.Second})
	if dead.Retries == 0 && dead.Prefills == pooled.Prefills {
		t.Error("the faults changed nothing")
	}
}

func TestFleetPoolsThatCannotBe(t *testing.T) {
	for _, o := range []FleetOptions{
		{Replicas: 2, Pools: FleetPools{Prefill: 2}}, {Replicas: 2, Pools: FleetPools{Prefill: -1}},
		{Replicas: 2, Pools: FleetPools{Prefill: 1, Rate: -1}},
		{Pools: FleetPools{Prefill: 1}, Scaling: FleetScaling{Min: 1, Max: 3}},
	} {
		if _, err := SimulateFleet(o); err == nil {
			t.Errorf("%+v is simulated", o.Pools)
		}
	}
}
