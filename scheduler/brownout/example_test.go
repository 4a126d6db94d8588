package brownout_test

import (
	"fmt"
	"time"

	"weir/internal/inference"
	"weir/scheduler/brownout"
)

// While requests wait for more than two seconds, answers are shorter.
func Example() {
	shorter := brownout.Step{Name: "shorter", Enter: brownout.Load{QueueWait: 2 * time.Second}}
	shorter.MaxTokens[inference.Batch] = 256
	steps := []brownout.Step{shorter}
	c, err := brownout.New(steps)
	if err != nil {
		fmt.Println(err)
		return
	}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	before := 0
	for second := range time.Duration(60) {
		load := brownout.Load{QueueWait: time.Second}
		if second < 10 {
			load.QueueWait = 3 * time.Second
		}
		level := c.Observe(start.Add(second*time.Second), load)
		if level == before {
			continue
		}
		before = level
		if effect := brownout.Effect(steps, level); effect != nil {
			fmt.Printf("second %d: %s, at most %d tokens of a batch request\n", second, effect.Name, effect.MaxTokens[inference.Batch])
		} else {
			fmt.Printf("second %d: as always\n", second)
		}
	}
	// Output:
	// second 5: shorter, at most 256 tokens of a batch request
	// second 40: as always
}
