//go:build !amd64 || purego || noasm

package isa

// Best is the fastest level that this machine can run.
func Best() Level { return Portable }
