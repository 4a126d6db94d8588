package turnstile_test

import (
	"fmt"

	"weir/api/openai/turnstile"
)

// While no sequence runs, small bodies are tokenised at once. A large one needs a turn, for which it may wait.
func Example() {
	s := turnstile.New("tokenising", nil, func() bool { return false })
	fmt.Println(s.Needed(400), s.Needed(100_000))

	turn, fault := s.Take(nil, "acme")
	if fault != nil {
		fmt.Println(fault)
		return
	}
	fmt.Println(s.Taken(), turn.Continue()) // between slices of the work: others may go first here
	turn.End()
	fmt.Println(s.Taken())
	// Output:
	// false true
	// 1 true
	// 0
}
