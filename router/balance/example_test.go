package balance_test

import (
	"fmt"
	"time"

	"weir/router/balance"
	"weir/router/prefix"
)

// A conversation goes on at the replica that has its prompt cached, and a request without a prefix to the less loaded one.
func Example() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b, err := balance.New(now, balance.Config{Policy: balance.Prefix, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		if _, err := b.Add(now, balance.Member{Slots: 8}); err != nil {
			fmt.Println(err)
			return
		}
	}
	keys := []prefix.Key{{1}, {2}, {3}, {4}} // of the prompt's blocks
	first, err := b.Pick(now, &balance.Request{Keys: keys, Tokens: 1024, Output: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	first.Began(now.Add(300 * time.Millisecond))
	second, _ := b.Pick(now.Add(time.Second), &balance.Request{Keys: append(keys, prefix.Key{5}), Tokens: 1280, Output: 100})
	other, _ := b.Pick(now.Add(time.Second), &balance.Request{Keys: []prefix.Key{{9}}, Tokens: 256, Output: 100})
	fmt.Println(second.Replica == first.Replica, second.Reason)
	fmt.Println(other.Replica == first.Replica, other.Reason)
	for _, l := range []balance.Lease{first, second, other} {
		l.Done(now.Add(2*time.Second), balance.Outcome{Output: 100})
	}
	// Output:
	// true prefix 4/5 blocks
	// false least_load
}
