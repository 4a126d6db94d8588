//go:build race

package kernel

// spinLoads is short under the race detector, where a load costs fifty times
// as much.
const spinLoads = 200
