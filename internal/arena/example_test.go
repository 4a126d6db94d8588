package arena_test

import (
	"errors"
	"fmt"

	"weir/internal/arena"
)

// Weights of known size share one region, which goes back to the system as a whole.
func Example() {
	a, err := arena.New(1 << 20)
	if err != nil {
		fmt.Println(err)
		return
	}
	scales, err := a.Alloc(1000, 1)
	fmt.Println(len(scales), err)
	codes, err := a.Alloc(4096, 64) // the address is a multiple of 64
	fmt.Println(len(codes), err)
	fmt.Println("used:", a.UsedBytes(), "of", a.CapacityBytes())

	_, err = a.Alloc(2<<20, 64)
	fmt.Println("does not fit:", errors.Is(err, arena.ErrFull))
	fmt.Println(a.Release()) // scales and codes are gone
	// Output:
	// 1000 <nil>
	// 4096 <nil>
	// used: 5120 of 1048576
	// does not fit: true
	// <nil>
}
