package recurrence_test

import (
	"fmt"

	"weir/engine/kernel/isa"
	"weir/engine/kernel/pool"
	"weir/engine/kernel/recurrence"
)

// A convolution over three rows adds them up, here where a sequence comes in two steps: the state carries the last two rows from one to the
// other.
func Example() {
	l := recurrence.Layer{
		Shape:   recurrence.Shape{Kind: recurrence.Convolution, Taps: 3, Channels: 1},
		Weights: []float32{1, 1, 1}, Bias: []float32{0},
	}
	w, state := recurrence.New(pool.Alone(), isa.Best()), make([]float32, l.StateValues())
	first := recurrence.Rows{X: []float32{1, 10, 100}, Spans: []recurrence.Span{{Count: 3, To: state}}}
	w.Run(&l, &first)
	second := recurrence.Rows{X: []float32{1000}, Spans: []recurrence.Span{{Count: 1, From: state, To: state}}}
	w.Run(&l, &second)
	fmt.Println(first.X, second.X)
	// Output: [1 11 111] [1110]
}
