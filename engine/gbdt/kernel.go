package gbdt

import "weir/engine/kernel/isa"

// kernel computes the margins of rows, in the ensemble's own order of operations, so that every kernel gives the bits
// that the walker gives. X is the type of rows and thresholds, S that of leaves and sums. A kernel is safe for
// concurrent use and starts no goroutines.
type kernel[X, S float] interface {
	// name is what inspect and bench print.
	name() string
	// margins fills out with Outputs margins for each of len(rows)/Features rows.
	margins(rows []X, out []S)
	choice() Choice
}

// Options steer the choice of a kernel; the zero value leaves it to a measurement.
type Options struct {
	Level  isa.Level // of instructions
	Kernel string    // its name; empty: the fastest
}

// Choice is how a model computes. Bytes are those of the prepared trees, beside the ensemble's own.
type Choice struct {
	Single string // kernel of single rows
	Block  string // kernel of From rows and more; empty: the same
	From   int
	Bytes  int
}

func (w *walker[X, S]) choice() Choice { return Choice{Single: w.name()} }
