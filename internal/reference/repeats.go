package reference

import (
	"os"
	"testing"
)

// Long tells whether tests try all that they can, for minutes each: WEIR_TEST_LONG=1, which 'make test-long' sets.
func Long() bool { return os.Getenv("WEIR_TEST_LONG") == "1" }

// Repeats is how many random cases a property test tries: in a short run, which the race detector's is, in a plain one, and in a
// long one. Cases come from their numbers, so a long run tries those of the others, too.
func Repeats(short, plain, long int) int {
	switch {
	case Long():
		return long
	case testing.Short():
		return short
	default:
		return plain
	}
}
