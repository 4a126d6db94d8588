//go:build !amd64 || purego || noasm

package pool

// pause tells the core that this is a loop that waits, where that is known.
func pause() {}
