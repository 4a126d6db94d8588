package limiter_test

import (
	"fmt"

	"weir/api/openai/limiter"
)

// While no sequence runs, small bodies are tokenised at once. A large one needs a permit, for which it may wait.
func Example() {
	s := limiter.New("tokenising", nil, func() bool { return false })
	fmt.Println(s.Needed(400), s.Needed(100_000))

	permit, fault := s.Acquire(nil, "acme")
	if fault != nil {
		fmt.Println(fault)
		return
	}
	fmt.Println(s.Taken(), permit.Continue()) // between slices of the work: others may go first here
	permit.Release()
	fmt.Println(s.Taken())
	// Output:
	// false true
	// 1 true
	// 0
}
