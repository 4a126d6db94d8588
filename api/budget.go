package api

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// smallBodyBytes is the largest body that may take the budget's last quarter.
const smallBodyBytes = 64 << 10

// budget is the memory that request bodies of all connections may hold.
// A body for which no memory is left is refused and does not wait: bodies that
// have half arrived would keep their memory and wait for one another. The last
// quarter is reserved for small bodies, so that uploads cannot block chats.
//
// Large buffers count until the garbage collector has freed them, since until then they are resident. Where
// only freed buffers stand in a body's way, the budget has them collected.
type budget struct {
	total   int64
	used    atomic.Int64 // by bodies that arrive or are being understood
	garbage atomic.Int64 // of large buffers that no body needs and the collector has not freed

	collecting sync.Mutex
	freed      chan struct{} // holds a value when garbage has become less
}

func newBudget(total int64) *budget { return &budget{total: total, freed: make(chan struct{}, 1)} }

// take gives a buffer of n bytes; false where the budget has no room for it.
func (b *budget) take(n int) ([]byte, bool) {
	limit := b.total
	if n > smallBodyBytes {
		limit -= limit / 4
	}
	for try := 0; ; try++ {
		used := b.used.Add(int64(n))
		if used+b.garbage.Load() <= limit {
			return b.buffer(n), true
		}
		b.used.Add(-int64(n))
		if used > limit || try > 0 {
			return nil, false
		}
		b.collect(limit - used)
	}
}

// buffer allocates n bytes that count until they are collected, once give has been told of them.
func (b *budget) buffer(n int) []byte {
	p := make([]byte, n)
	if n > smallBodyBytes {
		runtime.AddCleanup(&p[0], func(n int64) {
			b.garbage.Add(-n)
			select {
			case b.freed <- struct{}{}:
			default:
			}
		}, int64(n))
	}
	return p
}

// give takes back what a body held: n bytes, of which large are in large buffers.
func (b *budget) give(n, large int64) {
	b.garbage.Add(large)
	b.used.Add(-n)
}

// collectTime bounds how long a body waits for buffers that the collector has found dead to be counted as free.
const collectTime = 100 * time.Millisecond

// collect has the garbage collector free buffers until at most most bytes of garbage are left, or nothing more can be done.
// Bodies that need it at the same time share one collection.
func (b *budget) collect(most int64) {
	b.collecting.Lock()
	defer b.collecting.Unlock()
	if b.garbage.Load() <= most {
		return
	}
	runtime.GC()
	enough := time.NewTimer(collectTime)
	defer enough.Stop()
	for b.garbage.Load() > most {
		select {
		case <-b.freed:
		case <-enough.C:
			return
		}
	}
}
