package meter_test

import (
	"fmt"

	"weir/api/meter"
	"weir/scheduler/quota"
)

// A bill pays for an answer token by token, and what is over is given back at its end. A refusal becomes an answer to the client.
func Example() {
	m := meter.NewLocal(nil)
	acme := quota.Holder{Tenant: "acme", Limits: &quota.Limits{TokensPerMinute: 1000}}
	grant, err := m.Reserve(acme, quota.Ask{Input: 200, Output: 700})
	if err != nil {
		fmt.Println(err)
		return
	}
	bill := meter.NewBill(m, grant, 700)
	fmt.Printf("%q ends the answer\n", bill.Token())

	_, err = m.Reserve(acme, quota.Ask{Input: 200, Output: 100})
	fault := meter.Fault(err)
	fmt.Println(fault.Status, fault.Code)

	bill.Settle(quota.Use{Ran: true, Input: 200, Output: 1})
	_, err = m.Reserve(acme, quota.Ask{Input: 200, Output: 100})
	fmt.Println(err)
	// Output:
	// "" ends the answer
	// 429 rate_limit_exceeded
	// <nil>
}
