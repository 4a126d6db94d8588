// Package kernel is everything that computes: weight formats and their
// decoding, matrix products, normalisation, rotary positions, gated
// activations, the paged key/value store and attention over it.
//
// CPU is one engine's share of a worker pool, with scratch of its own. Its operations take rows
// that belong to different sequences together; each row's result is computed
// in a fixed order of operations that depends on that row alone, never on
// which rows share the call, how many workers run or how the KV store is cut
// into blocks. The engine's promise "same answer whatever the batch" rests on
// this and is tested here bit by bit.
package kernel
