package rollouts_test

import (
	"os"
	"testing"

	"weir/internal/reference"
	"weir/internal/server/local"
	"weir/internal/server/servertest"
)

func TestMain(m *testing.M) {
	local.CostsFolder = func() string { return "" } // nothing of the tester's is read, and processes keep nothing
	_ = os.Unsetenv("STATE_DIRECTORY")
	_ = os.Setenv("XDG_STATE_HOME", "/dev/null/none")
	reference.Overlap(8) // most of those that run in parallel wait
	servertest.Main(m)
}
