//go:build !amd64 || purego || noasm

package weight

const hasBF16 = false

var pairProducts *productFuncs
