//go:build !linux

package state

// networkFileSystem is not known here.
func networkFileSystem(string) string { return "" }
