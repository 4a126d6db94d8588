package stored

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/api/edge"
	"weir/api/openai/responses"
)

// The end of an answer waits for the write that keeps it, since clients go on from an answer as soon as they have it, but not for long: a store
// that another process has locked would hold every answer up. The write goes on; who asks for the response meanwhile waits for it.

const (
	defaultKeepWait = time.Second
	mostLate        = 256 // writes under way; above them, the ends of answers wait for theirs
)

// errLate is told to Config.Failed.
var errLate = errors.New("the store has not taken a response within a second: its answer ended with store: false, and the write goes on")

// writes are those of responses that are under way.
type writes struct {
	mu    sync.Mutex
	open  map[Key]chan struct{} // each is closed when its write is over
	count atomic.Uint64         // of those that their answers did not wait for
}

// begin adds a write; end ends it. ok is false where there are too many, or one of that response.
func (w *writes) begin(k Key) (end func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, double := w.open[k]; double || len(w.open) >= mostLate {
		return nil, false
	}
	if w.open == nil {
		w.open = map[Key]chan struct{}{}
	}
	over := make(chan struct{})
	w.open[k] = over
	return func() {
		w.mu.Lock()
		delete(w.open, k)
		w.mu.Unlock()
		close(over)
	}, true
}

// settle waits until no write of that response, or conversation, is under way, or ctx ends.
func (w *writes) settle(ctx context.Context, tenant, id string) {
	w.mu.Lock()
	over := w.open[Key{tenant, id}]
	w.mu.Unlock()
	if over == nil {
		return
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// Soon is a keeper that waits a second at most for what inner writes of that response, or to that conversation. It is not for responses that
// are computed in the background: they are asked for only once they are kept.
func (s *Responses) Soon(tenant, id string, inner responses.Keeper) responses.Keeper {
	return &soonKeeper{responses: s, key: Key{tenant, id}, inner: inner}
}

type soonKeeper struct {
	responses *Responses
	key       Key
	inner     responses.Keeper
}

// Keep implements responses.Keeper.
func (k *soonKeeper) Keep(status string, object []byte) bool {
	s := k.responses
	end, ok := s.late.begin(k.key)
	if !ok {
		return k.inner.Keep(status, object)
	}
	s.running.Stay()
	object = slices.Clone(object) // the buffer is the answer's
	kept := make(chan bool, 1)
	go func() {
		defer s.running.Leave()
		defer end()
		kept <- k.inner.Keep(status, object)
	}()
	timer := time.NewTimer(s.KeepWait)
	defer timer.Stop()
	select {
	case ok := <-kept:
		return ok
	case <-timer.C:
	}
	s.late.count.Add(1)
	s.config.failed(errLate)
	return false
}

// Late counts the responses whose answers did not wait for the store.
func (s *Responses) Late() uint64 { return s.late.count.Load() }

// settle waits, as long as a request may for the store, until what is being written of a response or conversation is there.
func (s *Responses) settle(tenant, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), edge.AskTimeout)
	defer cancel()
	s.late.settle(ctx, tenant, id)
}
