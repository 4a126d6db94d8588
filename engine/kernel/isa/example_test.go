package isa_test

import (
	"fmt"

	"weir/engine/kernel/isa"
)

// A flag names a level; tests try all that the machine has, slowest first.
func Example() {
	fmt.Println(isa.Levels()[0], "is what every machine has")
	level, err := isa.Parse("auto")
	fmt.Println(level == isa.Best(), err)
	_, err = isa.Parse("sse2")
	fmt.Println(err)
	// Output:
	// portable is what every machine has
	// true <nil>
	// cpu level "sse2" is not known; use auto, avx512, avx2 or portable
}
