// Package isa names the levels of instructions that kernels exist for, and says
// which of them this machine and build can run.
package isa

import (
	"fmt"
	"strings"
)

// Level is an instruction set that kernels exist for. Every level computes
// from the same weight layout.
type Level uint8

// Levels, from the one that runs everywhere to the fastest.
const (
	Auto     Level = iota // the best that the machine has
	Portable              // plain Go
	AVX2                  // AVX2, FMA, F16C
	AVX512                // AVX-512 F, BW, DQ, VL, VBMI and VNNI
)

// String gives the flag's spelling.
func (l Level) String() string {
	switch l {
	case Auto:
		return "auto"
	case Portable:
		return "portable"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// Levels lists what this machine and build can run, slowest first.
func Levels() []Level {
	all := make([]Level, 0, AVX512)
	for l := Portable; l <= Best(); l++ {
		all = append(all, l)
	}
	return all
}

// Parse reads a flag; "auto" and "" are the best that the machine has.
// A level that this machine or build cannot run is an error.
func Parse(s string) (Level, error) {
	best := Best()
	if s = strings.ToLower(s); s == "" || s == "auto" {
		return best, nil
	}
	for l := Portable; l <= AVX512; l++ {
		if s != l.String() {
			continue
		}
		if l > best {
			return 0, fmt.Errorf("cpu level %s needs instructions that this machine or build does not have; it can run up to %s",
				l, best)
		}
		return l, nil
	}
	return 0, fmt.Errorf("cpu level %q is not known; use auto, avx512, avx2 or portable", s)
}
