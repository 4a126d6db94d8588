//go:build amd64 && !purego && !noasm

package weight

// pairProducts are the AVX-512 products of bfloat16.
var pairProducts = &productFuncs{
	one: [panelRows + 1]productFunc{
		1: productPairx1AVX512, 2: productPairx2AVX512, 3: productPairx3AVX512, 4: productPairx4AVX512,
		5: productPairx5AVX512, 6: productPairx6AVX512, 7: productPairx7AVX512, 8: productPairx8AVX512,
	},
	two:  [panelRows + 1]productFunc{4: productPairx4PairAVX512, 5: productPairx5PairAVX512, 6: productPairx6PairAVX512},
	four: [panelRows + 1]productFunc{4: productPairx4QuadAVX512, 5: productPairx5QuadAVX512, 6: productPairx6QuadAVX512},
}
