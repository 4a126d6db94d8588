//go:build !amd64 || purego || noasm

package gbdt

import "weir/engine/kernel/isa"

// ranking gives the level's function for the ranks of plain columns.
func ranking[X float](isa.Level) rankFunc[X] { return rankPortable[X] }

// maskKernel gives the kernel of a layout and the tables that it looks columns up in; nil if the level has none.
func maskKernel[S float](isa.Level, maskLayout, int) (maskFunc[S], int) { return nil, 0 }

// sliceKernel gives the kernel for perfect or oblivious trees of that depth and the rows that it computes together; nil
// if the level has none.
func sliceKernel[S float](isa.Level, int, bool) (sliceFunc[S], int) { return nil, 0 }

// sliceLeavesKernel gives the kernel for trees with that many leaves, the rows that it computes together and the leaves
// that it pads trees to; nil if the level has none.
func sliceLeavesKernel[S float](isa.Level, int) (sliceFunc[S], int, int) { return nil, 0, 0 }
