package kvcache

// Counters never decrease.
type Counters struct {
	QueryTokens uint64 // tokens of sequences that asked for a cached prefix and were grown
	HitTokens   uint64 // of these, taken from the cache
	Stateless   uint64 // tokens whose blocks were found, and no checkpoint behind them: computed again
	Evictions   uint64 // cached blocks evicted: for room, for a bound, by DropDomain or Reset
	Folded      uint64 // blocks replaced by a resident twin at Commit
	Collisions  uint64 // blocks left private because another prefix has their hash
	CopiedRows  uint64 // rows copied for partial hits and shared tails
}

// Stats is a pool's state. Free, Cached, Referenced and Pinned add up to
// Blocks.
type Stats struct {
	Blocks     int // usable: the null block is not counted
	Free       int // hold nothing
	Cached     int // hold a cached prefix, evictable
	Referenced int // in tables
	Pinned     int // in no table, but pinned
	Published  int // hold a cached prefix, in tables or not
	Tables     int // begun, not released
	Domains    int // with live tables or resident blocks

	States      int // slots for states; 0 of models that have none
	StatesFree  int // hold nothing
	Checkpoints int // of a cached prefix, evictable
	Counters
}
