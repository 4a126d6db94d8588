//go:build !unix

package server

// openFilesLimit is not known: handles of Windows have no such limit.
func openFilesLimit() (n int, known bool) { return 0, false }
