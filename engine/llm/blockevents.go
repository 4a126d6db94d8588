package llm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"weir/internal/inference"
	"weir/kvcache"
)

// BlockEvents are changes of the prefix cache in their order, numbered from First on.
// Numbers begin at 1 with the engine, which has an Epoch of its own.
type BlockEvents struct {
	Epoch  uint64
	First  uint64
	Events []kvcache.Event
}

// blockLog keeps the latest changes of the prefix cache for readers that come back for
// more. The step loop appends, any goroutine reads.
type blockLog struct {
	epoch uint64

	mu      sync.Mutex
	ring    []kvcache.Event // at number modulo its length
	next    uint64          // number of the next event
	cleared uint64          // number of the last Cleared; 0 is none
	news    chan struct{}   // closed with the next event
}

// newBlockLog has room for a listing of all blocks and as many changes.
func newBlockLog(blocks int) *blockLog {
	var epoch [8]byte
	_, _ = rand.Read(epoch[:]) // never returns an error
	return &blockLog{
		epoch: max(binary.LittleEndian.Uint64(epoch[:])>>1, 1), ring: make([]kvcache.Event, max(1024, 2*blocks)),
		next: 1, news: make(chan struct{}),
	}
}

// take moves the events of a pool into the log.
func (b *blockLog) take(p *kvcache.Pool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.next
	p.DrainEvents(b.add)
	if b.next != before {
		close(b.news)
		b.news = make(chan struct{})
	}
}

func (b *blockLog) add(e kvcache.Event) {
	if e.Kind == kvcache.Cleared {
		b.cleared = b.next
	}
	b.ring[b.next%uint64(len(b.ring))] = e
	b.next++
}

// begin notes that the cache is empty: its pool was made again.
func (b *blockLog) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(kvcache.Event{Kind: kvcache.Cleared})
}

// after is what a reader lacks that has all up to a number of an epoch; ok is false where
// the log has lost what it lacks.
func (b *blockLog) after(epoch, seq uint64, most int) (e BlockEvents, news <-chan struct{}, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	oldest := max(1, b.next-min(b.next, uint64(len(b.ring))))
	from := seq + 1
	if epoch != b.epoch || from < oldest || from > b.next {
		if from = b.cleared; from < oldest {
			return e, nil, false
		}
	}
	e = BlockEvents{Epoch: b.epoch, First: from}
	for n := from; n < b.next && len(e.Events) < most; n++ {
		e.Events = append(e.Events, b.ring[n%uint64(len(b.ring))])
	}
	return e, b.news, true
}

// BlockEvents are at most so many changes of the prefix cache after a number of an epoch, or, to a
// reader that has another epoch or has missed events, what begins with Cleared. It waits for the first
// one until ctx ends, and then has none. Without Options.BlockEvents, and on an engine that
// takes no requests, the error wraps inference.ErrUnavailable.
func (e *Engine) BlockEvents(ctx context.Context, epoch, seq uint64, most int) (BlockEvents, error) {
	if e.blocks == nil {
		return BlockEvents{}, fmt.Errorf("%w: it keeps no log of its prefix cache's changes", inference.ErrUnavailable)
	}
	for {
		found, news, ok := e.blocks.after(epoch, seq, most)
		if !ok {
			if err := e.relist(ctx); err != nil {
				return BlockEvents{}, err
			}
			continue
		}
		if len(found.Events) > 0 {
			return found, nil
		}
		select {
		case <-news:
		case <-e.inbox.stopped:
			return found, nil
		case <-ctx.Done():
			return found, nil
		}
	}
}

// relistTimeout bounds the wait for the step under way, which a reader that does not wait
// for news waits for, too.
const relistTimeout = 30 * time.Second

// relist has the step loop put the whole cache into the log.
func (e *Engine) relist(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relistTimeout)
	defer cancel()
	return e.ask(ctx, listing, func() {
		e.pool.Relist()
		e.blocks.take(e.pool)
	})
}
