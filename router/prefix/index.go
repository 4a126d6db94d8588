package prefix

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
)

// Config sizes an index. Zero fields get defaults.
type Config struct {
	Replicas        int   // most of them; default 256
	BytesPerReplica int64 // memory for the keys of one; default 32 MiB, about 400,000 keys
}

// Index knows which replicas hold which keys. It is safe for concurrent use.
type Index struct {
	shards   [shards]shard
	nodes    nodes
	holdings []holdings
	gapped   atomic.Int64 // gaps of all replicas
}

// New makes an empty index.
func New(c Config) (*Index, error) {
	if c.Replicas == 0 {
		c.Replicas = 256
	}
	if c.BytesPerReplica == 0 {
		c.BytesPerReplica = 32 << 20
	}
	if c.Replicas < 1 || c.Replicas > MaxReplicas {
		return nil, fmt.Errorf("prefix: an index of %d replicas, want 1 to %d", c.Replicas, MaxReplicas)
	}
	limit := c.BytesPerReplica / entryBytes
	if limit < 1 {
		return nil, fmt.Errorf("prefix: %d bytes for a replica's keys, want at least %d", c.BytesPerReplica, entryBytes)
	}
	ix := &Index{holdings: make([]holdings, c.Replicas)}
	ix.nodes.next = 1 // 0 is no place
	for i := range ix.shards {
		ix.shards[i].init(uint32(c.Replicas+63)/64, &ix.nodes)
	}
	for r := range ix.holdings {
		ix.holdings[r].init(Replica(r), &ix.shards, int(min(limit, 1<<30)))
	}
	return ix, nil
}

// Replicas is the number of replicas that the index has room for.
func (ix *Index) Replicas() int { return len(ix.holdings) }

// lock locks the holdings of a replica. A number that the index does not have is the caller's mistake.
func (ix *Index) lock(r Replica) *holdings {
	h := &ix.holdings[r]
	h.mu.Lock()
	return h
}

// Limit bounds the keys of a replica: to the blocks of its cache, where they are known.
func (ix *Index) Limit(r Replica, keys int) {
	h := ix.lock(r)
	defer h.mu.Unlock()
	defer ix.count(h, h.gaps)
	h.limit = max(keys, 1)
	h.evict(h.limit)
}

// Match is a replica and how many of the keys it holds.
type Match struct {
	Replica Replica
	Depth   int
}

// levels bounds how many different depths a lookup tells apart.
const levels = 4

// Lookup appends the replicas that hold the longest prefixes of keys, longest first, as far as there is room in dst. Where more
// replicas hold the same prefix than have room, salt decides which of them are given. It allocates nothing.
func (ix *Index) Lookup(dst []Match, keys []Key, salt uint32) []Match {
	if len(keys) == 0 || cap(dst) == len(dst) {
		return dst
	}
	if ix.gaps() {
		return ix.scan(dst, keys)
	}
	last := len(keys) - 1
	ix.warm(&keys[last])
	first := ix.node(&keys[0])
	if first == nil {
		return dst
	}
	all := min(holders(first.holders.Load()).count(), many)
	guess := min(int(first.fork.Load()), last)
	if guess > 0 {
		ix.warm(&keys[guess-1])
		ix.warm(&keys[guess])
	}
	depth := len(keys)
	if ix.countOf(&keys[last]) == 0 {
		depth = ix.end(keys, guess)
	}
	start := len(dst)
	for level := 0; ; level++ {
		p := ix.node(&keys[depth-1])
		if p == nil {
			return dst // it went meanwhile
		}
		here := holders(p.holders.Load())
		dst = ix.collect(dst, start, here, &keys[depth-1], depth, salt)
		n := min(here.count(), many)
		if len(dst) == cap(dst) || level+1 == levels || all <= n || depth == 1 {
			return dst
		}
		depth = ix.fork(keys, depth, n, p, first)
	}
}

// fork is deepest(keys, 1, limit, n), where limit is a node's depth. It asks first whether that is where it was the last time: for most
// chains it is, and for others it is where it was for the last chain with the same first key, since what forks off a chain is most
// often its system prompt.
func (ix *Index) fork(keys []Key, limit, n int, nodes ...*node) int {
	for _, p := range nodes {
		if guess := int(p.fork.Load()); guess > 0 && guess < limit {
			ix.warm(&keys[guess-1])
			if ix.countOf(&keys[guess]) <= n && ix.countOf(&keys[guess-1]) > n {
				return guess
			}
		}
	}
	depth := ix.deepest(keys, 1, limit, n)
	for _, p := range nodes {
		p.fork.Store(uint32(depth)) //nolint:gosec // a number of keys
	}
	return depth
}

