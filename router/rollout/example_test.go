package rollout_test

import (
	"fmt"
	"time"

	"weir/router/rollout"
)

// Half of the conversations get the candidate, always the same ones. It fails, and is taken back without an operator.
func Example() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	plan, err := rollout.Plan{ID: "r1", Model: "chat", Stable: "v1", Candidate: "v2", Steps: []rollout.Step{{Percent: 50, MinRequests: 100}}}.WithDefaults()
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := rollout.Start(plan, 0, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, conversation := range []string{"a", "b", "c", "b", "c"} {
		fmt.Println(conversation, r.Choose(conversation).Version)
	}
	for i := 0; r.State() == rollout.Running && i < 10_000; i++ {
		d := r.Choose(fmt.Sprint("conversation ", i))
		r.Observe(now, &rollout.Outcome{Rollout: "r1", Arm: d.Arm, Key: d.Key, Failed: d.Arm == rollout.Candidate, Output: 10})
		now = now.Add(time.Second)
		r.Tick(now)
	}
	for _, t := range r.Take() {
		fmt.Printf("%s: %s\n", t.To, t.Reason)
	}
	fmt.Println(r.Choose("a").Version, r.Choose("b").Version, r.Choose("c").Version)
	// Output:
	// a v1
	// b v1
	// c v2
	// b v1
	// c v2
	// running: started
	// rolled_back: share of failed answers is 1 of 6, and 0 of 10 for the stable version; the gate is 0.01 above it
	// v1 v1 v1
}
