//go:build amd64 && !purego && !noasm

package gbdt

import "weir/engine/kernel/isa"

// ranking gives the level's function for the ranks of plain columns.
func ranking[X float](level isa.Level) rankFunc[X] {
	switch level {
	case isa.AVX512:
		return ofType[rankFunc[X]](rankFunc[float32](rank32AVX512Of), rankFunc[float64](rank64AVX512Of))
	case isa.AVX2:
		return ofType[rankFunc[X]](rankFunc[float32](rank32AVX2Of), rankFunc[float64](rank64AVX2Of))
	default:
		return rankPortable[X]
	}
}

// ofType gives the one of two functions that has type F.
func ofType[F any](single, double any) F {
	if f, ok := single.(F); ok {
		return f
	}
	return double.(F)
}

// checkRank panics where a rank function, which knows no lengths, would read or write beyond what it is given.
func checkRank[X float](dst []byte, stride int, row []X, plain []uint64, thresholds []X) {
	_, _ = dst[(len(plain)-1)*stride], thresholds[len(plain)*columnSize-1]
	_ = row[uint32(plain[len(plain)-1])] // the largest: columns are sorted by feature
}

func rank32AVX512Of(dst []byte, stride int, row []float32, plain []uint64, thresholds []float32) {
	checkRank(dst, stride, row, plain, thresholds)
	rank32AVX512(&dst[0], stride, &row[0], &plain[0], &thresholds[0], len(plain))
}

func rank64AVX512Of(dst []byte, stride int, row []float64, plain []uint64, thresholds []float64) {
	checkRank(dst, stride, row, plain, thresholds)
	rank64AVX512(&dst[0], stride, &row[0], &plain[0], &thresholds[0], len(plain))
}

func rank32AVX2Of(dst []byte, stride int, row []float32, plain []uint64, thresholds []float32) {
	checkRank(dst, stride, row, plain, thresholds)
	rank32AVX2(&dst[0], stride, &row[0], &plain[0], &thresholds[0], len(plain))
}

func rank64AVX2Of(dst []byte, stride int, row []float64, plain []uint64, thresholds []float64) {
	checkRank(dst, stride, row, plain, thresholds)
	rank64AVX2(&dst[0], stride, &row[0], &plain[0], &thresholds[0], len(plain))
}

// maskKernel gives the kernel of a layout and the tables that it looks columns up in: one of up to 256 columns with
// AVX-512, as many as there are 16 columns with AVX2. It is nil if the level has none for so many columns.
func maskKernel[S float](level isa.Level, l maskLayout, columns int) (maskFunc[S], int) {
	least, of := 64, maskKernels512
	if level == isa.AVX2 {
		least, of = 32, maskKernels256
	}
	size := 0
	for columns > least<<size {
		size++
	}
	k, known := of[l.name]
	if level < isa.AVX2 || !known || size >= len(k.single) {
		return nil, 0
	}
	tables := 1
	if level == isa.AVX2 {
		tables = least << size / 16
	}
	return ofType[maskFunc[S]](k.single[size], k.double[size]), tables
}

// maskKernels are the kernels of a layout by their number of columns.
type maskKernels struct {
	single [3]maskFunc[float32]
	double [3]maskFunc[float64]
}

// maskKernels512 are for 64, 128 and 256 columns.
var maskKernels512 = map[string]maskKernels{
	"mask oblivious 6": {
		single: [3]maskFunc[float32]{
			maskOblivious6Columns64Sum32AVX512,
			maskOblivious6Columns128Sum32AVX512,
			maskOblivious6Columns256Sum32AVX512,
		},
		double: [3]maskFunc[float64]{
			maskOblivious6Columns64Sum64AVX512,
			maskOblivious6Columns128Sum64AVX512,
			maskOblivious6Columns256Sum64AVX512,
		},
	},
	"mask oblivious 8": {
		single: [3]maskFunc[float32]{
			maskOblivious8Columns64Sum32AVX512,
			maskOblivious8Columns128Sum32AVX512,
			maskOblivious8Columns256Sum32AVX512,
		},
		double: [3]maskFunc[float64]{
			maskOblivious8Columns64Sum64AVX512,
			maskOblivious8Columns128Sum64AVX512,
			maskOblivious8Columns256Sum64AVX512,
		},
	},
	"mask depth 6": {
		single: [3]maskFunc[float32]{
			maskDepth6Columns64Sum32AVX512,
			maskDepth6Columns128Sum32AVX512,
			maskDepth6Columns256Sum32AVX512,
		},
		double: [3]maskFunc[float64]{
			maskDepth6Columns64Sum64AVX512,
			maskDepth6Columns128Sum64AVX512,
			maskDepth6Columns256Sum64AVX512,
		},
	},
	"mask depth 7": {
		single: [3]maskFunc[float32]{
			maskDepth7Columns64Sum32AVX512,
			maskDepth7Columns128Sum32AVX512,
			maskDepth7Columns256Sum32AVX512,
		},
		double: [3]maskFunc[float64]{
			maskDepth7Columns64Sum64AVX512,
			maskDepth7Columns128Sum64AVX512,
			maskDepth7Columns256Sum64AVX512,
		},
	},
	"mask depth 8": {
		single: [3]maskFunc[float32]{
			maskDepth8Columns64Sum32AVX512,
			maskDepth8Columns128Sum32AVX512,
			maskDepth8Columns256Sum32AVX512,
		},
		double: [3]maskFunc[float64]{
			maskDepth8Columns64Sum64AVX512,
			maskDepth8Columns128Sum64AVX512,
			maskDepth8Columns256Sum64AVX512,
		},
	},
	"mask leaves 32": {
		single: [3]maskFunc[float32]{
			maskLeaves32Columns64Sum32AVX512,
			maskLeaves32Columns128Sum32AVX512,
			maskLeaves32Columns256Sum32AVX512,
		},
		double: [3]maskFunc[float64]{
			maskLeaves32Columns64Sum64AVX512,
			maskLeaves32Columns128Sum64AVX512,
			maskLeaves32Columns256Sum64AVX512,
		},
	},
	"mask leaves 64": {
		single: [3]maskFunc[float32]{
			maskLeaves64Columns64Sum32AVX512,
			maskLeaves64Columns128Sum32AVX512,
			maskLeaves64Columns256Sum32AVX512,
		},
		double: [3]maskFunc[float64]{
			maskLeaves64Columns64Sum64AVX512,
			maskLeaves64Columns128Sum64AVX512,
			maskLeaves64Columns256Sum64AVX512,
		},
	},
}

