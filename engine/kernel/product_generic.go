//go:build !amd64 || purego || noasm

package kernel

import "weir/engine/gguf"

func productsFor(Level, gguf.Type) *productFuncs { return nil }

func quantizeRowFast(Level, kind, []float32, []float32) bool { return false }

func placeRowFast(Level, []float32, int, []float32) bool { return false }
