package openai

import (
	"context"
	"strings"

	"weir/api/conversation"
	"weir/api/openai/job"
	"weir/api/replay"
	"weir/internal/inference"
)

// The response cache keeps the tokens of answers that weir would compute again bit by
// bit: the engine's bits do not depend on the batch, so that a greedy answer is the
// same each time, and a sampled one for the same seed. A hit passes the tokens through
// the same decoding, stop strings and encoder as the engine's, whole or as a stream, and
// takes no place in a queue.
//
// Kept are answers with one choice per prompt, without log-probabilities, to requests
// of temperature 0 or with a seed of their own.

// recollection is a generation's part in the response cache; nil has none.
type recollection struct {
	cache   *responseCache
	tenant  string
	key     replay.Hash
	hit     bool
	answers []cachedAnswer // per prompt; of a miss those that are being generated
}

type responseCache = replay.Cache[[]cachedAnswer]

// cachedAnswer is what a backend gave for a prompt.
type cachedAnswer struct {
	tokens []inference.TokenID
	finish inference.FinishReason
}

const cachedAnswerBytes = 40 // beside its tokens

func newResponseCache(c replay.CacheConfig) *responseCache {
	if c.Bytes <= 0 {
		return nil
	}
	return replay.NewCache[[]cachedAnswer](c)
}

// CacheStats counts what became of requests that the response cache could answer; ok
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
	s.background.forget(tenant, "")
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
func (c *call) recall(j *job.Job) *recollection {
	cache := c.server.cache
	if cache == nil || c.caller.Tenant.KeepsNothing() || !j.Repeatable() || declines(string(c.ctx.Request.Header.Peek("Cache-Control"))) {
		return nil
	}
	r := &recollection{cache: cache, tenant: j.Tenant.Name, key: j.Hash()}
	if r.answers, r.hit = cache.Get(r.tenant, r.key); r.hit {
		c.ctx.Response.Header.Set("X-Weir-Cache", "hit")
		return r
	}
	c.ctx.Response.Header.Set("X-Weir-Cache", "miss")
	r.answers = make([]cachedAnswer, len(j.Prompts))
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

// streams are those of a hit: all events are in them. The whole prompt counts as cached.
func (r *recollection) streams(prompts []job.Prompt) []*inference.Stream {
	list := make([]*inference.Stream, len(r.answers))
	for i, a := range r.answers {
		s := inference.NewStream(max(len(a.tokens), 1), func(int) {})
		n := len(prompts[i].IDs)
		s.SetProgress(inference.Progress{PrefillTokens: n, CachedTokens: n})
		for _, id := range a.tokens {
			s.Push(inference.Event{Kind: inference.EventToken, Token: id})
		}
		s.Push(inference.Event{Kind: inference.EventFinish, Finish: a.finish})
		s.Close(nil)
		list[i] = s
	}
	return list
}

// isHit: nothing is computed.
func (r *recollection) isHit() bool { return r != nil && r.hit }

// take notes an event of a prompt's answer.
func (r *recollection) take(prompt int, e inference.Event) {
	if r == nil || r.hit {
		return
	}
	if a := &r.answers[prompt]; e.Kind == inference.EventFinish {
		a.finish = e.Finish
	} else {
		a.tokens = append(a.tokens, e.Token)
	}
}

// keep puts the answers of a generation that is complete into the cache. One that a
// stop string has ended has no finish of the backend's; the stop string will end it again.
func (r *recollection) keep() {
	if r == nil || r.hit {
		return
	}
	bytes := int64(0)
	for i := range r.answers {
		a := &r.answers[i]
		if a.finish == inference.FinishNone {
			a.finish = inference.FinishStop
		}
		a.tokens = append([]inference.TokenID(nil), a.tokens...) // without spare capacity
		bytes += cachedAnswerBytes + 4*int64(len(a.tokens))
	}
	r.cache.Put(r.tenant, r.key, r.answers, bytes)
}
