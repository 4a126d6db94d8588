//go:build !amd64 || purego || noasm

package vector

import "weir/engine/kernel/isa"

func sumSquares(_ isa.Level, x []float32) float32 { return sumSquaresPortable(x) }

func scaleBy(_ isa.Level, dst, x, w []float32, f float32) { scaleByPortable(dst, x, w, f) }

// AbsMax is the largest magnitude in x, 0 of none, NaN if one is NaN.
func AbsMax(_ isa.Level, x []float32) float32 { return absMaxPortable(x) }

func swiglu(_ isa.Level, dst, gate, up []float32) { swigluPortable(dst, gate, up) }

func softmax(_ isa.Level, x []float32, stride, width int, seen []Seen, out []Softmax) {
	softmaxPortable(x, stride, width, seen, out)
}

func ropeNeox(_ isa.Level, x, cos, sin []float32, heads, headDim int) {
	ropeNeoxPortable(x, cos, sin, heads, headDim)
}

func ropeNorm(_ isa.Level, x, cos, sin []float32, heads, headDim int) {
	ropeNormPortable(x, cos, sin, heads, headDim)
}

func sum(_ isa.Level, x []float32) float32 { return sumPortable(x) }

func sumDeviations(_ isa.Level, x []float32, mean float32) float32 {
	return sumDeviationsPortable(x, mean)
}

func centerBy(_ isa.Level, dst, x, w, b []float32, mean, f float32) {
	centerByPortable(dst, x, w, b, mean, f)
}

func softCap(_ isa.Level, x []float32, limit, inverse float32) { softCapPortable(x, limit, inverse) }

func gelu(_ isa.Level, x []float32) { geluPortable(x) }

func geglu(_ isa.Level, dst, gate, up []float32) { gegluPortable(dst, gate, up) }

func clampedGLU(_ isa.Level, dst, gate, up []float32, c Clamp) { clampedGLUPortable(dst, gate, up, c) }

func addScaled(_ isa.Level, dst, x []float32, f float32) { addScaledPortable(dst, x, f) }
