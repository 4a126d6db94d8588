//go:build !purego && !noasm

package kernel

import "weir/engine/gguf"

// products512 are the AVX-512 products by type and number of rows minus one.
var products512 = map[gguf.Type]*productFuncs{
	gguf.TypeQ4K:   {productQ4Kx1AVX512, productQ4Kx2AVX512, productQ4Kx3AVX512, productQ4Kx4AVX512, productQ4Kx5AVX512, productQ4Kx6AVX512, productQ4Kx7AVX512, productQ4Kx8AVX512},
	gguf.TypeQ5K:   {productQ5Kx1AVX512, productQ5Kx2AVX512, productQ5Kx3AVX512, productQ5Kx4AVX512, productQ5Kx5AVX512, productQ5Kx6AVX512, productQ5Kx7AVX512, productQ5Kx8AVX512},
	gguf.TypeQ6K:   {productQ6Kx1AVX512, productQ6Kx2AVX512, productQ6Kx3AVX512, productQ6Kx4AVX512, productQ6Kx5AVX512, productQ6Kx6AVX512, productQ6Kx7AVX512, productQ6Kx8AVX512},
	gguf.TypeQ8_0:  {productQ80x1AVX512, productQ80x2AVX512, productQ80x3AVX512, productQ80x4AVX512, productQ80x5AVX512, productQ80x6AVX512, productQ80x7AVX512, productQ80x8AVX512},
	gguf.TypeQ4_0:  {productQ40x1AVX512, productQ40x2AVX512, productQ40x3AVX512, productQ40x4AVX512, productQ40x5AVX512, productQ40x6AVX512, productQ40x7AVX512, productQ40x8AVX512},
	gguf.TypeQ5_0:  {productQ50x1AVX512, productQ50x2AVX512, productQ50x3AVX512, productQ50x4AVX512, productQ50x5AVX512, productQ50x6AVX512, productQ50x7AVX512, productQ50x8AVX512},
	gguf.TypeIQ4NL: {productIQ4NLx1AVX512, productIQ4NLx2AVX512, productIQ4NLx3AVX512, productIQ4NLx4AVX512, productIQ4NLx5AVX512, productIQ4NLx6AVX512, productIQ4NLx7AVX512, productIQ4NLx8AVX512},
	gguf.TypeF32:   {productF32x1AVX512, productF32x2AVX512, productF32x3AVX512, productF32x4AVX512, productF32x5AVX512, productF32x6AVX512, productF32x7AVX512, productF32x8AVX512},
	gguf.TypeF16:   {productF16x1AVX512, productF16x2AVX512, productF16x3AVX512, productF16x4AVX512, productF16x5AVX512, productF16x6AVX512, productF16x7AVX512, productF16x8AVX512},
	gguf.TypeBF16:  {productBF16x1AVX512, productBF16x2AVX512, productBF16x3AVX512, productBF16x4AVX512, productBF16x5AVX512, productBF16x6AVX512, productBF16x7AVX512, productBF16x8AVX512},
}

// productsFor returns the products of a type at a level, nil at the portable
// one.
func productsFor(level Level, t gguf.Type) *productFuncs {
	if level == AVX512 {
		return products512[t]
	}
	return nil
}

func quantizeRowFast(level Level, k kind, dst, x []float32) bool {
	switch {
	case level != AVX512:
		return false
	case k == kindSuper:
		quantizeSuperAVX512(&dst[0], &x[0], len(x)/superBlockValues)
	default:
		quantizeBlockAVX512(&dst[0], &x[0], len(x)/blockValues)
	}
	return true
}

func placeRowFast(level Level, panel []float32, m int, row []float32) bool {
	if level == Portable {
		return false
	}
	_ = panel[(len(row)-1)*m]
	placeWords(&panel[0], 4*m, &row[0], len(row))
	return true
}
