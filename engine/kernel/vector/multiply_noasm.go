//go:build !amd64 || purego || noasm

package vector

import "weir/engine/kernel/isa"

// multiplyColumns is how many columns one call of multiply computes at most.
func multiplyColumns(isa.Level) int { return 64 }

func multiply(_ isa.Level, dst, x, w []float32, stride int) { multiplyPortable(dst, x, w, stride) }
