//go:build !amd64 || purego || noasm

package roofline

// Best is the fastest level that this machine can run.
func Best() Level { return Portable }

func loopsOf(Level) loops { return portableLoops }

// clock is unknown: the compiler decides how many instructions a cycle holds.
var clock func() float64
