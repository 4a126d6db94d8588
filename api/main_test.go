package api

import (
	"os"
	"testing"

	"weir/internal/reference"
)

// TestMain lets the tests that wait for deadlines wait at the same time.
func TestMain(m *testing.M) {
	reference.Overlap(16)
	os.Exit(m.Run())
}
