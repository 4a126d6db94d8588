// Package balance decides which replica a request goes to, and counts the load that each has been given.
//
// A Balancer serves one model. Pick chooses a replica and counts the request against it; the Lease that it returns gives the load
// back, once, however often and by whom Done is called, and never by a timer. Between Pick and Done, Began says that the first
// token has come: the prompt is computed then.
//
// # Load
//
// A replica's load is what this balancer has sent there and has not seen end. Reports of the replica add what others have sent
// there; what was picked since a report was asked for is added to it, and what ended since then taken off, so that a burst
// between two reports does not all go to the replica that looked idle in the last one. Reports past Config.ReportsLast count for
// nothing: with none left, own counts decide, and requests go on.
//
// # Cost
//
// The policy Prefix estimates, for a few candidates, the milliseconds until the first token: the prompt tokens that wait there,
// the tokens of this prompt that are not cached there, and the wait for a slot, each at the replica's learned speed; added to that
// are the tokens that the answer slows down beside those that run there. Candidates are the replicas that hold the longest prefixes,
// the session's home, and a few others drawn at random, so that a pick takes as long with a thousand replicas as with ten. A
// candidate far above the mean load is passed over for that request alone. The index notes the pick at once, where the request
// went: a prefix in demand spreads by itself.
//
// The package reads no clock and starts no goroutines; randomness comes from Config.Seed.
package balance
