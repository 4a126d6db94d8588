//go:build amd64 && !purego && !noasm

package isa

import "golang.org/x/sys/cpu"

// HasBF16 reports whether the machine has products of bfloat16 (AVX512_BF16), which belong to no level.
func HasBF16() bool { return cpu.X86.HasAVX512BF16 }

// Best is the fastest level that this machine can run.
func Best() Level {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA || !x.HasBMI1:
		return Portable
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VBMI && x.HasAVX512VNNI:
		return AVX512
	default:
		return AVX2
	}
}
