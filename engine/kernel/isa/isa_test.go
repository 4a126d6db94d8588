package isa

import (
	"runtime"
	"slices"
	"testing"

	"weir/internal/reference"
)

// TestMachineHasEveryLevel: tests loop over the levels that the machine has.
// In CI that must be all that kernels exist for, or WEIR_CI_WITHOUT names what
// is not tested.
func TestMachineHasEveryLevel(t *testing.T) {
	if runtime.GOARCH != "amd64" || !built {
		t.Skipf("this build for %s has no level but %v", runtime.GOARCH, Portable)
	}
	for _, level := range []Level{AVX2, AVX512} {
		t.Run(level.String(), func(t *testing.T) {
			if !slices.Contains(Levels(), level) {
				reference.Missing(t, level.String(), "this machine cannot run the kernels for "+level.String())
			}
		})
	}
}
