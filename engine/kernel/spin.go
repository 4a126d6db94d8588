//go:build !race

package kernel

// spinLoads is how many loads of the epoch a waiting worker does before it
// parks: some tens of microseconds, about the gap between two products of one
// step. Longer spinning steals the core from whoever else wants it.
const spinLoads = 20000
