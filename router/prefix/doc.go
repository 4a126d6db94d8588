// Package prefix knows which replicas hold the KV of which prompt prefixes.
//
// A prompt is named by its keys, a chain: each key stands for one more piece and covers everything before it. Replicas that share
// the router's cache secret give the keys of their own KV blocks (kvcache.Domain.Chain); for any other server the keys are hashed
// pieces of the prompt's canonical text (Root, Chain).
//
// An Index keeps the keys that each replica holds, within a bound per replica. It learns from what the router sent where (Put,
// Confirm) and from the replicas' own events (Apply). What it says is a hint: a wrong answer costs time, never correctness.
//
// # Structure
//
// A replica's holdings are prefix-closed: they have a key only together with all keys before it. So the depth to which a chain is
// held is found by bisection. Eviction keeps that true: only the deepest keys of a chain are a replica's candidates, the least
// recently used one first, and a use is one stamp. Where a replica's events break it (a window that slides, a listing in any
// order), a key that is missing in the middle is kept as a gap, and lookups scan as long as there are gaps.
//
// Keys lie in shards, as nodes with the set of their holders; Lookup reads them by atomic loads and takes no lock. A lookup
// beside a change may miss what changes. Holdings lie with their replica, behind its mutex, which is taken before that of a
// shard. A node knows the place of the first holder's entry, so that what one replica alone holds is found without another
// table. The nodes of the keys that a replica takes in one after the other lie side by side, and so do its entries.
//
// Nothing here reads a clock: times are durations since an instant that the caller chooses.
package prefix
