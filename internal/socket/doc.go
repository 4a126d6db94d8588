// Package socket makes the reads and writes of streams cheap. Go's own tell the scheduler before and after each system call, and keep
// its monitor thread (sysmon) awake, since a call might block. Those on a socket of the network poller never block: they return what is there.
// For streams of small events, which are one read and one write each, that is up to a third of the whole cost.
//
// The monitor thread interrupts goroutines that compute for long. What brings long computation must therefore keep it awake by an
// ordinary call: a server reads its requests in the ordinary way, and only its writes are quick.
package socket
