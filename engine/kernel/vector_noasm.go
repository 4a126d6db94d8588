//go:build !amd64 || purego || noasm

package kernel

func sumSquares(_ Level, x []float32) float32 { return sumSquaresPortable(x) }

func scaleBy(_ Level, dst, x, w []float32, f float32) { scaleByPortable(dst, x, w, f) }

// absMax is the largest magnitude in x, 0 of none, NaN if one is NaN.
func absMax(_ Level, x []float32) float32 { return absMaxPortable(x) }

// maximum is the largest element, -Inf of none; a NaN may be passed over.
func maximum(_ Level, x []float32) float32 { return maximumPortable(x) }

func swiglu(_ Level, dst, gate, up []float32) { swigluPortable(dst, gate, up) }

// expSum replaces x by exp(x-top) and returns the sum, which is NaN if one is.
func expSum(_ Level, x []float32, top float32) float32 { return expSumPortable(x, top) }

func ropeNeox(_ Level, x, cos, sin []float32, heads, headDim int) {
	ropeNeoxPortable(x, cos, sin, heads, headDim)
}

func ropeNorm(_ Level, x, cos, sin []float32, heads, headDim int) {
	ropeNormPortable(x, cos, sin, heads, headDim)
}
