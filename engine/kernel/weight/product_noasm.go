//go:build !amd64 || purego || noasm

package weight

import (
	"weir/engine/gguf"
	"weir/engine/kernel/isa"
)

func productsFor(isa.Level, gguf.Type) *productFuncs { return nil }

func quantizeRowFast(_ isa.Level, _ kind, _ float32, _, _, _ []float32) (large, done bool) {
	return false, false
}

func placeRowFast(isa.Level, []float32, int, []float32) bool { return false }
