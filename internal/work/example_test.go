package work_test

import (
	"fmt"

	"weir/internal/work"
)

// What a client's grammar makes the server do ends at the same place on every machine.
func ExampleMeter() {
	m := &work.Meter{Limit: 3000}
	for state := 1; ; state++ {
		if err := m.Spend(1000); err != nil { // it has a thousand transitions
			fmt.Println("in state", state, "after", m.Spent(), "units:", err)
			return
		}
	}
	// Output:
	// in state 4 after 4000 units: the work takes more than its limit
}

// A grammar's tables count for its tenant, too.
func ExampleAccount() {
	tenant := work.NewAccount(1<<20, nil)
	grammar := work.NewAccount(0, tenant)
	grammar.Keep(900 << 10)
	fmt.Println(tenant.Bytes(), grammar.Room())
	// Output:
	// 921600 126976
}
