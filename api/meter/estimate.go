package meter

import (
	"sync"

	"weir/scheduler/answer"
)

// Estimates learns how long answers get, per model and tenant.
type Estimates struct {
	mu     sync.Mutex
	models map[string]*answer.Lengths
}

// NewEstimates returns estimates that know no answer.
func NewEstimates() *Estimates { return &Estimates{models: map[string]*answer.Lengths{}} }

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

func (e *Estimates) of(model string) *answer.Lengths {
	l := e.models[model]
	if l == nil {
		if len(e.models) >= maxModels {
			clear(e.models)
		}
		l = answer.NewLengths()
		e.models[model] = l
	}
	return l
}
