package server

import (
	"context"
	"errors"
	"sync"
)

var (
	errClosed = errors.New("the server was closed")
	errSpent  = errors.New("a server runs once, and this one was run or closed before; server.New makes another one")
)

// lifetime sees to it that a server runs at most once, and is not closed under a run.
type lifetime struct {
	mu     sync.Mutex
	spent  bool                    // it runs or ran, or is closed
	cancel context.CancelCauseFunc // ends the run; nil: there was none
	ended  chan struct{}           // closed at the end of the run
}

// begin begins the run. What it returns ends with ctx, and by the lifetime's end.
func (l *lifetime) begin(ctx context.Context) (of context.Context, end func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spent {
		return nil, nil, errSpent
	}
	l.spent, l.ended = true, make(chan struct{})
	of, l.cancel = context.WithCancelCause(ctx)
	return of, func() { l.cancel(nil); close(l.ended) }, nil
}

// end ends the run and waits for its end; where there was none it calls release.
func (l *lifetime) end(release func() error) error {
	l.mu.Lock()
	l.spent = true
	ran := l.ended
	if ran == nil {
		defer l.mu.Unlock()
		return release()
	}
	l.mu.Unlock()
	l.cancel(errClosed)
	<-ran
	return nil
}
