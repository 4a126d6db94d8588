package deployment_test

import (
	"fmt"
	"time"

	"weir/router/deployment"
)

// What is asked for becomes a record, which each server follows. Where a server is not as the record wants it, the record says why.
func Example() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	first := deployment.Apply(nil, deployment.Spec{Model: "chat", Version: "v1"}, "", "ann", now)
	r := deployment.Apply(&first, deployment.Spec{Model: "chat", Version: "v2", Placement: &deployment.Placement{
		Replicas: 2, NodeSelector: map[string]string{"region": "eu"},
	}}, "", "ann", now)
	fmt.Println(r.Generation, r.Wanted.Label, r.Placement.Lacks(map[string]string{"region": "us"}))

	seen := []deployment.Observation{
		{Model: "chat", Instance: "a:8080", Generation: 2, State: deployment.Serving, Answers: "v2"},
		{Model: "chat", Instance: "b:8080", Generation: 1, State: deployment.Serving, Answers: "v1"},
	}
	summary, why := r.Summarise(seen)
	fmt.Println(summary, why)
	// Output:
	// 2 v2 its label is region=us, and region=eu is asked for
	// progressing [b:8080: acts on generation 1 of 2]
}
