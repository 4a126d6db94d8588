package semaphore_test

import (
	"errors"
	"fmt"

	"weir/internal/semaphore"
)

// A piece of work acquires a permit, and lets others work between its parts.
func Example() {
	s := semaphore.New(semaphore.Config{Permits: 2, PerTenant: 1})
	permit, err := s.Acquire(nil, "acme")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer permit.Release()
	_, err = s.Acquire(nil, "acme")
	fmt.Println("a second piece of the tenant's:", errors.Is(err, semaphore.ErrFull))

	text := []string{"a", "long", "prompt"}
	words := 0
	for range text {
		words++ // the work
		if err := permit.Yield(); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(words, "done;", s.Pieces(), "piece has a permit")
	// Output:
	// a second piece of the tenant's: true
	// 3 done; 1 piece has a permit
}