// maskKernels256 are for 32, 64 and 128 columns.
var maskKernels256 = map[string]maskKernels{
	"mask oblivious 6": {
		single: [3]maskFunc[float32]{
			maskOblivious6Columns32Sum32AVX2,
			maskOblivious6Columns64Sum32AVX2,
			maskOblivious6Columns128Sum32AVX2,
		},
		double: [3]maskFunc[float64]{
			maskOblivious6Columns32Sum64AVX2,
			maskOblivious6Columns64Sum64AVX2,
			maskOblivious6Columns128Sum64AVX2,
		},
	},
	"mask oblivious 8": {
		single: [3]maskFunc[float32]{
			maskOblivious8Columns32Sum32AVX2,
			maskOblivious8Columns64Sum32AVX2,
			maskOblivious8Columns128Sum32AVX2,
		},
		double: [3]maskFunc[float64]{
			maskOblivious8Columns32Sum64AVX2,
			maskOblivious8Columns64Sum64AVX2,
			maskOblivious8Columns128Sum64AVX2,
		},
	},
	"mask depth 6": {
		single: [3]maskFunc[float32]{
			maskDepth6Columns32Sum32AVX2,
			maskDepth6Columns64Sum32AVX2,
			maskDepth6Columns128Sum32AVX2,
		},
		double: [3]maskFunc[float64]{
			maskDepth6Columns32Sum64AVX2,
			maskDepth6Columns64Sum64AVX2,
			maskDepth6Columns128Sum64AVX2,
		},
	},
	"mask depth 7": {
		single: [3]maskFunc[float32]{
			maskDepth7Columns32Sum32AVX2,
			maskDepth7Columns64Sum32AVX2,
			maskDepth7Columns128Sum32AVX2,
		},
		double: [3]maskFunc[float64]{
			maskDepth7Columns32Sum64AVX2,
			maskDepth7Columns64Sum64AVX2,
			maskDepth7Columns128Sum64AVX2,
		},
	},
	"mask depth 8": {
		single: [3]maskFunc[float32]{
			maskDepth8Columns32Sum32AVX2,
			maskDepth8Columns64Sum32AVX2,
			maskDepth8Columns128Sum32AVX2,
		},
		double: [3]maskFunc[float64]{
			maskDepth8Columns32Sum64AVX2,
			maskDepth8Columns64Sum64AVX2,
			maskDepth8Columns128Sum64AVX2,
		},
	},
	"mask leaves 32": {
		single: [3]maskFunc[float32]{
			maskLeaves32Columns32Sum32AVX2,
			maskLeaves32Columns64Sum32AVX2,
			maskLeaves32Columns128Sum32AVX2,
		},
		double: [3]maskFunc[float64]{
			maskLeaves32Columns32Sum64AVX2,
			maskLeaves32Columns64Sum64AVX2,
			maskLeaves32Columns128Sum64AVX2,
		},
	},
	"mask leaves 64": {
		single: [3]maskFunc[float32]{
			maskLeaves64Columns32Sum32AVX2,
			maskLeaves64Columns64Sum32AVX2,
			maskLeaves64Columns128Sum32AVX2,
		},
		double: [3]maskFunc[float64]{
			maskLeaves64Columns32Sum64AVX2,
			maskLeaves64Columns64Sum64AVX2,
			maskLeaves64Columns128Sum64AVX2,
		},
	},
}

