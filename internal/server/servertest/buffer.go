package servertest

import (
	"bytes"
	"sync"
	"time"
)

// Buffer is written by the server and read by the test.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Patience is how long anything may take before a test gives up.
const Patience = 2 * time.Minute
