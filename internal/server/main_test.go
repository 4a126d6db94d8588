package server

import (
	"os"
	"testing"

	"weir/internal/server/local"
)

func TestMain(m *testing.M) {
	_ = os.Unsetenv("STATE_DIRECTORY") // the tester's own keys must not reach the tests
	_ = os.Setenv("XDG_STATE_HOME", "/nonexistent")
	local.CostsFolder = func() string { return "" } // nothing of a test is kept, and nothing of the tester's is read
	os.Exit(m.Run())
}
