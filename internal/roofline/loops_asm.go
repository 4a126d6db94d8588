//go:build amd64 && !purego && !noasm

package roofline

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// Best is the fastest level that this machine can run.
func Best() Level {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA:
		return Portable
	case x.HasAVX512F && x.HasAVX512VNNI:
		return AVX512
	default:
		return AVX2
	}
}

// Rounds of one call: 10 to 50 us.
const (
	productRounds = 8 << 10
	chainRounds   = 2 << 10
)

// Operations of one round, as the generator lays the loops out: sums times
// lanes times two.
const (
	int8Ops512  = 16 * 64 * 2
	int8Ops256  = 8 * 32 * 2
	floatOps512 = 12 * 16 * 2
	floatOps256 = 12 * 8 * 2
)

// factors are ordinary values: products of zeros would draw less current and
// leave the clock higher than real work does.
var factors = func() (f [2][64]byte) {
	for i := range f[0] {
		f[0][i], f[1][i] = byte(37*i+11)&0x3f, byte(53*i+7)&0x3f // small floats, too
	}
	return f
}()

func loopsOf(l Level) loops {
	switch l {
	case AVX512:
		return assembly(read512, int8Products512, floatProducts512, int8Ops512, floatOps512)
	case AVX2:
		return assembly(read256, int8Products256, floatProducts256, int8Ops256, floatOps256)
	default:
		return portableLoops
	}
}

type productLoop func(*[2][64]byte, int)

func assembly(read func(*byte, int), products, floats productLoop, productOps, floatOps float64) loops {
	return loops{
		read: func(chunk []byte) float64 {
			_ = chunk[255]
			read(unsafe.SliceData(chunk), len(chunk)/256)
			return float64(len(chunk) / 256 * 256)
		},
		int8: func() float64 {
			products(&factors, productRounds)
			return productOps * productRounds
		},
		float: func() float64 {
			floats(&factors, productRounds)
			return floatOps * productRounds
		},
	}
}

// clock does dependent additions, one a cycle, and returns how many.
var clock = func() float64 {
	chain(chainRounds)
	return 32 * chainRounds
}
