//go:build !purego && !noasm

package kernel

import "golang.org/x/sys/cpu"

// BestLevel is the fastest level that this machine can run.
func BestLevel() Level {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA:
		return Portable
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VBMI && x.HasAVX512VNNI:
		return AVX512
	default:
		return AVX2
	}
}
