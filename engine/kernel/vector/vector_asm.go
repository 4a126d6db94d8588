//go:build amd64 && !purego && !noasm

package vector

import "weir/engine/kernel/isa"

func sumSquares(level isa.Level, x []float32) float32 {
	switch level {
	case isa.AVX512:
		return sumSquaresAVX512(x)
	case isa.AVX2:
		return sumSquaresAVX2(x)
	default:
		return sumSquaresPortable(x)
	}
}

func scaleBy(level isa.Level, dst, x, w []float32, f float32) {
	switch level {
	case isa.AVX512:
		scaleByAVX512(dst, x, w, f)
	case isa.AVX2:
		scaleByAVX2(dst, x, w, f)
	default:
		scaleByPortable(dst, x, w, f)
	}
}

// AbsMax is the largest magnitude in x, 0 of none, NaN if one is NaN.
func AbsMax(level isa.Level, x []float32) float32 {
	switch level {
	case isa.AVX512:
		return absMaxAVX512(x)
	case isa.AVX2:
		return absMaxAVX2(x)
	default:
		return absMaxPortable(x)
	}
}

func swiglu(level isa.Level, dst, gate, up []float32) {
	switch level {
	case isa.AVX512:
		swigluAVX512(dst, gate, up)
	case isa.AVX2:
		swigluAVX2(dst, gate, up)
	default:
		swigluPortable(dst, gate, up)
	}
}

func softmax(level isa.Level, x []float32, stride, width int, seen []Seen, out []Softmax) {
	switch level {
	case isa.AVX512:
		softmaxAVX512(&x[0], stride, width, len(seen), &seen[0].First, &out[0].Top)
	case isa.AVX2:
		softmaxAVX2(&x[0], stride, width, len(seen), &seen[0].First, &out[0].Top)
	default:
		softmaxPortable(x, stride, width, seen, out)
	}
}

func ropeNeox(level isa.Level, x, cos, sin []float32, heads, headDim int) {
	switch level {
	case isa.AVX512:
		ropeNeoxAVX512(x, cos, sin, heads, headDim)
	case isa.AVX2:
		ropeNeoxAVX2(x, cos, sin, heads, headDim)
	default:
		ropeNeoxPortable(x, cos, sin, heads, headDim)
	}
}

func ropeNorm(level isa.Level, x, cos, sin []float32, heads, headDim int) {
	switch level {
	case isa.AVX512:
		ropeNormAVX512(x, cos, sin, heads, headDim)
	case isa.AVX2:
		ropeNormAVX2(x, cos, sin, heads, headDim)
	default:
		ropeNormPortable(x, cos, sin, heads, headDim)
	}
}

func sum(level isa.Level, x []float32) float32 {
	switch level {
	case isa.AVX512:
		return sumAVX512(x)
	case isa.AVX2:
		return sumAVX2(x)
	default:
		return sumPortable(x)
	}
}

func sumDeviations(level isa.Level, x []float32, mean float32) float32 {
	switch level {
	case isa.AVX512:
		return sumDeviationsAVX512(x, mean)
	case isa.AVX2:
		return sumDeviationsAVX2(x, mean)
	default:
		return sumDeviationsPortable(x, mean)
	}
}

func centerBy(level isa.Level, dst, x, w, b []float32, mean, f float32) {
	switch level {
	case isa.AVX512:
		centerByAVX512(dst, x, w, b, mean, f)
	case isa.AVX2:
		centerByAVX2(dst, x, w, b, mean, f)
	default:
		centerByPortable(dst, x, w, b, mean, f)
	}
}

func gelu(level isa.Level, x []float32) {
	switch level {
	case isa.AVX512:
		geluAVX512(x)
	case isa.AVX2:
		geluAVX2(x)
	default:
		geluPortable(x)
	}
}

func softCap(level isa.Level, x []float32, limit, inverse float32) {
	switch level {
	case isa.AVX512:
		softCapAVX512(x, limit, inverse)
	case isa.AVX2:
		softCapAVX2(x, limit, inverse)
	default:
		softCapPortable(x, limit, inverse)
	}
}

func geglu(level isa.Level, dst, gate, up []float32) {
	switch level {
	case isa.AVX512:
		gegluAVX512(dst, gate, up)
	case isa.AVX2:
		gegluAVX2(dst, gate, up)
	default:
		gegluPortable(dst, gate, up)
	}
}

func clampedGLU(level isa.Level, dst, gate, up []float32, c Clamp) {
	switch level {
	case isa.AVX512:
		clampedGLUAVX512(dst, gate, up, c.Slope, c.Limit)
	case isa.AVX2:
		clampedGLUAVX2(dst, gate, up, c.Slope, c.Limit)
	default:
		clampedGLUPortable(dst, gate, up, c)
	}
}

func addScaled(level isa.Level, dst, x []float32, f float32) {
	switch level {
	case isa.AVX512:
		addScaledAVX512(dst, x, f)
	case isa.AVX2:
		addScaledAVX2(dst, x, f)
	default:
		addScaledPortable(dst, x, f)
	}
}
