package admission

import (
	"errors"

	"weir/internal/inference"
)

// tenantRoom is how many choices a tenant may always have waiting, as long as
// the queue itself has room.
const tenantRoom = 16

// Bounds limit what may wait together.
type Bounds struct {
	MaxRequests int // choices of the waiting requests
	MaxTokens   int // their prompt tokens; 0 is no limit
}

// Waiting counts waiting requests: all of them, or those of one tenant in a class.
type Waiting struct {
	Requests int
	Choices  int
	Tokens   int // of their prompts
	Work     uint64
}

// Add counts further requests.
func (w *Waiting) Add(more Waiting) {
	w.Requests += more.Requests
	w.Choices += more.Choices
	w.Tokens += more.Tokens
	w.Work += more.Work
}

// Sub counts requests that wait no more.
func (w *Waiting) Sub(less Waiting) {
	w.Requests -= less.Requests
	w.Choices -= less.Choices
	w.Tokens -= less.Tokens
	w.Work -= less.Work
}

// Room reports why requests of one tenant cannot join those that wait, of which
// own are the tenant's in the same class: with an *inference.LimitError around
// inference.ErrQueueFull or ErrTenantQueueFull. Beside the bounds of the whole
// queue, a tenant may hold as much of it as is still free: one tenant alone gets
// half, two get a third each, and a newcomer always finds room. A single request
// of a tenant of whom nothing waits is refused only where the queue is full, and
// one may always wait alone, whatever its size. What has no room where nothing waits gets inference.ErrNeverFits.
func (b Bounds) Room(all, own, more Waiting) error {
	err := b.room(all, own, more)
	if err == nil {
		return nil
	}
	alone := b.room(Waiting{}, Waiting{}, more)
	if limit, ok := errors.AsType[*inference.LimitError](alone); ok {
		limit.Err, limit.Remedy = inference.ErrNeverFits, "send fewer prompts or choices at once, or raise the queue's limit"
		return limit
	}
	return err
}

func (b Bounds) room(all, own, more Waiting) error {
	none, newcomer := all.Requests == 0, own.Requests == 0
	all.Add(more)
	own.Add(more)
	if none && more.Requests == 1 {
		return nil
	}
	if all.Choices > b.MaxRequests {
		return full(inference.ErrQueueFull, "waiting requests", all.Choices, b.MaxRequests)
	}
	if b.MaxTokens > 0 && all.Tokens > b.MaxTokens {
		return full(inference.ErrQueueFull, "waiting prompt tokens", all.Tokens, b.MaxTokens)
	}
	if newcomer && more.Requests == 1 {
		return nil
	}
	if most := max(b.MaxRequests-all.Choices, tenantRoom); own.Choices > most {
		return full(inference.ErrTenantQueueFull, "waiting requests of the tenant", own.Choices, most)
	}
	if most := b.MaxTokens - all.Tokens; b.MaxTokens > 0 && own.Tokens > most && own.Choices-more.Choices >= tenantRoom {
		return full(inference.ErrTenantQueueFull, "waiting prompt tokens of the tenant", own.Tokens, most)
	}
	return nil
}

func full(why error, what string, need, limit int) error {
	return &inference.LimitError{Err: why, What: what, Need: need, Limit: limit, Remedy: "try again later, or raise the queue's limit"}
}
