// Package kernel is what an engine computes with. CPU joins the rooms below it:
// matrix products (weight), attention and its store (attend), operations on rows
// (vector), the threads that do the work (pool), and the levels of instructions
// that they are written for (isa).
//
// Operations take rows that belong to different sequences together; each row's
// result is computed in a fixed order of operations that depends on that row
// alone, never on which rows share the call, how many workers run or how the KV
// store is cut into blocks. The engine's promise "same answer whatever the
// batch" rests on this and is tested here bit by bit.
package kernel
