package tokenizer

// pace counts the work of one call and calls pause between slices of that work,
// so that the caller may sleep or end the call.
type pace struct {
	pause   func() bool // nil: the call is never paused
	left    int         // until the next pause
	stopped bool        // pause has returned false
}

const (
	// sliceWork is the work between two pauses, in lookups of a pair of
	// symbols or about as long: some 0.2 to 1 ms.
	sliceWork = 1 << 13
	mergeWork = 4 // of a merge: three lookups and the search for the next one
	pieceWork = 2 // of a piece: cutting it off and looking it up in the cache
)

func newPace(pause func() bool) pace { return pace{pause: pause, left: sliceWork} }

// spend counts n units of work; false means that the call is to end.
func (p *pace) spend(n int) bool {
	if p.left -= n; p.left > 0 {
		return !p.stopped
	}
	p.left = sliceWork
	if p.pause != nil && !p.stopped && !p.pause() {
		p.stopped = true
	}
	return !p.stopped
}
