package server_test

import (
	"os"
	"testing"

	"weir/internal/reference"
	"weir/internal/server/local"
	"weir/internal/server/servertest"
)

func TestMain(m *testing.M) {
	local.CostsFolder = func() string { return "" } // nothing of the tester's is read, and processes keep nothing
	reference.Overlap(8)                            // most of those that run in parallel wait
	servertest.Main(withCosts{m})
}

// withCosts runs tests with a folder of what models' caches cost, which is measured at the first load of each.
type withCosts struct{ tests *testing.M }

func (w withCosts) Run() int {
	_ = os.Unsetenv("STATE_DIRECTORY")                // the tester's own keys must not reach the tests
	_ = os.Setenv("XDG_STATE_HOME", "/dev/null/none") // where not even root makes a folder
	folder, err := os.MkdirTemp("", "weir-test-costs-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	local.CostsFolder = func() string { return folder }
	return w.tests.Run()
}
