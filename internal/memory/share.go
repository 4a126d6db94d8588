package memory

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// Errors of Share.Read.
var (
	ErrNoRoom   = errors.New("bodies use all of their memory")
	ErrTooLarge = errors.New("the body is too large")
	// ErrNeverFits says that a body has no room even where no other one is in memory.
	ErrNeverFits = errors.New("the body takes more memory than all bodies have together")
)

// Share is what one request or answer holds of a budget. It is used by one goroutine at a time. The zero Share has no bound.
type Share struct {
	// Patience is how long one of the shares that have it, and find no room for a large buffer, waits for others to release
	// theirs. Further ones find none at once, and so release what they have.
	Patience time.Duration

	budget      *Budget
	held, large int64 // large: of held, in large buffers
}

// Share is a share of the budget that holds nothing yet.
func (b *Budget) Share() Share { return Share{budget: b} }

// Buffer gives a buffer of n bytes; false where the budget has no room for it.
func (s *Share) Buffer(n int) ([]byte, bool) {
	if s.budget == nil {
		return make([]byte, n), true
	}
	p, ok := s.budget.take(int64(n))
	if !ok && s.Patience > 0 && s.budget.waiting.TryLock() {
		p, ok = s.wait(int64(n))
		s.budget.waiting.Unlock()
	}
	if ok {
		s.count(int64(n))
	}
	return p, ok
}

// lookEvery is how often a share that waits looks whether there is room.
const lookEvery = 5 * time.Millisecond

// wait waits for room while others have some that they could release.
func (s *Share) wait(n int64) (p []byte, ok bool) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for end := time.Now().Add(s.Patience); !ok && s.held+n <= s.budget.limit(n) && s.budget.Resident() > s.held && time.Now().Before(end); {
		<-look.C
		p, ok = s.budget.take(n)
	}
	return p, ok
}

// Grow moves a body into a larger buffer of the share; false where the budget has no room for it.
func (s *Share) Grow(body []byte, size int) ([]byte, bool) {
	p, ok := s.Buffer(size)
	if !ok {
		return body, false
	}
	grown := p[:copy(p, body)]
	s.drop(cap(body))
	return grown, true
}

// drop gives a buffer of n bytes back.
func (s *Share) drop(n int) {
	if s.budget == nil || n == 0 {
		return
	}
	held, large := s.held, s.large
	s.count(-int64(n))
	s.budget.give(held-s.held, large-s.large)
}

// count adds n bytes of one buffer to what is held; n below 0 takes them away.
func (s *Share) count(n int64) {
	s.held += n
	if max(n, -n) > smallBytes {
		s.large += n
	}
}

// Release gives all buffers back. They may still be read: large ones count until they are not read.
func (s *Share) Release() {
	if s.budget == nil || s.held == 0 {
		return
	}
	s.budget.give(s.held, s.large)
	s.held, s.large = 0, 0
}

// NeverFits reports whether a further buffer of n bytes has no room even where no other share holds any.
func (s *Share) NeverFits(n int) bool {
	return s.budget != nil && s.held+int64(n) > s.budget.limit(int64(n))
}

const firstBytes = 4 << 10 // first size of a body's buffer, which doubles as bytes arrive

// sizeAfter is the size of the buffer behind a full one of size bytes. It at most doubles. The last two steps are like ones, so that a
// body of most bytes takes one and a half times that.
func sizeAfter(size, most int) int {
	switch next := max(firstBytes, 2*size); {
	case next >= most:
		return most
	case next > most/2:
		return (most + 1) / 2
	default:
		return next
	}
}

// Read reads up to the end of r, at most limit bytes. Its buffer grows with the bytes that have arrived, up to most
// bytes: what a header declares is not believed before. The bytes that were read come with an error, too.
func (s *Share) Read(r io.Reader, most, limit int) (body []byte, err error) {
	var next [1]byte // shows that there is more, before there is a larger buffer for it
	for {
		free := body[len(body):cap(body)]
		if len(free) == 0 {
			free = next[:]
		}
		n, err := r.Read(free)
		switch {
		case n > 0 && len(body) >= limit:
			return body, ErrTooLarge
		case n > 0 && len(body) == cap(body):
			size := limit
			if cap(body) < most && most < limit {
				size = most
			}
			size = sizeAfter(cap(body), size)
			grown, ok := s.Grow(body, size)
			switch {
			case !ok && s.NeverFits(size):
				return body, fmt.Errorf("%w: %d bytes have come, and room for %d is needed", ErrNeverFits, len(body), size)
			case !ok:
				return body, ErrNoRoom
			}
			body = append(grown, next[0])
		default:
			body = body[:len(body)+n]
		}
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return body, err
		}
	}
}
