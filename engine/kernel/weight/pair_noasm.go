//go:build !amd64 || purego || noasm

package weight

var pairProducts *productFuncs
