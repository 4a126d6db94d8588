package ratelimit_test

import (
	"fmt"

	"weir/internal/store/ratelimit"
	"weir/scheduler/quota"
)

// All servers on one Redis, which this needs, count a tenant's use together. While it does not answer, these terms refuse.
func Example() {
	m, err := ratelimit.Open("redis://127.0.0.1:6379/0", ratelimit.Options{Terms: ratelimit.Terms{Closed: true}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close() // what it could not settle ends with its lease

	acme := quota.Holder{Tenant: "acme", Limits: &quota.Limits{TokensPerMinute: 1000}}
	grant, err := m.Reserve(acme, quota.Ask{Input: 200, Output: 500})
	if err != nil {
		fmt.Println(err) // a *quota.Refusal, or ErrUnreachable
		return
	}
	m.Settle(&grant, quota.Use{Ran: true, Input: 200, Output: 50})
	left, err := m.Remaining(acme)
	fmt.Println(left, err)
}
