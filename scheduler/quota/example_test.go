package quota_test

import (
	"errors"
	"fmt"
	"time"

	"weir/scheduler/quota"
)

// A request reserves its prompt and the answer that it is expected to get. What it does not use is free again once it is settled.
func Example() {
	m := quota.NewMeter(quota.Config{})
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	acme := quota.Holder{Tenant: "acme", Limits: &quota.Limits{TokensPerMinute: 1000}}

	first, err := m.Reserve(now, acme, quota.Ask{Input: 200, Output: 500})
	fmt.Println(first.Ask.Output, "tokens are reserved for the answer:", err)

	_, err = m.Reserve(now, acme, quota.Ask{Input: 400, Output: 100})
	if refused, ok := errors.AsType[*quota.Refusal](err); ok {
		fmt.Printf("%s: %d of %d are left, %d are needed; again in %v\n", refused.Kind, refused.Left, refused.Limit, refused.Need, refused.RetryAfter)
	}

	m.Settle(now, &first, quota.Use{Ran: true, Input: 200, Output: 50})
	_, err = m.Reserve(now, acme, quota.Ask{Input: 400, Output: 100})
	fmt.Println("after the first answer:", err)
	// Output:
	// 500 tokens are reserved for the answer: <nil>
	// tokens_per_minute: 300 of 1000 are left, 500 are needed; again in 12s
	// after the first answer: <nil>
}

// A budget in money is never exceeded: an answer that would go beyond it ends.
func ExampleMeter_TopUp() {
	m := quota.NewMeter(quota.Config{})
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cents, _ := quota.ParseMoney("0.01")
	acme := quota.Holder{Tenant: "acme", Limits: &quota.Limits{DailyCost: cents}}
	price := quota.Price{Output: 100_000_000} // 100 per million tokens: a cent pays for a hundred

	grant, err := m.Reserve(now, acme, quota.Ask{Input: 10, Output: 80, Price: price})
	fmt.Println("reserved for", grant.Covered(), "tokens:", err)
	err = m.TopUp(now, &grant, 81, 120)
	fmt.Println("after 81 tokens it is reserved for", grant.Covered(), "in all:", err)
	err = m.TopUp(now, &grant, 101, 140)
	fmt.Println("the next one ends the answer:", err != nil)
	// Output:
	// reserved for 80 tokens: <nil>
	// after 81 tokens it is reserved for 100 in all: <nil>
	// the next one ends the answer: true
}
