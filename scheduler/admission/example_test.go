package admission_test

import (
	"fmt"

	"weir/internal/inference"
	"weir/scheduler/admission"
)

// Tenants take turns by the compute that they were charged, divided by their weights.
func Example() {
	q, err := admission.New(admission.Config{MaxRequests: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	names := []string{1: "alice's first", 2: "alice's second", 3: "alice's third", 4: "bob's first", 5: "bob's second"}
	for ref, tenant := range []string{1: "alice", 2: "alice", 3: "alice", 4: "bob", 5: "bob"} {
		if tenant == "" {
			continue
		}
		it := admission.Item{Ref: uint64(ref), Tenant: tenant, Class: inference.Default, Cost: 10} //nolint:gosec // small
		if _, err := q.Offer(it); err != nil {
			fmt.Println(err)
		}
	}
	for q.Len() > 0 {
		q.Scan(inference.Default, false)
		ref, _, _ := q.Next()
		flow := q.Take(10) // charged now; what it really took is charged or refunded later
		q.EndScan()
		fmt.Println(names[ref])
		q.Done(flow)
	}
	// Output:
	// alice's first
	// bob's first
	// alice's second
	// bob's second
	// alice's third
}

// A Precheck refuses what the queue would refuse, before the request reaches its goroutine.
func ExamplePrecheck() {
	p := admission.NewPrecheck(admission.Bounds{MaxRequests: 2})
	for range 3 {
		fmt.Println(p.Enter(0, []admission.Item{{Tenant: "alice", Choices: 1}}))
	}
	// Output:
	// <nil>
	// <nil>
	// queue is full: waiting requests 3, limit 2; try again later, or raise the queue's limit
}
