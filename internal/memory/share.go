package memory

import (
	"errors"
	"io"
	"time"
)

// Errors of Share.Read.
var (
	ErrNoRoom   = errors.New("bodies use all of their memory")
	ErrTooLarge = errors.New("the body is too large")
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

// Release gives all buffers back. They may still be read: large ones count until nobody does.
func (s *Share) Release() {
	if s.budget == nil || s.held == 0 {
		return
	}
	s.budget.give(s.held, s.large)
	s.held, s.large = 0, 0
}

const firstBytes = 4 << 10 // first size of a body's buffer, which doubles as bytes arrive

// Read reads up to the end of r, at most limit bytes. Its buffer grows with the bytes that have arrived, up to most
// bytes: what a header declares is not believed before. The bytes that were read come with an error, too.
func (s *Share) Read(r io.Reader, most, limit int) (body []byte, err error) {
	for {
		if len(body) == cap(body) {
			size := max(firstBytes, 2*cap(body))
			if size = min(size, limit+1); cap(body) < most {
				size = min(size, most)
			}
			var ok bool
			if body, ok = s.Grow(body, size); !ok {
				return body, ErrNoRoom
			}
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > limit:
			return body, ErrTooLarge
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return body, err
		}
	}
}
