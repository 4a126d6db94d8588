package memory_test

import (
	"errors"
	"fmt"
	"strings"

	"weir/internal/memory"
)

// Bodies of requests share a budget: what has no room is refused before it is read whole.
func Example() {
	budget := memory.New(1 << 20)
	first, second := budget.Share(), budget.Share()
	const limit = 1 << 20 // of one body

	body, err := first.Read(strings.NewReader(strings.Repeat("x", 400_000)), 400_001, limit) // its header says how long it is
	fmt.Println(len(body), err)

	_, err = second.Read(strings.NewReader(strings.Repeat("x", 500_000)), 500_001, limit)
	fmt.Println("beside the first:", errors.Is(err, memory.ErrNoRoom))
	second.Release()
	first.Release()
	fmt.Println(budget.Used())
	// Output:
	// 400000 <nil>
	// beside the first: true
	// 0
}
