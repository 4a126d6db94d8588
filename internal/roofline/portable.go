package roofline

import (
	"encoding/binary"
	"sync/atomic"
)

// portableLoops are what plain Go reaches, which is the limit of the portable
// kernels, not of the machine.
var portableLoops = loops{read: readWords, int8: multiplyBytes, float: multiplyFloats}

// sink keeps results alive, so that the compiler leaves the loops in.
var sink atomic.Uint64

// readWords sums a chunk in eight independent sums.
func readWords(chunk []byte) float64 {
	var s [8]uint64
	n := len(chunk)
	for len(chunk) >= 64 {
		s[0] += binary.LittleEndian.Uint64(chunk[0:])
		s[1] += binary.LittleEndian.Uint64(chunk[8:])
		s[2] += binary.LittleEndian.Uint64(chunk[16:])
		s[3] += binary.LittleEndian.Uint64(chunk[24:])
		s[4] += binary.LittleEndian.Uint64(chunk[32:])
		s[5] += binary.LittleEndian.Uint64(chunk[40:])
		s[6] += binary.LittleEndian.Uint64(chunk[48:])
		s[7] += binary.LittleEndian.Uint64(chunk[56:])
		chunk = chunk[64:]
	}
	sink.Store(s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7])
	return float64(n)
}

// Lengths of the vectors that portable loops multiply, in the first-level
// cache, and how often a call does it.
const (
	portableLanes  = 1024
	portableRounds = 16
)

var (
	bytesA, bytesB   = ramp[int8](), ramp[int8]()
	floatsA, floatsB = ramp[float32](), ramp[float32]()
)

func ramp[T int8 | float32]() []T {
	out := make([]T, portableLanes)
	for i := range out {
		out[i] = T(i%64) / 2
	}
	return out
}

func multiplyBytes() float64 {
	var s0, s1, s2, s3 int32
	for range portableRounds {
		a, b := bytesA, bytesB
		for len(a) >= 4 && len(b) >= 4 {
			s0 += int32(a[0]) * int32(b[0])
			s1 += int32(a[1]) * int32(b[1])
			s2 += int32(a[2]) * int32(b[2])
			s3 += int32(a[3]) * int32(b[3])
			a, b = a[4:], b[4:]
		}
	}
	sink.Store(uint64(s0 + s1 + s2 + s3))
	return 2 * portableLanes * portableRounds
}

func multiplyFloats() float64 {
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for range portableRounds {
		a, b := floatsA, floatsB
		for len(a) >= 8 && len(b) >= 8 {
			s0 += a[0] * b[0]
			s1 += a[1] * b[1]
			s2 += a[2] * b[2]
			s3 += a[3] * b[3]
			s4 += a[4] * b[4]
			s5 += a[5] * b[5]
			s6 += a[6] * b[6]
			s7 += a[7] * b[7]
			a, b = a[8:], b[8:]
		}
	}
	sink.Store(uint64(s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7))
	return 2 * portableLanes * portableRounds
}
