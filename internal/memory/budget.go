// Package memory bounds the memory that requests and answers take together: one budget for the bodies of clients' requests and for the
// answers of other servers, whoever sends them.
package memory

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// smallBytes is the largest buffer that may take the budget's last quarter.
const smallBytes = 64 << 10

// Budget is the memory that bodies may hold together. nil has no bound.
// A body for which no memory is left is refused and does not wait, unless it has Share.Patience: bodies that
// have half arrived would keep their memory and wait for one another. The last
// quarter is reserved for small bodies, so that uploads cannot block chats.
//
// Large buffers count until the garbage collector has freed them, since until then they are resident. Where
// only freed buffers stand in a body's way, the budget has them collected.
type Budget struct {
	total   int64
	used    atomic.Int64 // by bodies that arrive or are being understood
	garbage atomic.Int64 // of large buffers that were given back and that the collector has not freed

	waiting    sync.Mutex // held by the one share that waits for room
	collecting sync.Mutex
	collected  time.Time     // the last time
	live       int64         // garbage that it found to be in use still, such as a body that a client is slow to read
	freed      chan struct{} // holds a value when garbage has become less
}

// New is a budget of total bytes.
func New(total int64) *Budget { return &Budget{total: total, freed: make(chan struct{}, 1)} }

// Used is how much bodies hold that arrive or are being understood.
func (b *Budget) Used() int64 { return b.used.Load() }

// Resident is Used and what was given back and is not collected yet.
func (b *Budget) Resident() int64 { return b.used.Load() + b.garbage.Load() }

// limit is how much of the budget may be used once a buffer of n bytes is.
func (b *Budget) limit(n int64) int64 {
	if n > smallBytes {
		return b.total - b.total/4
	}
	return b.total
}

// take gives a buffer of n bytes; false where the budget has no room for it.
func (b *Budget) take(n int64) ([]byte, bool) {
	limit := b.limit(n)
	for try := 0; ; try++ {
		used := b.used.Add(n)
		if used+b.garbage.Load() <= limit {
			return b.buffer(n), true
		}
		b.used.Add(-n)
		if used > limit || try > 0 {
			return nil, false
		}
		b.collect(limit - used)
	}
}

// buffer allocates n bytes that count until they are collected, once give has been told of them.
func (b *Budget) buffer(n int64) []byte {
	p := make([]byte, n)
	if n > smallBytes {
		runtime.AddCleanup(&p[0], func(n int64) {
			b.garbage.Add(-n)
			select {
			case b.freed <- struct{}{}:
			default:
			}
		}, n)
	}
	return p
}

// give takes back n bytes, of which large are in large buffers.
func (b *Budget) give(n, large int64) {
	b.garbage.Add(large)
	b.used.Add(-n)
}

const (
	collectTime = 100 * time.Millisecond // bounds how long a body waits for buffers that the collector has found dead to be counted as free
	liveTime    = time.Second            // for how long what a collection has found to be in use is taken to be so
)

// collect has the garbage collector free buffers until at most most bytes of garbage are left, or nothing more can be done.
// Bodies that need it at the same time share one collection.
func (b *Budget) collect(most int64) {
	b.collecting.Lock()
	defer b.collecting.Unlock()
	if b.garbage.Load() <= most || b.live > most && time.Since(b.collected) < liveTime {
		return
	}
	runtime.GC()
	enough := time.NewTimer(collectTime)
	defer enough.Stop()
	for timely := true; timely && b.garbage.Load() > most; {
		select {
		case <-b.freed:
		case <-enough.C:
			timely = false
		}
	}
	b.collected, b.live = time.Now(), b.garbage.Load()
}
