//go:build amd64 && !purego && !noasm

package weight

import (
	"weir/engine/gguf"
	"weir/engine/kernel/isa"
)

// products512 are the AVX-512 products.
var products512 = map[gguf.Type]*productFuncs{
	gguf.TypeQ4K: {
		one: [panelRows + 1]productFunc{nil, productQ4Kx1AVX512, productQ4Kx2AVX512, productQ4Kx3AVX512, productQ4Kx4AVX512, productQ4Kx5AVX512, productQ4Kx6AVX512, productQ4Kx7AVX512, productQ4Kx8AVX512},
		two: [panelRows + 1]productFunc{4: productQ4Kx4PairAVX512, 5: productQ4Kx5PairAVX512, 6: productQ4Kx6PairAVX512},
	},
	gguf.TypeQ5K: {
		one: [panelRows + 1]productFunc{nil, productQ5Kx1AVX512, productQ5Kx2AVX512, productQ5Kx3AVX512, productQ5Kx4AVX512, productQ5Kx5AVX512, productQ5Kx6AVX512, productQ5Kx7AVX512, productQ5Kx8AVX512},
		two: [panelRows + 1]productFunc{4: productQ5Kx4PairAVX512, 5: productQ5Kx5PairAVX512, 6: productQ5Kx6PairAVX512},
	},
	gguf.TypeQ6K: {
		one: [panelRows + 1]productFunc{nil, productQ6Kx1AVX512, productQ6Kx2AVX512, productQ6Kx3AVX512, productQ6Kx4AVX512, productQ6Kx5AVX512, productQ6Kx6AVX512, productQ6Kx7AVX512, productQ6Kx8AVX512},
		two: [panelRows + 1]productFunc{4: productQ6Kx4PairAVX512, 5: productQ6Kx5PairAVX512, 6: productQ6Kx6PairAVX512},
	},
	gguf.TypeQ8_0: {
		one: [panelRows + 1]productFunc{nil, productQ80x1AVX512, productQ80x2AVX512, productQ80x3AVX512, productQ80x4AVX512, productQ80x5AVX512, productQ80x6AVX512, productQ80x7AVX512, productQ80x8AVX512},
		two: [panelRows + 1]productFunc{4: productQ80x4PairAVX512, 5: productQ80x5PairAVX512, 6: productQ80x6PairAVX512},
	},
	gguf.TypeQ4_0: {
		one: [panelRows + 1]productFunc{nil, productQ40x1AVX512, productQ40x2AVX512, productQ40x3AVX512, productQ40x4AVX512, productQ40x5AVX512, productQ40x6AVX512, productQ40x7AVX512, productQ40x8AVX512},
		two: [panelRows + 1]productFunc{4: productQ40x4PairAVX512, 5: productQ40x5PairAVX512, 6: productQ40x6PairAVX512},
	},
	gguf.TypeQ5_0: {
		one: [panelRows + 1]productFunc{nil, productQ50x1AVX512, productQ50x2AVX512, productQ50x3AVX512, productQ50x4AVX512, productQ50x5AVX512, productQ50x6AVX512, productQ50x7AVX512, productQ50x8AVX512},
		two: [panelRows + 1]productFunc{4: productQ50x4PairAVX512, 5: productQ50x5PairAVX512, 6: productQ50x6PairAVX512},
	},
	gguf.TypeIQ4NL: {
		one: [panelRows + 1]productFunc{nil, productIQ4NLx1AVX512, productIQ4NLx2AVX512, productIQ4NLx3AVX512, productIQ4NLx4AVX512, productIQ4NLx5AVX512, productIQ4NLx6AVX512, productIQ4NLx7AVX512, productIQ4NLx8AVX512},
		two: [panelRows + 1]productFunc{4: productIQ4NLx4PairAVX512, 5: productIQ4NLx5PairAVX512, 6: productIQ4NLx6PairAVX512},
	},
	gguf.TypeQ3K: {
		one: [panelRows + 1]productFunc{nil, productQ3Kx1AVX512, productQ3Kx2AVX512, productQ3Kx3AVX512, productQ3Kx4AVX512, productQ3Kx5AVX512, productQ3Kx6AVX512, productQ3Kx7AVX512, productQ3Kx8AVX512},
		two: [panelRows + 1]productFunc{4: productQ3Kx4PairAVX512, 5: productQ3Kx5PairAVX512, 6: productQ3Kx6PairAVX512},
	},
	gguf.TypeQ4_1: {
		one: [panelRows + 1]productFunc{nil, productQ41x1AVX512, productQ41x2AVX512, productQ41x3AVX512, productQ41x4AVX512, productQ41x5AVX512, productQ41x6AVX512, productQ41x7AVX512, productQ41x8AVX512},
		two: [panelRows + 1]productFunc{4: productQ41x4PairAVX512, 5: productQ41x5PairAVX512, 6: productQ41x6PairAVX512},
	},
	gguf.TypeQ5_1: {
		one: [panelRows + 1]productFunc{nil, productQ51x1AVX512, productQ51x2AVX512, productQ51x3AVX512, productQ51x4AVX512, productQ51x5AVX512, productQ51x6AVX512, productQ51x7AVX512, productQ51x8AVX512},
		two: [panelRows + 1]productFunc{4: productQ51x4PairAVX512, 5: productQ51x5PairAVX512, 6: productQ51x6PairAVX512},
	},
	gguf.TypeIQ4XS: {
		one: [panelRows + 1]productFunc{nil, productIQ4XSx1AVX512, productIQ4XSx2AVX512, productIQ4XSx3AVX512, productIQ4XSx4AVX512, productIQ4XSx5AVX512, productIQ4XSx6AVX512, productIQ4XSx7AVX512, productIQ4XSx8AVX512},
		two: [panelRows + 1]productFunc{4: productIQ4XSx4PairAVX512, 5: productIQ4XSx5PairAVX512, 6: productIQ4XSx6PairAVX512},
	},
	gguf.TypeQ2K: {
		one: [panelRows + 1]productFunc{nil, productQ2Kx1AVX512, productQ2Kx2AVX512, productQ2Kx3AVX512, productQ2Kx4AVX512, productQ2Kx5AVX512, productQ2Kx6AVX512, productQ2Kx7AVX512, productQ2Kx8AVX512},
		two: [panelRows + 1]productFunc{4: productQ2Kx4PairAVX512, 5: productQ2Kx5PairAVX512, 6: productQ2Kx6PairAVX512},
	},
	gguf.TypeMXFP4: {
		one: [panelRows + 1]productFunc{nil, productMXFP4x1AVX512, productMXFP4x2AVX512, productMXFP4x3AVX512, productMXFP4x4AVX512, productMXFP4x5AVX512, productMXFP4x6AVX512, productMXFP4x7AVX512, productMXFP4x8AVX512},
		two: [panelRows + 1]productFunc{4: productMXFP4x4PairAVX512, 5: productMXFP4x5PairAVX512, 6: productMXFP4x6PairAVX512},
	},
	gguf.TypeF32: {
		one: [panelRows + 1]productFunc{nil, productF32x1AVX512, productF32x2AVX512, productF32x3AVX512, productF32x4AVX512, productF32x5AVX512, productF32x6AVX512, productF32x7AVX512, productF32x8AVX512},
		two: [panelRows + 1]productFunc{4: productF32x4PairAVX512, 5: productF32x5PairAVX512, 6: productF32x6PairAVX512},
	},
	gguf.TypeF16: {
		one: [panelRows + 1]productFunc{nil, productF16x1AVX512, productF16x2AVX512, productF16x3AVX512, productF16x4AVX512, productF16x5AVX512, productF16x6AVX512, productF16x7AVX512, productF16x8AVX512},
		two: [panelRows + 1]productFunc{4: productF16x4PairAVX512, 5: productF16x5PairAVX512, 6: productF16x6PairAVX512},
	},
	gguf.TypeBF16: {
		one: [panelRows + 1]productFunc{nil, productBF16x1AVX512, productBF16x2AVX512, productBF16x3AVX512, productBF16x4AVX512, productBF16x5AVX512, productBF16x6AVX512, productBF16x7AVX512, productBF16x8AVX512},
		two: [panelRows + 1]productFunc{4: productBF16x4PairAVX512, 5: productBF16x5PairAVX512, 6: productBF16x6PairAVX512},
	},
}

