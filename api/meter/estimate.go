package meter

import (
	"math"
	"sync"

	"weir/scheduler/outputlen"
)

// Estimates learns how long answers get, per model and tenant, and how many tokens the events of streams and the texts of
// prompts have, per model.
type Estimates struct {
	mu      sync.Mutex
	models  map[string]*outputlen.Lengths
	events  map[string]*eventTokens
	prompts map[string]*promptLine
}

// NewEstimates returns estimates that know no answer.
func NewEstimates() *Estimates {
	return &Estimates{models: map[string]*outputlen.Lengths{}, events: map[string]*eventTokens{}, prompts: map[string]*promptLine{}}
}

// eventTokens are sums over streams of a model whose tokens were told. Older streams count less.
type eventTokens struct{ events, tokens float64 }

// oldEvents is how many events count in full.
const oldEvents = 10_000

// LearnEvents takes in that a whole stream had so many events with text, and so many tokens.
func (e *Estimates) LearnEvents(model string, events, tokens int) {
	if events <= 0 || tokens <= 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.events[model]
	if known == nil {
		if len(e.events) >= maxModels {
			clear(e.events)
		}
		known = &eventTokens{}
		e.events[model] = known
	}
	if known.events > oldEvents {
		known.events, known.tokens = known.events/2, known.tokens/2
	}
	known.events += float64(events)
	known.tokens += float64(tokens)
}

// TokensOf is how many tokens so many events of a model's stream have; false: none of its streams has told yet.
func (e *Estimates) TokensOf(model string, events int) (int, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.events[model]
	if known == nil {
		return 0, false
	}
	return int(math.Round(float64(events) * known.tokens / known.events)), true
}

// maxModels is how many models' answers are remembered. Models come from the
// operator's table, so that more is a sign of names that change all the time.
const maxModels = 256

// Expect is how many tokens an answer with this limit is expected to have, at most
// the limit: half of the answers seen were no longer.
func (e *Estimates) Expect(model, tenant string, limit int) int64 {
	if limit <= 0 {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.of(model)
	return int64(l.Expected(l.Of(tenant), limit, 0))
}

// Learn takes in that an answer with this limit had so many tokens.
func (e *Estimates) Learn(model, tenant string, limit, tokens int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.of(model).Learn(tenant, limit, tokens)
}

func (e *Estimates) of(model string) *outputlen.Lengths {
	l := e.models[model]
	if l == nil {
		if len(e.models) >= maxModels {
			clear(e.models)
		}
		l = outputlen.NewLengths()
		e.models[model] = l
	}
	return l
}
