//go:build !amd64 || purego || noasm

package isa

// Best is the fastest level that this machine can run.
func Best() Level { return Portable }

// HasBF16 reports whether the machine has products of bfloat16.
func HasBF16() bool { return false }