// sliceKernel gives the kernel for perfect or oblivious trees of that depth and the rows that it computes together; nil
// if the level has none.
func sliceKernel[S float](level isa.Level, depth int, oblivious bool) (sliceFunc[S], int) {
	at, of, lanes := depth-minSliceDepth, &sliceKernels512, 64
	switch {
	case at < 0 || depth > maxSliceDepth || level < isa.AVX2:
		return nil, 0
	case level == isa.AVX2:
		of, lanes = &sliceKernels256, 32
	}
	k := of[b2i(oblivious)]
	return ofType[sliceFunc[S]](k.single[at], k.double[at]), lanes
}

// sliceKernels are the kernels by depth.
type sliceKernels struct {
	single [maxSliceDepth - minSliceDepth + 1]sliceFunc[float32]
	double [maxSliceDepth - minSliceDepth + 1]sliceFunc[float64]
}

// sliceKernels512 are for perfect trees and for oblivious ones.
var sliceKernels512 = [2]sliceKernels{
	{
		single: [...]sliceFunc[float32]{
			sliceDepth3Sum32AVX512,
			sliceDepth4Sum32AVX512,
			sliceDepth5Sum32AVX512,
			sliceDepth6Sum32AVX512,
		},
		double: [...]sliceFunc[float64]{
			sliceDepth3Sum64AVX512,
			sliceDepth4Sum64AVX512,
			sliceDepth5Sum64AVX512,
			sliceDepth6Sum64AVX512,
		},
	},
	{
		single: [...]sliceFunc[float32]{
			sliceObliviousDepth3Sum32AVX512,
			sliceObliviousDepth4Sum32AVX512,
			sliceObliviousDepth5Sum32AVX512,
			sliceObliviousDepth6Sum32AVX512,
		},
		double: [...]sliceFunc[float64]{
			sliceObliviousDepth3Sum64AVX512,
			sliceObliviousDepth4Sum64AVX512,
			sliceObliviousDepth5Sum64AVX512,
			sliceObliviousDepth6Sum64AVX512,
		},
	},
}

// sliceKernels256 are for perfect trees and for oblivious ones.
var sliceKernels256 = [2]sliceKernels{
	{
		single: [...]sliceFunc[float32]{
			sliceDepth3Sum32AVX2,
			sliceDepth4Sum32AVX2,
			sliceDepth5Sum32AVX2,
			sliceDepth6Sum32AVX2,
		},
		double: [...]sliceFunc[float64]{
			sliceDepth3Sum64AVX2,
			sliceDepth4Sum64AVX2,
			sliceDepth5Sum64AVX2,
			sliceDepth6Sum64AVX2,
		},
	},
	{
		single: [...]sliceFunc[float32]{
			sliceObliviousDepth3Sum32AVX2,
			sliceObliviousDepth4Sum32AVX2,
			sliceObliviousDepth5Sum32AVX2,
			sliceObliviousDepth6Sum32AVX2,
		},
		double: [...]sliceFunc[float64]{
			sliceObliviousDepth3Sum64AVX2,
			sliceObliviousDepth4Sum64AVX2,
			sliceObliviousDepth5Sum64AVX2,
			sliceObliviousDepth6Sum64AVX2,
		},
	},
}

// sliceLeavesKernel gives the kernel for trees with that many leaves, the rows that it computes together and the leaves
// that it pads trees to; nil if the level has none.
func sliceLeavesKernel[S float](level isa.Level, leaves int) (sliceFunc[S], int, int) {
	of, lanes := &sliceLeavesKernels512, 64
	if level == isa.AVX2 {
		of, lanes = &sliceLeavesKernels256, 32
	}
	for i, most := range [...]int{32, 64, 256} {
		if level >= isa.AVX2 && leaves <= most {
			return ofType[sliceFunc[S]](of.single[i], of.double[i]), lanes, most
		}
	}
	return nil, 0, 0
}

// sliceLeavesKernels are the kernels for 32, 64 and 256 leaves.
type sliceLeavesKernels struct {
	single [3]sliceFunc[float32]
	double [3]sliceFunc[float64]
}

var sliceLeavesKernels512 = sliceLeavesKernels{
	single: [3]sliceFunc[float32]{sliceLeaves32Sum32AVX512, sliceLeaves64Sum32AVX512, sliceLeaves256Sum32AVX512},
	double: [3]sliceFunc[float64]{sliceLeaves32Sum64AVX512, sliceLeaves64Sum64AVX512, sliceLeaves256Sum64AVX512},
}

var sliceLeavesKernels256 = sliceLeavesKernels{
	single: [3]sliceFunc[float32]{sliceLeaves32Sum32AVX2, sliceLeaves64Sum32AVX2, sliceLeaves256Sum32AVX2},
	double: [3]sliceFunc[float64]{sliceLeaves32Sum64AVX2, sliceLeaves64Sum64AVX2, sliceLeaves256Sum64AVX2},
}
