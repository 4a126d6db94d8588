//go:build !unix

package guard

import "testing"

// guarded is so many bytes; nothing faults behind them.
func guarded(_ testing.TB, size int) []byte { return make([]byte, size) }
