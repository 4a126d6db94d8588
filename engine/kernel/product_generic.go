//go:build !amd64 || purego || noasm

package kernel

import "weir/engine/gguf"

func productsFor(Level, gguf.Type) *productFuncs { return nil }

func fillPanelFast(Level, kind, []byte, int, int, []float32) bool { return false }
