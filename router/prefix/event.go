package prefix

import "fmt"

// EventKind says what an event reports.
type EventKind uint8

// The kinds of events, as kvcache has them.
const (
	// Stored: the replica holds the key from now on.
	Stored EventKind = iota
	// Removed: it holds the key no longer.
	Removed
	// Cleared: it holds nothing but what Stored events after this one list.
	Cleared
)

// Event is a change of what a replica holds, told by itself.
type Event struct {
	Epoch  uint64 // of the replica's process: another one after each start
	Seq    uint64 // counts the events of an epoch, from 1
	Kind   EventKind
	Key    Key
	Parent Key // the key before it; zero at the start of a chain

	// Partial, of Cleared: the replica may hold more than it tells, from before. Until it starts over, what it was given counts, too (Confirm).
	Partial bool
}

// GapError says that events of a replica are missing. Nothing was changed. The events after After of that epoch must be
// fetched, or everything, which begins with Cleared.
type GapError struct {
	Replica    Replica
	Epoch      uint64
	After, Got uint64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("events of replica %d: number %d came after %d: fetch epoch=%d&after=%d", e.Replica, e.Got, e.After, e.Epoch, e.After)
}

// Cursor is the last event of a replica that was applied: what to ask the replica for is what comes after it. An epoch of 0 is none.
func (ix *Index) Cursor(r Replica) (epoch, seq uint64) {
	h := ix.lock(r)
	defer h.mu.Unlock()
	return h.epoch, h.seq
}

// Apply takes in an event of a replica. Events that were applied before and removals of what is not held change nothing. An event
// of another epoch means that the replica started over: all that it held is dropped first. Where events are missing, the error is a
// *GapError.
func (ix *Index) Apply(r Replica, e Event) error {
	h := ix.lock(r)
	defer h.mu.Unlock()
	defer ix.count(h, h.gaps)
	if !h.fed || h.epoch != e.Epoch {
		// What the router thought that the replica held is as it was for a first epoch, and gone after a restart.
		if h.fed || e.Kind == Cleared {
			h.clear()
		}
		h.fed, h.partial, h.epoch, h.seq = true, false, e.Epoch, 0
	}
	switch {
	case e.Kind == Cleared:
		if e.Seq <= h.seq && h.seq > 0 {
			return nil
		}
		h.clear()
		h.partial = e.Partial
	case e.Seq <= h.seq:
		return nil
	case e.Seq != h.seq+1:
		return &GapError{Replica: r, Epoch: h.epoch, After: h.seq, Got: e.Seq}
	case e.Kind == Removed:
		h.take(&e.Key)
	case e.Kind == Stored:
		h.store(&e.Key, &e.Parent)
		h.evict(h.limit)
	default:
		return fmt.Errorf("events of replica %d: number %d is of unknown kind %d, want 0 to %d", r, e.Seq, e.Kind, Cleared)
	}
	h.seq = e.Seq
	return nil
}

// store makes a key held, unless there is no room for its node. Its parent may not be known yet: then that is a gap until it comes.
func (h *holdings) store(k, parent *Key) {
	before := uint32(0)
	if *parent != (Key{}) && *parent != *k {
		before = h.create(parent, gap, 0)
	}
	e := h.add(k, before, 0)
	if before != 0 && h.at(before).state == gap && h.at(before).children == 0 {
		h.remove(before) // nothing came after it: there was no room, or the event's parent is none
	}
	if e != 0 {
		h.at(e).until = 0
		h.touch(e)
	}
}
