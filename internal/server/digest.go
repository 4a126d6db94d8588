package server

import (
	"crypto/rand"
	"sync"
)

// digestKey keys the digests that reports have of what rules found: within a process
// equal texts have equal digests; without the key a reader of a report cannot test guesses against them.
var digestKey = sync.OnceValue(func() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return key
})
