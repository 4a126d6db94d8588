//go:build !amd64 || purego || noasm

package isa

const built = false
