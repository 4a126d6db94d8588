package roofline_test

import (
	"fmt"
	"time"

	"weir/internal/roofline"
)

// A matrix of 4096x4096 bytes, multiplied with one row and with 64: the one waits for memory, the other for arithmetic.
func Example() {
	machine := roofline.Rates{ReadBytes: 40e9, Int8Ops: 1e12, FloatOps: 200e9} // as Measure finds them
	for _, rows := range []float64{1, 64} {
		w := roofline.Work{Bytes: 4096 * 4096, Int8Ops: rows * 2 * 4096 * 4096}
		seconds, bound := machine.Seconds(w)
		fmt.Printf("%v rows: %v, by %v\n", rows, time.Duration(seconds*1e9).Round(time.Microsecond), bound)
	}
	// Output:
	// 1 rows: 419µs, by memory
	// 64 rows: 2.147ms, by compute
}
