package gbdt

// kernel computes the margins of rows, in the ensemble's own order of operations, so that every kernel gives the bits
// that the walker gives. X is the type of rows and thresholds, S that of leaves and sums. A kernel is safe for
// concurrent use and starts no goroutines.
type kernel[X, S float] interface {
	// name is what inspect and bench print.
	name() string
	// margins fills out with Outputs margins for each of len(rows)/Features rows.
	margins(rows []X, out []S)
}

// choose gives the kernel that a model is served with.
func choose[X, S float](e *Ensemble) kernel[X, S] {
	return newWalker[X, S](e)
}
