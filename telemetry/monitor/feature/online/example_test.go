package online_test

import (
	"context"
	"fmt"
	"time"

	"weir/telemetry/monitor/feature/online"
)

// Values of a view go into Redis, which this needs, and are read as they are written there.
func Example() {
	s, err := online.Open("redis://127.0.0.1:6379/0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close() // nothing is left to be written

	ctx := context.Background()
	clicks := online.Table{Project: "shop", Entity: "user", View: "clicks", Fields: []string{"clicks_7d", "last_item"}, TTL: 24 * time.Hour}
	if err := s.Put(ctx, clicks, []online.Row{{Parts: []string{"42"}, Values: []string{"17", "kettle"}}}, time.Now()); err != nil {
		fmt.Println(err)
		return
	}
	user, err := s.Get(ctx, "shop", "user", []string{"42"})
	fmt.Println(user["clicks_7d"], user["last_item"], err)
}
