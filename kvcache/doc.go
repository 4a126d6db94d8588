// Package kvcache manages the blocks of a paged KV cache: who holds which
// block, which blocks hold the keys and values of which token prefix, and
// which block is evicted next. A block is an id and a few counts; the tensors
// live in the engine, which indexes its arena by BlockID and row.
//
// A Pool belongs to one goroutine, the step loop. It starts no goroutines,
// reads no clock, draws no random numbers and iterates over no map: the same
// calls always give the same block ids. Only Config.Domain, Pool.Domain and
// Domain.Chain may be called from anywhere.
//
// # A sequence's life
//
//	p, err := kvcache.New(kvcache.Config{Blocks: 4097, BlockTokens: 16, ModelDigest: digest, KVType: "f16"})
//	d := p.Domain(tenant)                        // isolation domain of the prefix cache
//	p.Begin(&t, d)                               // t is an empty kvcache.Table, reusable after Release
//	hit := p.Match(d, ids, len(ids)-1)           // one row must be left to compute
//	need, ok := p.CanGrow(&t, rows, hit)         // the same arithmetic as Grow
//	ok = p.Grow(&t, rows, hit, &copies)          // all or nothing; the engine executes copies first
//	... forward pass over rows [t.Tokens(), rows) ...
//	p.Commit(&t, ids, rows)                      // publishes full blocks to the prefix chain
//	p.Grow(&t, rows+1, kvcache.Hit{}, &copies)   // each decode step: Grow, forward pass, Commit
//	p.Release(&t)                                // end or preempt: full blocks stay in the prefix cache
//
// Truncate takes rows back (rejected drafts), Fork shares a sequence's blocks
// with another choice of the same request, Slide releases the blocks that a
// sliding window no longer reads before Commit would, SetClass decides how long the blocks outlive the
// sequence. Protect keeps a domain's floor from others' sequences until a time, which
// Advance tells. DropDomain and Reset empty the cache. Stats, FreeNow, FreeFor, Resident and
// Check only read. DrainEvents reports what entered and left the cache.
//
// # Structure
//
// A full block whose rows are final is published: it gets the hash
// SHA-256(parent's hash, token ids), cut to 128 bits, rooted in the domain's
// hash, and becomes a child of the block before it. The pool keeps the token
// ids of published blocks and compares them, the parent and the domain on every
// hit, so that a hash collision is a miss and never a leak. A block published
// twice is folded into the resident twin at Commit.
//
// A block with no reference and no pin is idle and on one list: unpublished
// ones on a stack that is used first, published ones on the least recently
// used list of their class. Sequences are released from the tail, and a hit
// takes the whole path from the root, so a parent comes after its children
// in every list, and eviction takes leaves first without a heap. Where that
// order cannot hold (a sliding window releases the head first), evicting a
// parent takes its descendants out of the cache with it, so the parents of a
// published block are always resident.
//
// Published blocks are never written. Grow replaces a tail block that is
// shared, published or pinned by a fresh one and asks for a row copy; it does
// the same for the best child of the last full hit, of which part of the rows
// can be used.
//
// # Groups
//
// Layers that see the last positions only need the KV of these only. Config.Windows has an entry per group of layers; each has
// a block table of its own (Table.Blocks), and pages of one size are handed out to all of them. Groups of one window move
// together: a block of theirs is a page of each. Commit releases what a window has passed, and Config.StepRows bounds how
// far Grow goes ahead there, so that a sequence takes no more than Need says. Everything else works on all groups or on none.
//
// The blocks of the groups without a window are the chain described above. What other groups have for the same prefix hangs on its
// blocks and leaves the cache with them, or before. A hit is the longest prefix of the chain before which every group has what
// the next row sees. What a window has passed is the first to be evicted, except before the places where another sequence
// went on otherwise, or is expected to (Table.Expect): the end of a shared system prompt, of a turn. Where all groups have a window,
// the ones with the longest are the chain, and a hit needs all of it.
//
// # Not here
//
// There is one synchronous step loop, so a released block is free at once;
// deferred release, which overlapping steps would need, is not there.
// Blocks do not spill to disk; Pin and Unpin, which keep a block from being
// reused while something outside reads it, are there for code that adds that.
//
// # Fine domains
//
// Sequences of a fine domain (Config.FineDomain) store their rows in more room, so that a block has Config.FineTokens of them.
// Shape has the arithmetic of a domain; the methods of Shape that a pool has are those of all other domains.
//
// # Misuse
//
// A call that breaks the contract of a method (a foreign table, rows that were
// never grown) changes nothing and is remembered; Check reports the first one.
// Under the build tag invariants it panics at the call.
package kvcache
