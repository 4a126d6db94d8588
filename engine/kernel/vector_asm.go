//go:build amd64 && !purego && !noasm

package kernel

func sumSquares(level Level, x []float32) float32 {
	switch level {
	case AVX512:
		return sumSquaresAVX512(x)
	case AVX2:
		return sumSquaresAVX2(x)
	default:
		return sumSquaresPortable(x)
	}
}

func scaleBy(level Level, dst, x, w []float32, f float32) {
	switch level {
	case AVX512:
		scaleByAVX512(dst, x, w, f)
	case AVX2:
		scaleByAVX2(dst, x, w, f)
	default:
		scaleByPortable(dst, x, w, f)
	}
}

// absMax is the largest magnitude in x, 0 of none, NaN if one is NaN.
func absMax(level Level, x []float32) float32 {
	switch level {
	case AVX512:
		return absMaxAVX512(x)
	case AVX2:
		return absMaxAVX2(x)
	default:
		return absMaxPortable(x)
	}
}

// maximum is the largest element, -Inf of none; a NaN may be passed over.
func maximum(level Level, x []float32) float32 {
	switch level {
	case AVX512:
		return maximumAVX512(x)
	case AVX2:
		return maximumAVX2(x)
	default:
		return maximumPortable(x)
	}
}

func swiglu(level Level, dst, gate, up []float32) {
	switch level {
	case AVX512:
		swigluAVX512(dst, gate, up)
	case AVX2:
		swigluAVX2(dst, gate, up)
	default:
		swigluPortable(dst, gate, up)
	}
}

// expSum replaces x by exp(x-top) and returns the sum, which is NaN if one is.
func expSum(level Level, x []float32, top float32) float32 {
	switch level {
	case AVX512:
		return expSumAVX512(x, top)
	case AVX2:
		return expSumAVX2(x, top)
	default:
		return expSumPortable(x, top)
	}
}

func ropeNeox(level Level, x, cos, sin []float32, heads, headDim int) {
	switch level {
	case AVX512:
		ropeNeoxAVX512(x, cos, sin, heads, headDim)
	case AVX2:
		ropeNeoxAVX2(x, cos, sin, heads, headDim)
	default:
		ropeNeoxPortable(x, cos, sin, heads, headDim)
	}
}

func ropeNorm(level Level, x, cos, sin []float32, heads, headDim int) {
	switch level {
	case AVX512:
		ropeNormAVX512(x, cos, sin, heads, headDim)
	case AVX2:
		ropeNormAVX2(x, cos, sin, heads, headDim)
	default:
		ropeNormPortable(x, cos, sin, heads, headDim)
	}
}
