package openai

import (
	"context"
	"strings"

	"weir/api/conversation"
	"weir/api/openai/generation"
	"weir/api/openai/job"
	"weir/api/replay"
)

// The response cache keeps the tokens of answers that weir would compute again bit by
// bit: the engine's bits do not depend on the batch, so that a greedy answer is the
// same each time, and a sampled one for the same seed. A hit passes the tokens through
// the same decoding, stop strings and encoder as the engine's, whole or as a stream, and
// takes no place in a queue.
//
// Kept are answers with one choice per prompt, without log-probabilities, to requests
// of temperature 0 or with a seed of their own.

// CacheStats counts what happened to requests that the response cache could answer; ok
// is false where there is none.
func (s *Server) CacheStats() (st replay.CacheStats, ok bool) {
	if s.cache == nil {
		return st, false
	}
	return s.cache.Stats(), true
}

// Forget drops the answers that the server's memory holds of a tenant, and returns how
// many there were.
func (s *Server) Forget(tenant string) (answers int) {
	s.responses.Runs.Forget(tenant, "")
	if s.cache != nil {
		answers = s.cache.Forget(tenant)
	}
	if m, inMemory := s.config.Responses.Store.(*conversation.Memory); inMemory {
		n, _ := m.ForgetResponses(context.Background(), tenant) // memory never fails
		answers += int(n)
	}
	if m, inMemory := s.config.Idempotency.Claims.(*replay.Memory); inMemory {
		answers += m.Forget(tenant)
	}
	return answers
}

// recall looks a job up in the response cache, and tells the client.
func (c *generating) recall(j *job.Job) *generation.Cached {
	cache := c.server.cache
	if cache == nil || c.caller.Tenant.KeepsNothing() || !j.Repeatable() || declines(string(c.ctx.Request.Header.Peek("Cache-Control"))) {
		return nil
	}
	r := generation.Recall(cache, j)
	if r.IsHit() {
		c.ctx.Response.Header.Set("X-Weir-Cache", "hit")
		return r
	}
	c.ctx.Response.Header.Set("X-Weir-Cache", "miss")
	return r
}

// declines reports whether a Cache-Control field asks for an answer of its own.
func declines(control string) bool {
	for item := range strings.SplitSeq(control, ",") {
		if item = strings.ToLower(strings.TrimSpace(item)); item == "no-cache" || item == "no-store" {
			return true
		}
	}
	return false
}