// gaps says whether some replica's holdings are not prefix-closed.
func (ix *Index) gaps() bool { return ix.gapped.Load() > 0 }

// node is that of a key; nil when no replica holds it.
func (ix *Index) node(k *Key) *node {
	key := splitKey(k)
	return ix.shards[key.shard()].node(key)
}

// countOf is how many replicas hold a key, up to many.
func (ix *Index) countOf(k *Key) int {
	key := splitKey(k)
	return ix.shards[key.shard()].count(key)
}

func (ix *Index) warm(k *Key) {
	key := splitKey(k)
	ix.shards[key.shard()].warm(key)
}

// end is how many keys are held by any replica: the first is, and the last is not. It looks at guess, which ends a new conversation, and
// then in growing steps from the end, since most prompts are a conversation that has grown.
func (ix *Index) end(keys []Key, guess int) int {
	for back := 1; back < len(keys); back *= 2 {
		ix.warm(&keys[len(keys)-1-back])
	}
	if guess > 0 && ix.countOf(&keys[guess]) == 0 && ix.countOf(&keys[guess-1]) > 0 {
		return guess
	}
	high := len(keys)
	for back := 1; back < len(keys)-1; back *= 2 {
		low := len(keys) - back
		if ix.countOf(&keys[low-1]) > 0 {
			return ix.deepest(keys, low, high, 0)
		}
		high = low
	}
	return ix.deepest(keys, 1, high, 0)
}

// ways is in how many parts a range of depths is cut at a time: what lies in memory is waited for together.
const ways = 8

// deepest is the greatest depth below high whose key more than n replicas hold; those of the depth low are more than n.
func (ix *Index) deepest(keys []Key, low, high, n int) int {
	for high-low > 1 {
		step := (high - low + ways - 1) / ways
		for d := low + step; d < high; d += step {
			ix.warm(&keys[d-1])
		}
		for d := low + step; d < high; d += step {
			if ix.countOf(&keys[d-1]) <= n {
				high = d
				break
			}
			low = d
		}
	}
	return low
}

// collect appends those of a set of holders that are not in dst[start:].
func (ix *Index) collect(dst []Match, start int, set holders, k *Key, depth int, salt uint32) []Match {
	if !set.wide() {
		n := set.count()
		for i := range n {
			dst = include(dst, start, set.lane((i+int(salt%lanes))%n), depth)
		}
		return dst
	}
	s := &ix.shards[splitKey(k).shard()]
	from := salt % uint32(len(ix.holdings))
	for i := range s.words + 1 {
		w := (from/64 + i) % s.words
		word := s.wides.at(set.place()*s.words + w).Load()
		switch i { // the first word is read in two parts: from the start on, and at last what is before it
		case 0:
			word &= ^uint64(0) << (from % 64)
		case s.words:
			word &= 1<<(from%64) - 1
		}
		for ; word != 0; word &= word - 1 {
			if dst = include(dst, start, Replica(64*w)+Replica(bits.TrailingZeros64(word)), depth); len(dst) == cap(dst) {
				return dst
			}
		}
	}
	return dst
}

// include appends a match unless there is no room or the replica is in dst[start:].
func include(dst []Match, start int, r Replica, depth int) []Match {
	if len(dst) == cap(dst) {
		return dst
	}
	for i := range dst[start:] {
		if dst[start+i].Replica == r {
			return dst
		}
	}
	return append(dst, Match{r, depth})
}

// Depth is how many of the keys a replica holds.
func (ix *Index) Depth(r Replica, keys []Key) int {
	h := ix.lock(r)
	defer h.mu.Unlock()
	d, _ := h.depth(keys, 0)
	return d
}

// Put notes that a replica has been given a prompt. What it does not hold yet is speculative until the given time: Confirm or its
// events make it last, or Put renews it. guess is how many keys it is thought to hold, as Lookup said; a wrong one costs time
// only. It reports whether something is speculative: without it, Confirm would do nothing.
func (ix *Index) Put(r Replica, keys []Key, guess int, now, until time.Duration) (speculative bool) {
	return ix.put(r, keys, guess, now, max(millis(until), 1))
}

// Hold is Put of what a replica is known to hold.
func (ix *Index) Hold(r Replica, keys []Key, now time.Duration) { ix.put(r, keys, 0, now, 0) }

