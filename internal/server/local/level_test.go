package local

import (
	"slices"
	"strings"
	"testing"

	"weir/configs"
	"weir/engine/kernel/isa"
)

// The configuration accepts what kernels exist for, and a level beyond the
// machine is refused with what it can run.
func TestCPULevelsAreTheKernels(t *testing.T) {
	runs := isa.Levels()
	for _, name := range configs.CPULevels {
		c := configs.Default()
		c.Engine.CPULevel = name
		opts, err := EngineOptions(c)
		switch {
		case name == "auto":
			if err != nil || opts.Level != isa.Best() {
				t.Errorf("auto is %v, %v; want %v", opts.Level, err, isa.Best())
			}
		case err == nil:
			if opts.Level.String() != name || !slices.Contains(runs, opts.Level) {
				t.Errorf("%s is %v, which this machine cannot run", name, opts.Level)
			}
		case !strings.Contains(err.Error(), "can run up to "+isa.Best().String()):
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, level := range runs {
		if !slices.Contains(configs.CPULevels, level.String()) {
			t.Errorf("%v cannot be chosen", level)
		}
	}
}
