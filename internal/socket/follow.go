package socket

// Follower is a connection that need not be read by a goroutine that waits for it: few goroutines read many of them.
type Follower interface {
	// Follow calls take with what comes, in order, until take wants no more, or reading fails, or the connection is closed. What take has not
	// used of a piece comes again, with what follows it; at the end it is the next Read's or Follow's, and what reading failed with is the
	// next Read's. Follow may return at any time without a reason: the caller reads then. take runs in another goroutine and must neither
	// wait nor keep the piece, since other connections wait for it. A panic of take is one of Follow. Deadlines of reads do not count.
	Follow(take func(piece []byte) (used int, more bool))
	// Latest is what the last Read has given, in its caller's buffer, and how many there were.
	Latest() (piece []byte, reads int)
}

// TryWriter is a connection that can be written to without waiting.
type TryWriter interface {
	// TryWrite writes as much of p as there is room for; less of it is no error.
	TryWrite(p []byte) (int, error)
}

// IdleChecker is a connection that tells whether it can be used again.
type IdleChecker interface {
	// IsQuiet reports whether there is nothing to read: no byte, and no end.
	IsQuiet() bool
}

// EndNotifier is a connection that tells of its end, without anybody reading it.
type EndNotifier interface {
	// OnEnd has f called once the peer has closed the connection or its sending half, or the connection has failed, whatever there is to be
	// read before that. f is called at most once, in another goroutine, and must not block, since other connections wait for it; no call begins
	// once the connection is closed. OnEnd is false where it cannot tell; a connection is asked once.
	OnEnd(f func()) bool
}