func (ix *Index) put(r Replica, keys []Key, guess int, now time.Duration, until uint32) (speculative bool) {
	h := ix.lock(r)
	defer h.mu.Unlock()
	defer ix.count(h, h.gaps)
	h.expire(now)
	keys = keys[:min(len(keys), h.limit)]
	d, e := h.depth(keys, guess)
	before := e
	for i := d; i < len(keys); i++ {
		ix.warm(&keys[i])
	}
	for ; d < len(keys); d++ {
		next := h.add(&keys[d], e, until)
		if next == 0 {
			break // there is no room for its node: what is held so far is a prefix, too
		}
		e = next
	}
	if e == 0 {
		return false
	}
	switch p := h.at(e); {
	case until == 0:
		h.confirm(e)
	case e != before:
		h.pending.push(e, until)
	case p.until != 0 && int32(until-p.until) > 0:
		p.until = until
	}
	speculative = h.at(e).until != 0
	h.touch(e)
	h.evict(h.limit)
	return speculative
}

// Confirm makes what a replica holds of keys last: its answer has begun, so it has computed the prompt. For a replica that reports
// all that it holds by events it does nothing: they know better.
func (ix *Index) Confirm(r Replica, keys []Key) {
	h := ix.lock(r)
	defer h.mu.Unlock()
	if h.fed && !h.partial {
		return
	}
	_, e := h.depth(keys, len(keys))
	h.confirm(e)
}

// Remove forgets a key of a replica. One that the replica does not hold is ignored.
func (ix *Index) Remove(r Replica, k Key) {
	h := ix.lock(r)
	defer h.mu.Unlock()
	defer ix.count(h, h.gaps)
	h.take(&k)
}

// take makes a key not held: it goes, or stays as a gap while what comes after it is held.
func (h *holdings) take(k *Key) {
	e := h.holds(k)
	switch {
	case e == 0:
	case h.at(e).children > 0:
		h.openGap(e)
	default:
		h.remove(e)
	}
}

// Drop forgets all keys of a replica and what its events said, in one pass over its own entries.
func (ix *Index) Drop(r Replica) {
	h := ix.lock(r)
	defer h.mu.Unlock()
	defer ix.count(h, h.gaps)
	h.clear()
	h.fed, h.partial, h.epoch, h.seq = false, false, 0, 0
}

// clear forgets all keys.
func (h *holdings) clear() {
	for e := uint32(1); e < h.next; e++ {
		if p := h.at(e); p.state != unused {
			h.release(p)
		}
	}
	h.entries.clear()
	h.others, h.leaves, h.pending = nodeTable{}, nil, queue{}
	h.used, h.gaps, h.free, h.next = 0, 0, 0, 1
}

// Expire forgets the speculative entries of all replicas whose time has come. Put does it for its own replica.
func (ix *Index) Expire(now time.Duration) {
	for r := range ix.holdings {
		h := ix.lock(Replica(r))
		before := h.gaps
		h.expire(now)
		ix.count(h, before)
		h.mu.Unlock()
	}
}

// count keeps the number of gaps of all replicas, after a change of a replica that had some before.
func (ix *Index) count(h *holdings, before int) {
	if h.gaps != before {
		ix.gapped.Add(int64(h.gaps - before))
	}
}

// Stats is the state of an index.
type Stats struct {
	Keys    int   // that some replica holds
	Entries int   // pairs of a key and a replica
	Gaps    int   // keys that miss in the middle of a replica's holdings
	Bytes   int64 // of memory
}

// Stats counts; it takes the locks one after the other.
func (ix *Index) Stats() Stats {
	var st Stats
	for i := range ix.shards {
		s := &ix.shards[i]
		s.mu.Lock()
		st.Keys += int(s.used)
		st.Bytes += int64(len(s.table.Load().slots))*8 + int64(s.wides.chunks())*slabChunk*8
		s.mu.Unlock()
	}
	st.Bytes += int64(ix.nodes.chunks()) * slabChunk * 32
	for r := range ix.holdings {
		h := ix.lock(Replica(r))
		st.Entries += h.used
		st.Gaps += h.gaps
		st.Bytes += int64(h.entries.chunks())*slabChunk*24 + int64(len(h.others.slots)+cap(h.leaves)+cap(h.pending.items))*8
		h.mu.Unlock()
	}
	return st
}

// Entries is the number of keys of a replica.
func (ix *Index) Entries(r Replica) int {
	h := ix.lock(r)
	defer h.mu.Unlock()
	return h.used
}
