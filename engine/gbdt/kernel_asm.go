//go:build amd64 && !purego && !noasm

package gbdt

import "weir/engine/kernel/isa"

// ranking gives the level's function for the ranks of plain columns.
func ranking[X float](level isa.Level) rankFunc[X] {
	if level != isa.AVX512 {
		return rankPortable[X]
	}
	if f, ok := any(rankFunc[float32](rank32)).(rankFunc[X]); ok {
		return f
	}
	return any(rankFunc[float64](rank64)).(rankFunc[X])
}

func rank32(dst []byte, stride int, row []float32, plain []uint64, thresholds []float32) {
	rank32AVX512(&dst[0], stride, &row[0], &plain[0], &thresholds[0], len(plain))
}

func rank64(dst []byte, stride int, row []float64, plain []uint64, thresholds []float64) {
	rank64AVX512(&dst[0], stride, &row[0], &plain[0], &thresholds[0], len(plain))
}

// maskColumns is the most columns that the kernels of masks know.
const maskColumns = 256

// maskKernel gives the kernel of a layout, by the size of its tables; nil if the level has none.
func maskKernel[S float](level isa.Level, l maskLayout, columns int) maskFunc[S] {
	if level != isa.AVX512 || columns > maskColumns {
		return nil
	}
	size := 0
	for columns > nodeLanes<<size {
		size++
	}
	if f, ok := any(maskKernels32[l.name][size]).(maskFunc[S]); ok {
		return f
	}
	return any(maskKernels64[l.name][size]).(maskFunc[S])
}

// By layout, for 64, 128 and 256 columns.
var maskKernels32 = map[string][3]maskFunc[float32]{
	"mask depth 6":   {maskDepth6Columns64Sum32AVX512, maskDepth6Columns128Sum32AVX512, maskDepth6Columns256Sum32AVX512},
	"mask depth 7":   {maskDepth7Columns64Sum32AVX512, maskDepth7Columns128Sum32AVX512, maskDepth7Columns256Sum32AVX512},
	"mask depth 8":   {maskDepth8Columns64Sum32AVX512, maskDepth8Columns128Sum32AVX512, maskDepth8Columns256Sum32AVX512},
	"mask leaves 32": {maskLeaves32Columns64Sum32AVX512, maskLeaves32Columns128Sum32AVX512, maskLeaves32Columns256Sum32AVX512},
	"mask leaves 64": {maskLeaves64Columns64Sum32AVX512, maskLeaves64Columns128Sum32AVX512, maskLeaves64Columns256Sum32AVX512},
}

var maskKernels64 = map[string][3]maskFunc[float64]{
	"mask depth 6":   {maskDepth6Columns64Sum64AVX512, maskDepth6Columns128Sum64AVX512, maskDepth6Columns256Sum64AVX512},
	"mask depth 7":   {maskDepth7Columns64Sum64AVX512, maskDepth7Columns128Sum64AVX512, maskDepth7Columns256Sum64AVX512},
	"mask depth 8":   {maskDepth8Columns64Sum64AVX512, maskDepth8Columns128Sum64AVX512, maskDepth8Columns256Sum64AVX512},
	"mask leaves 32": {maskLeaves32Columns64Sum64AVX512, maskLeaves32Columns128Sum64AVX512, maskLeaves32Columns256Sum64AVX512},
	"mask leaves 64": {maskLeaves64Columns64Sum64AVX512, maskLeaves64Columns128Sum64AVX512, maskLeaves64Columns256Sum64AVX512},
}

// sliceKernel gives the kernel for perfect trees of that depth and the rows that it computes together; nil if the
// level has none.
func sliceKernel[S float](level isa.Level, depth int) (sliceFunc[S], int) {
	if level != isa.AVX512 || depth < minSliceDepth || depth > maxSliceDepth {
		return nil, 0
	}
	if f, ok := any(sliceKernels32[depth-minSliceDepth]).(sliceFunc[S]); ok {
		return f, 64
	}
	return any(sliceKernels64[depth-minSliceDepth]).(sliceFunc[S]), 64
}

var (
	sliceKernels32 = [...]sliceFunc[float32]{
		sliceDepth3Sum32AVX512, sliceDepth4Sum32AVX512, sliceDepth5Sum32AVX512, sliceDepth6Sum32AVX512,
	}
	sliceKernels64 = [...]sliceFunc[float64]{
		sliceDepth3Sum64AVX512, sliceDepth4Sum64AVX512, sliceDepth5Sum64AVX512, sliceDepth6Sum64AVX512,
	}
)
