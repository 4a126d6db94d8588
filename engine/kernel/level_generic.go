//go:build !amd64 || purego || noasm

package kernel

// BestLevel is the fastest level that this machine can run.
func BestLevel() Level { return Portable }
