package turn_test

import (
	"errors"
	"fmt"

	"weir/internal/turn"
)

// A piece of work takes a turn, and lets others work between its parts.
func Example() {
	q := turn.NewQueue(turn.Config{Turns: 2, Most: 1})
	t, err := q.Take(nil, "acme")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.End()
	_, err = q.Take(nil, "acme")
	fmt.Println("a second piece of the tenant's:", errors.Is(err, turn.ErrFull))

	text := []string{"a", "long", "prompt"}
	words := 0
	for range text {
		words++ // the work
		if err := t.Yield(); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(words, "done;", q.Pieces(), "piece has a turn")
	// Output:
	// a second piece of the tenant's: true
	// 3 done; 1 piece has a turn
}
