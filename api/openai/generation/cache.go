package generation

import (
	"weir/api/openai/job"
	"weir/api/replay"
	"weir/internal/inference"
)

// Cached is a generation's part in the response cache; nil has none.
type Cached struct {
	cache   *Cache
	tenant  string
	key     replay.Hash
	hit     bool
	answers []cachedAnswer // per prompt; of a miss those that are being generated
}

// Cache is the response cache: the answers to prompts, by what decides on them.
type Cache = replay.Cache[[]cachedAnswer]

// cachedAnswer is what a backend gave for a prompt.
type cachedAnswer struct {
	tokens []inference.TokenID
	finish inference.FinishReason
}

const cachedAnswerBytes = 40 // beside its tokens

// NewCache returns a cache, nil where it is off.
func NewCache(c replay.CacheConfig) *Cache {
	if c.Bytes <= 0 {
		return nil
	}
	return replay.NewCache[[]cachedAnswer](c)
}

// streams are those of a hit: all events are in them. The whole prompt counts as cached.
func (r *Cached) streams(prompts []job.Prompt) []*inference.Stream {
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

// IsHit reports whether the answer was in the cache, so that nothing is computed.
func (r *Cached) IsHit() bool { return r != nil && r.hit }

// take notes an event of a prompt's answer.
func (r *Cached) take(prompt int, e inference.Event) {
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
func (r *Cached) keep() {
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

// Recall looks a job up.
func Recall(cache *Cache, j *job.Job) *Cached {
	r := &Cached{cache: cache, tenant: j.Tenant.Name, key: j.Hash()}
	if r.answers, r.hit = cache.Get(r.tenant, r.key); !r.hit {
		r.answers = make([]cachedAnswer, len(j.Prompts))
	}
	return r
}
