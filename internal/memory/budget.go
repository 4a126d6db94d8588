// Package memory bounds the memory that requests and answers take together: one budget for the bodies of clients' requests and for the
// answers of other servers, whichever server sends them.
package memory

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"
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

	waiting sync.Mutex // held by the one share that waits for room

	looking   sync.Mutex // held while buffers are looked through or collected
	buffers   []buffer   // the large ones that were not found freed
	collected time.Time  // the last time
	live      int64      // garbage that it found to be in use still, such as a body that a client is slow to read

	adding sync.Mutex
	added  []buffer // since the last look
}

// buffer is a large buffer of a budget. It does not keep the memory.
type buffer struct {
	start weak.Pointer[byte]
	bytes int64
}

// New is a budget of total bytes.
func New(total int64) *Budget { return &Budget{total: total} }

// Used is how much bodies hold that arrive or are being understood.
func (b *Budget) Used() int64 { return b.used.Load() }

// Resident is Used and what was given back and is not collected yet.
func (b *Budget) Resident() int64 {
	if b.looking.TryLock() {
		b.look()
		b.looking.Unlock()
	}
	return b.used.Load() + b.garbage.Load()
}

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
			return b.allocate(n), true
		}
		b.used.Add(-n)
		if used > limit || try > 0 {
			return nil, false
		}
		b.collect(limit - used)
	}
}

// allocate gives n bytes that count until they are collected, once give has been told of them.
func (b *Budget) allocate(n int64) []byte {
	p := make([]byte, n)
	if n > smallBytes {
		b.adding.Lock()
		b.added = append(b.added, buffer{weak.Make(&p[0]), n})
		many := len(b.added) > manyBuffers
		b.adding.Unlock()
		if many && b.looking.TryLock() {
			b.look()
			b.looking.Unlock()
		}
	}
	return p
}

// give takes back n bytes, of which large are in large buffers.
func (b *Budget) give(n, large int64) {
	b.garbage.Add(large)
	b.used.Add(-n)
}

// look counts the large buffers as free that the collector has freed. The caller holds looking.
func (b *Budget) look() {
	b.adding.Lock()
	b.buffers = append(b.buffers, b.added...)
	clear(b.added)
	b.added = b.added[:0]
	b.adding.Unlock()
	b.buffers = slices.DeleteFunc(b.buffers, func(p buffer) bool {
		freed := p.start.Value() == nil
		if freed {
			b.garbage.Add(-p.bytes)
		}
		return freed
	})
}

const (
	manyBuffers = 1 << 10     // after so many the freed ones among them are looked for, so that the list has an end
	liveTime    = time.Second // for how long what a collection has found to be in use is taken to be so
)

// collect has the garbage collector free buffers, where more than most bytes of garbage are left.
// Bodies that need it at the same time share one collection.
func (b *Budget) collect(most int64) {
	b.looking.Lock()
	defer b.looking.Unlock()
	b.look()
	if b.garbage.Load() <= most || b.live > most && time.Since(b.collected) < liveTime {
		return
	}
	runtime.GC()
	b.look() // a weak pointer is nil as soon as the collection is over; cleanups would run some time later
	b.collected, b.live = time.Now(), b.garbage.Load()
}
