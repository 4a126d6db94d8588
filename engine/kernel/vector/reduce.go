package vector

import (
	"math"

	"weir/engine/kernel/isa"
)

// The reductions that sampling needs of a row of logits, or of weights made of
// logits, at a level. Rows are taken in blocks of ReduceBlock elements, the last of which
// may be short; a result has one element for each block, so that a caller may
// skip or revisit blocks. A result depends on the row and the level alone, and
// levels differ in the last bits of exponentials and of sums. None allocates.

// ReduceBlock is how many elements of a row share one element of a result.
const ReduceBlock = 512

// ReduceBlocks is the number of blocks in a row of n elements.
func ReduceBlocks(n int) int { return (n + ReduceBlock - 1) / ReduceBlock }

// Part describes the elements of a row that are at least some bound, and
// where the others begin.
type Part struct {
	Count  int     // of the elements
	Lowest float32 // of the elements; infinity of none
	Below  float32 // the highest of the others; 0 of none
}

// BlockMaxima writes the highest number of each block of x to dst; -Inf where
// all are NaN.
func BlockMaxima(level isa.Level, dst, x []float32) {
	blockMaxima(level, dst[:ReduceBlocks(len(x))], x)
}

// BlockExpSums writes the sum of exp((x[i]-top)/t) over each block of x to
// dst. What is not a number counts as 0.
func BlockExpSums(level isa.Level, dst []float64, x []float32, top, t float32) {
	blockExpSums(level, dst[:ReduceBlocks(len(x))], x, top, t)
}

// BlockWeights is BlockExpSums that leaves the exponentials in x, each the
// same at whatever index it stands.
func BlockWeights(level isa.Level, dst []float64, x []float32, top, t float32) {
	blockWeights(level, dst[:ReduceBlocks(len(x))], x, top, t)
}

// BlockSums writes the sum of the elements at least as high as least to dst,
// block by block. All of x is >= 0, and least is above 0.
func BlockSums(level isa.Level, dst []float64, x []float32, least float32) Part {
	count, lowest, below := blockSums(level, dst[:ReduceBlocks(len(x))], x, least)
	return Part{count, lowest, below}
}

// FindRoom is how long a list of indices must be to take those of n elements.
func FindRoom(n int) int { return n + 15 }

// Find lists the i with lo <= x[i] <= hi in rising order in dst, which is
// FindRoom(len(x)) long, and returns how many they are.
func Find(level isa.Level, dst []int32, x []float32, lo, hi float32) int {
	return find(level, dst[:FindRoom(len(x))], x, lo, hi)
}

// The same in plain Go, one function for each kernel of asm/reduce.go.

func blockMaximaPortable(dst, x []float32) {
	for b := range dst {
		dst[b] = maximumPortable(blockOf(x, b))
	}
}

func blockExpSumsPortable(dst []float64, x []float32, top, t float32) {
	for b := range dst {
		sum := 0.0
		for _, v := range blockOf(x, b) {
			sum += float64(weight(v, top, t))
		}
		dst[b] = sum
	}
}

func blockWeightsPortable(dst []float64, x []float32, top, t float32) {
	for b := range dst {
		sum, block := 0.0, blockOf(x, b)
		for i, v := range block {
			block[i] = weight(v, top, t)
			sum += float64(block[i])
		}
		dst[b] = sum
	}
}

// weight is exp((x-top)/t), 0 where that is not a number.
func weight(x, top, t float32) float32 {
	if v := (x - top) / t; v == v {
		return Exp(v)
	}
	return 0
}

// blockSumsPortable compares bits as integers, whose order is that of floats
// from 0 up, so that it has no branch to guess.
func blockSumsPortable(dst []float64, x []float32, least float32) (count int, lowest, below float32) {
	low, high, bound := math.Float32bits(float32(math.Inf(1))), uint32(0), int32(math.Float32bits(least))
	for b := range dst {
		sum, n := 0.0, int32(0)
		for _, v := range blockOf(x, b) {
			bits := math.Float32bits(v)
			rest := uint32((int32(bits) - bound) >> 31) // all ones below the bound
			n += 1 + int32(rest)
			sum += float64(math.Float32frombits(bits &^ rest))
			low = min(low, bits|rest)
			high = max(high, bits&rest)
		}
		dst[b] = sum
		count += int(n)
	}
	return count, math.Float32frombits(low), math.Float32frombits(high)
}

func findPortable(dst []int32, x []float32, lo, hi float32) int {
	found := 0
	for i, v := range x {
		if v >= lo && v <= hi {
			dst[found] = int32(i)
			found++
		}
	}
	return found
}

// blockOf is block b of x.
func blockOf(x []float32, b int) []float32 {
	return x[b*ReduceBlock : min((b+1)*ReduceBlock, len(x))]
}
