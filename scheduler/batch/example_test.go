package batch_test

import (
	"fmt"

	"weir/internal/inference"
	"weir/scheduler/batch"
)

// A free worker takes the first request that waits, and all others of its kind that fit into the batch.
func Example() {
	q, err := batch.New(batch.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range []batch.Work{
		{User: "a", Kind: "fraud v3", Rows: 10},
		{User: "b", Kind: "churn v1", Rows: 1},
		{User: "c", Kind: "fraud v3", Rows: 20},
		{User: "d", Kind: "fraud v3", Rows: 90},
	} {
		w.Tenant, w.Class, w.MaxRows, w.Cost = "acme", inference.Default, 64, 1000
		if _, err := q.Offer(0, w); err != nil {
			fmt.Println(err)
		}
	}
	var taken []batch.TakenRequest
	for now := int64(0); q.Len() > 0; now += 1000 {
		taken = q.Next(now, taken[:0])
		rows := 0
		for i := range taken {
			rows += taken[i].Rows
			q.Settle(&taken[i], 900) // nanoseconds that it took
		}
		fmt.Printf("%s: requests %d, rows %d\n", taken[0].Kind, len(taken), rows)
	}
	// Output:
	// fraud v3: requests 2, rows 30
	// churn v1: requests 1, rows 1
	// fraud v3: requests 1, rows 90
}
