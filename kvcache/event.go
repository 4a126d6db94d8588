package kvcache

// EventKind says what an Event reports.
type EventKind uint8

// The kinds of events.
const (
	// Stored: a block with this hash is in the cache from now on.
	Stored EventKind = iota
	// Removed: the block with this hash is in the cache no longer.
	Removed
	// Cleared: the reader must forget all blocks; a Stored event for each
	// published block follows. Cleared takes the place of events that were dropped
	// because they were not drained in time.
	Cleared
)

// Event tells an index of cached prefixes, such as a router's, what changed.
type Event struct {
	Kind   EventKind
	Hash   Hash
	Parent Hash // of the block before; zero at the start of a sequence
}

// eventLog is a bounded buffer of events. One that overflows is replaced by a
// listing of the cache when it is next drained.
type eventLog struct {
	events   []Event
	overflow bool
}

func (l *eventLog) open(blocks int) { l.events = make([]Event, 0, max(1024, blocks)) }

func (l *eventLog) add(e Event) {
	if len(l.events) == cap(l.events) {
		l.overflow = true
		return
	}
	l.events = append(l.events, e)
}

// DrainEvents calls yield for every event since the last call, in order. It
// reports nothing unless Config.Events is set.
func (p *Pool) DrainEvents(yield func(Event)) {
	if p.log.overflow {
		p.listCache(yield)
	} else {
		for _, e := range p.log.events {
			yield(e)
		}
	}
	p.log.events, p.log.overflow = p.log.events[:0], false
}

// Relist makes the next DrainEvents report the whole cache in place of what changed, for
// a reader that has missed events.
func (p *Pool) Relist() { p.log.overflow = p.config.Events }

// listCache reports the whole cache.
func (p *Pool) listCache(yield func(Event)) {
	yield(Event{Kind: Cleared})
	for i := range p.blocks {
		if m := &p.blocks[i]; m.published && p.bandOf(BlockID(i)) == 0 {
			yield(Event{Kind: Stored, Hash: m.hash, Parent: p.blocks[m.parent].hash})
		}
	}
}
