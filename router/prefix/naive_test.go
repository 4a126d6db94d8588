package prefix

import (
	"math"
	"time"
)

// naive is what the index is meant to do, written with maps and scans: for each replica its keys, and when each was
// last used.
type naive struct{ replicas []naiveReplica }

type naiveReplica struct {
	limit   int
	entries map[Key]*naiveEntry
	uses    int
	pending []naivePending // speculative entries, in the order in which they were noted

	fed        bool
	epoch, seq uint64
}

type naivePending struct {
	key Key
	at  time.Duration
}

type naiveEntry struct {
	parent Key
	child  int
	used   int
	until  time.Duration // 0 is confirmed
	gap    bool
}

func newNaive(replicas, limit int) *naive {
	n := &naive{replicas: make([]naiveReplica, replicas)}
	for r := range n.replicas {
		n.replicas[r] = naiveReplica{limit: limit, entries: make(map[Key]*naiveEntry)}
	}
	return n
}

func (r *naiveReplica) holds(k Key) bool {
	e := r.entries[k]
	return e != nil && !e.gap
}

func (r *naiveReplica) depth(keys []Key) int {
	for i, k := range keys {
		if !r.holds(k) {
			return i
		}
	}
	return len(keys)
}

func (r *naiveReplica) adopt(parent, child Key) {
	r.entries[parent].child++
	r.entries[child].parent = parent
}

// add makes k held after parent (the zero key: none).
func (r *naiveReplica) add(k, parent Key, until time.Duration) {
	e := r.entries[k]
	if e == nil {
		e = &naiveEntry{until: until, used: r.uses + 1}
		r.entries[k] = e
	}
	e.gap = false
	if parent == (Key{}) || e.parent != (Key{}) {
		return
	}
	for up := parent; up != (Key{}); up = r.entries[up].parent {
		if up == k {
			return
		}
	}
	r.adopt(parent, k)
}

func (r *naiveReplica) touch(k Key) {
	r.uses++
	r.entries[k].used = r.uses
}

func (r *naiveReplica) remove(k Key) {
	e := r.entries[k]
	delete(r.entries, k)
	up := r.entries[e.parent]
	if up == nil {
		return
	}
	if up.child--; up.child > 0 {
		return
	}
	up.used = max(up.used, e.used)
	if up.gap {
		r.remove(e.parent)
	}
}

func (r *naiveReplica) take(k Key) {
	switch {
	case !r.holds(k):
	case r.entries[k].child > 0:
		r.entries[k].gap, r.entries[k].until = true, 0
	default:
		r.remove(k)
	}
}

func (r *naiveReplica) evict() {
	for len(r.entries) > r.limit {
		oldest, used := Key{}, math.MaxInt
		for k, e := range r.entries {
			if e.child == 0 && e.used < used {
				oldest, used = k, e.used
			}
		}
		r.remove(oldest)
	}
}

func (r *naiveReplica) confirm(k Key) {
	for e := r.entries[k]; e != nil && e.until != 0; e = r.entries[e.parent] {
		e.until = 0
	}
}

func (r *naiveReplica) expire(now time.Duration) {
	for len(r.pending) > 0 && r.pending[0].at <= now {
		k := r.pending[0].key
		r.pending = r.pending[1:]
		for {
			e := r.entries[k]
			if e == nil || e.gap || e.until == 0 || e.child > 0 {
				break
			}
			if e.until > now {
				r.pending = append(r.pending, naivePending{k, e.until})
				break
			}
			r.remove(k)
			k = e.parent
		}
	}
}

func (r *naiveReplica) put(keys []Key, now, until time.Duration) {
	r.expire(now)
	keys = keys[:min(len(keys), r.limit)]
	if len(keys) == 0 {
		return
	}
	parent := Key{}
	d := r.depth(keys)
	if d > 0 {
		parent = keys[d-1]
	}
	for _, k := range keys[d:] {
		r.add(k, parent, until)
		parent = k
	}
	switch e := r.entries[parent]; {
	case until == 0:
		r.confirm(parent)
	case d < len(keys):
		r.pending = append(r.pending, naivePending{parent, until})
	case e.until != 0:
		e.until = max(e.until, until)
	}
	r.touch(parent)
	r.evict()
}

func (r *naiveReplica) clear() {
	r.entries, r.pending = make(map[Key]*naiveEntry), nil
}

// apply reports whether events are missing.
func (r *naiveReplica) apply(e Event) bool {
	if !r.fed || r.epoch != e.Epoch {
		if r.fed || e.Kind == Cleared {
			r.clear()
		}
		r.fed, r.epoch, r.seq = true, e.Epoch, 0
	}
	switch {
	case e.Seq <= r.seq:
		return false
	case e.Kind == Cleared:
		r.clear()
	case e.Seq != r.seq+1:
		return true
	case e.Kind == Removed:
		r.take(e.Key)
	default:
		if e.Parent != (Key{}) && e.Parent != e.Key && r.entries[e.Parent] == nil {
			r.entries[e.Parent] = &naiveEntry{gap: true, used: r.uses + 1}
		}
		parent := e.Parent
		if parent == e.Key {
			parent = Key{}
		}
		r.add(e.Key, parent, 0)
		r.entries[e.Key].until = 0
		r.touch(e.Key)
		r.evict()
	}
	r.seq = e.Seq
	return false
}

// lookup is the set of the deepest matches: all replicas by depth.
func (n *naive) lookup(keys []Key) map[Replica]int {
	found := make(map[Replica]int)
	for r := range n.replicas {
		if d := n.replicas[r].depth(keys); d > 0 {
			found[Replica(r)] = d
		}
	}
	return found
}
