// Package roofline measures the most that this machine can do: how fast its
// threads read memory, multiply bytes and multiply floats. The limits are measured, by
// loops that do nothing else, and kernels and forecasts are held against them:
// no computation is faster than its bytes at the read rate, nor faster than its
// operations at the peak (Williams, Waterman, Patterson: Roofline, 2009).
package roofline

import (
	"errors"
	"fmt"
	"strings"
)

// Level is the instruction set that the loops use; the names are those of the
// engine's kernels.
type Level uint8

// Levels, slowest first.
const (
	Portable Level = iota // plain Go
	AVX2                  // and FMA
	AVX512                // and VNNI
)

// String gives the flag's spelling.
func (l Level) String() string {
	switch l {
	case Portable:
		return "portable"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// ParseLevel reads a flag; "auto" and "" are the best that the machine has. A
// level that the machine or the build lacks is an error.
func ParseLevel(s string) (Level, error) {
	if s = strings.ToLower(s); s == "" || s == "auto" {
		return Best(), nil
	}
	for l := Portable; l <= AVX512; l++ {
		switch {
		case s != l.String():
		case l > Best():
			return 0, fmt.Errorf("cpu level %s needs instructions that this machine or build does not have; it can run up to %s",
				l, Best())
		default:
			return l, nil
		}
	}
	return 0, fmt.Errorf("cpu level %q is not known; use auto, avx512, avx2 or portable", s)
}

// Limits are rates per second of one thread and of all.
type Limits struct {
	Level   Level
	Threads int
	ClockHz float64 // of one busy core; 0 where it cannot be measured

	One, All Rates
}

// Rates are per second. A multiply-add is two operations.
type Rates struct {
	ReadBytes float64 // from memory, beyond every cache
	Int8Ops   float64 // bytes times bytes into 32-bit sums, as quantised products do
	FloatOps  float64 // float32
}

// Work is what a computation cannot do without.
type Work struct {
	Bytes    float64 // read from memory
	Int8Ops  float64
	FloatOps float64
}

// Add returns the work of both.
func (w Work) Add(v Work) Work {
	return Work{w.Bytes + v.Bytes, w.Int8Ops + v.Int8Ops, w.FloatOps + v.FloatOps}
}

// Times returns the work done n times.
func (w Work) Times(n float64) Work {
	return Work{w.Bytes * n, w.Int8Ops * n, w.FloatOps * n}
}

// Bound is the limit that a computation meets first.
type Bound uint8

// Bounds.
const (
	ByMemory Bound = iota
	ByCompute
)

// String gives a word for tables.
func (b Bound) String() string {
	if b == ByMemory {
		return "memory"
	}
	return "compute"
}

// Times are the least seconds that work takes to read and to compute. Bytes and
// floats are multiplied by the same units, one after the other.
func (r Rates) Times(w Work) (memory, compute float64) {
	return share(w.Bytes, r.ReadBytes), share(w.Int8Ops, r.Int8Ops) + share(w.FloatOps, r.FloatOps)
}

// Seconds is the least time that work can take, and what limits it: at best
// reading and computing overlap.
func (r Rates) Seconds(w Work) (float64, Bound) {
	memory, compute := r.Times(w)
	if memory >= compute {
		return memory, ByMemory
	}
	return compute, ByCompute
}

// share is the time of an amount at a rate; no work takes no time, also where
// the rate was not measured.
func share(amount, rate float64) float64 {
	if amount == 0 {
		return 0
	}
	return amount / rate
}

// Ridge is the operations per byte from which on compute limits.
func (r Rates) Ridge() float64 { return r.Int8Ops / r.ReadBytes }

var errNoMemory = errors.New("too little memory is free to measure the read rate; free some, or skip the measurement")
