package reference

import (
	"flag"
	"os"
	"strconv"
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

// Raced tells whether the race detector looks. It has to meet what runs at the same time: of cases that differ in what they compute alone,
// one is enough for it.
const Raced = raced

// Quick reports whether only quick tests are asked for: with -short, except under the race detector, whose run in CI is
// short, too, and has to meet what runs at the same time.
func Quick() bool { return testing.Short() && !raced }

// Slow ends a test that is slow where only quick tests are asked for.
func Slow(t testing.TB) {
	t.Helper()
	if Quick() {
		t.Skip("slow: it runs without -short, and under the race detector")
	}
}

// Overlap lets so many parallel tests of a package run at once, however few cores there are: for tests that wait on
// sockets and deadlines more than they compute. TestMain calls it; -parallel overrides it.
func Overlap(tests int) { _ = flag.Set("test.parallel", strconv.Itoa(tests)) }
