package cost_test

import (
	"fmt"
	"time"

	"weir/scheduler/cost"
)

// A machine takes 5 ms for a step and 100 µs for each row. Steps that were not observed are estimated, too.
func Example() {
	m := cost.New(cost.Prior{})
	for i := range 200 {
		rows := []int{1, 2, 8, 32, 128}[i%5]
		m.Observe(cost.Load{Rows: rows, Outputs: 1}, 5*time.Millisecond+time.Duration(rows)*100*time.Microsecond)
	}
	for _, rows := range []int{1, 16, 100} {
		fmt.Printf("%d rows: %v\n", rows, m.Estimate(cost.Load{Rows: rows, Outputs: 1}).Round(time.Millisecond))
	}
	// Output:
	// 1 rows: 5ms
	// 16 rows: 7ms
	// 100 rows: 15ms
}

// The time of a predict request's batch grows with its rows.
func ExampleLine() {
	var l cost.Line
	for i := range 100 {
		rows := 1 + i%10
		l.Observe(rows, time.Duration(200+rows*30)*time.Microsecond)
	}
	fmt.Println(l.Estimate(100).Round(100*time.Microsecond), l.Base().Round(10*time.Microsecond), l.PerRow().Round(time.Microsecond))
	// Output:
	// 3.2ms 200µs 30µs
}