// products256 are the AVX2 products.
var products256 = map[gguf.Type]*productFuncs{
	gguf.TypeQ4K:   {one: [panelRows + 1]productFunc{nil, productQ4Kx1AVX2, productQ4Kx2AVX2, productQ4Kx3AVX2, productQ4Kx4AVX2}},
	gguf.TypeQ5K:   {one: [panelRows + 1]productFunc{nil, productQ5Kx1AVX2, productQ5Kx2AVX2, productQ5Kx3AVX2, productQ5Kx4AVX2}},
	gguf.TypeQ6K:   {one: [panelRows + 1]productFunc{nil, productQ6Kx1AVX2, productQ6Kx2AVX2, productQ6Kx3AVX2, productQ6Kx4AVX2}},
	gguf.TypeQ8_0:  {one: [panelRows + 1]productFunc{nil, productQ80x1AVX2, productQ80x2AVX2, productQ80x3AVX2, productQ80x4AVX2}},
	gguf.TypeQ4_0:  {one: [panelRows + 1]productFunc{nil, productQ40x1AVX2, productQ40x2AVX2, productQ40x3AVX2, productQ40x4AVX2}},
	gguf.TypeQ5_0:  {one: [panelRows + 1]productFunc{nil, productQ50x1AVX2, productQ50x2AVX2, productQ50x3AVX2, productQ50x4AVX2}},
	gguf.TypeIQ4NL: {one: [panelRows + 1]productFunc{nil, productIQ4NLx1AVX2, productIQ4NLx2AVX2, productIQ4NLx3AVX2, productIQ4NLx4AVX2}},
	gguf.TypeQ3K:   {one: [panelRows + 1]productFunc{nil, productQ3Kx1AVX2, productQ3Kx2AVX2, productQ3Kx3AVX2, productQ3Kx4AVX2}},
	gguf.TypeQ4_1:  {one: [panelRows + 1]productFunc{nil, productQ41x1AVX2, productQ41x2AVX2, productQ41x3AVX2, productQ41x4AVX2}},
	gguf.TypeQ5_1:  {one: [panelRows + 1]productFunc{nil, productQ51x1AVX2, productQ51x2AVX2, productQ51x3AVX2, productQ51x4AVX2}},
	gguf.TypeIQ4XS: {one: [panelRows + 1]productFunc{nil, productIQ4XSx1AVX2, productIQ4XSx2AVX2, productIQ4XSx3AVX2, productIQ4XSx4AVX2}},
	gguf.TypeQ2K:   {one: [panelRows + 1]productFunc{nil, productQ2Kx1AVX2, productQ2Kx2AVX2, productQ2Kx3AVX2, productQ2Kx4AVX2}},
	gguf.TypeMXFP4: {one: [panelRows + 1]productFunc{nil, productMXFP4x1AVX2, productMXFP4x2AVX2, productMXFP4x3AVX2, productMXFP4x4AVX2}},
	gguf.TypeF32:   {one: [panelRows + 1]productFunc{nil, productF32x1AVX2, productF32x2AVX2, productF32x3AVX2, productF32x4AVX2}},
	gguf.TypeF16:   {one: [panelRows + 1]productFunc{nil, productF16x1AVX2, productF16x2AVX2, productF16x3AVX2, productF16x4AVX2}},
	gguf.TypeBF16:  {one: [panelRows + 1]productFunc{nil, productBF16x1AVX2, productBF16x2AVX2, productBF16x3AVX2, productBF16x4AVX2}},
}

// productsFor returns the products of a type at a level, nil at the portable
// one.
func productsFor(level isa.Level, t gguf.Type) *productFuncs {
	switch level {
	case isa.AVX512:
		return products512[t]
	case isa.AVX2:
		return products256[t]
	default:
		return nil
	}
}

func quantizeRowFast(level isa.Level, k kind, dst, x []float32) bool {
	if level == isa.Portable {
		return false
	}
	size, run := superBlockValues, quantizeSuperAVX512
	switch {
	case k == kindSuper && level == isa.AVX2:
		run = quantizeSuperAVX2
	case k == kindBlock && level == isa.AVX2:
		size, run = blockValues, quantizeBlockAVX2
	case k == kindBlock:
		size, run = blockValues, quantizeBlockAVX512
	}
	run(&dst[0], &x[0], len(x)/size)
	return true
}

func placeRowFast(level isa.Level, panel []float32, m int, row []float32) bool {
	if level == isa.Portable {
		return false
	}
	_ = panel[(len(row)-1)*m]
	placeWords(&panel[0], 4*m, &row[0], len(row))
	return true
}
