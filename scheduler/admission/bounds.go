package admission

import "weir/internal/inference"

// tenantRoom is how many choices a tenant may always have waiting, as long as
// the queue itself has room.
const tenantRoom = 16

// room reports why an item cannot wait. Beside the bounds of the whole queue, a
// tenant may hold as much of it as is still free: one tenant alone gets half,
// two get a third each, and a newcomer always finds room. A tenant of whom
// nothing waits is refused only where the queue is full.
func (q *Queue) room(it *Item) error {
	choices, tokens := q.choices+it.Choices, q.tokens+it.Tokens
	if q.Len() > 0 {
		if err := q.Room(choices, tokens); err != nil {
			return err
		}
	}
	i, known := q.byKey[flowKey{it.Tenant, it.Class}]
	if !known || q.flows.at(i).waiting == 0 {
		return nil
	}
	f := q.flows.at(i)
	if own, most := f.choices+it.Choices, max(q.cfg.MaxRequests-choices, tenantRoom); own > most {
		return full(inference.ErrTenantQueueFull, "waiting requests of the tenant", own, most)
	}
	if own, most := f.tokens+it.Tokens, q.cfg.MaxTokens-tokens; q.cfg.MaxTokens > 0 && own > most && f.choices >= tenantRoom {
		return full(inference.ErrTenantQueueFull, "waiting prompt tokens of the tenant", own, most)
	}
	return nil
}

// Room reports why so many choices and prompt tokens in all cannot wait together.
// It reads only what New set: call it from anywhere.
func (q *Queue) Room(choices, tokens int) error {
	if choices > q.cfg.MaxRequests {
		return full(inference.ErrQueueFull, "waiting requests", choices, q.cfg.MaxRequests)
	}
	if q.cfg.MaxTokens > 0 && tokens > q.cfg.MaxTokens {
		return full(inference.ErrQueueFull, "waiting prompt tokens", tokens, q.cfg.MaxTokens)
	}
	return nil
}

func full(why error, what string, need, limit int) error {
	return &inference.LimitError{Err: why, What: what, Need: need, Limit: limit, Remedy: "try again later, or raise the queue's limit"}
}
