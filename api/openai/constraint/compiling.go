package constraint

import (
	"errors"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/limiter"
	"weir/api/replay"
	"weir/internal/semaphore"
	"weir/internal/work"
	"weir/tokenizer/grammar"
)

// compiling is what one request has done by grammars: finding or compiling its rules, and
// beginning an answer. It acquires a permit where there is something to work out. One goroutine
// uses it.
type compiling struct {
	from   *Compiler
	tenant string
	gone   <-chan struct{} // closed when the client hangs up

	permit *semaphore.Permit // nil: none was needed
	meter  *work.Meter
	done   chan struct{} // closed when the work shall end
	over   chan struct{} // closed at the end
}

func (g *Compiler) compiling(tenant string, gone <-chan struct{}) *compiling {
	return &compiling{from: g, tenant: tenant, gone: gone}
}

// begin gives compiled rules and the matcher of an answer; the matcher is nil where no
// grammar binds it. An error that is an api.Error came before the rules were there.
func (p *compiling) begin(key replay.Hash, r *AnswerRules, v *grammar.Vocabulary) (*compiledRules, *grammar.Matcher, error) {
	g := p.from
	c, known := g.cache.Get(p.tenant, key)
	if known {
		g.cache.Weigh(p.tenant, key, c.bytes(r)) // answers have made it larger
	}
	if !known || c.Grammar != nil && !c.Grammar.Begun(v) {
		if fault := p.take(); fault != nil {
			return nil, nil, fault
		}
	}
	account := g.account(p.tenant)
	if !known { // it may have been compiled for another request meanwhile
		if c, known = g.cache.Get(p.tenant, key); !known {
			var fault *api.Error
			if c, fault = r.Compile(grammar.Limits{Meter: p.meter, Account: account}); fault != nil {
				return nil, nil, p.blame(fault)
			}
			g.cache.Put(p.tenant, key, c, c.bytes(r))
		}
	}
	if c.Grammar == nil {
		return c, nil, nil
	}
	m, err := c.Grammar.MatcherUnder(v, p.meter)
	if err != nil && p.meter.Err() != nil && !errors.Is(p.meter.Err(), work.ErrSpent) {
		return nil, nil, p.ended()
	}
	return c, m, err
}

// take waits for a permit.
func (p *compiling) take() *api.Error {
	p.done, p.over = make(chan struct{}), make(chan struct{})
	go func() {
		timer := time.NewTimer(grammarTimeout)
		defer timer.Stop()
		select {
		case <-p.gone:
		case <-p.from.aborted:
		case <-timer.C:
		case <-p.over:
			return
		}
		close(p.done)
	}()
	var err error
	switch p.permit, err = p.from.permits.Acquire(p.done, p.tenant); {
	case errors.Is(err, semaphore.ErrFull):
		return limiter.Busy("too many grammars wait to be compiled; retry later")
	case err != nil:
		return p.ended()
	}
	p.meter = &work.Meter{Limit: compileUnits, Ask: p.permit.Yield, Aside: p.permit.Aside}
	return nil
}

// blame is the fault of rules that were not compiled: theirs, unless the work was ended.
func (p *compiling) blame(fault *api.Error) *api.Error {
	if err := p.meter.Err(); err != nil && !errors.Is(err, work.ErrSpent) {
		return p.ended()
	}
	return fault
}

// ended says why the work was ended.
func (p *compiling) ended() *api.Error {
	<-p.done
	select {
	case <-p.gone:
		return edge.ClientGone()
	case <-p.from.aborted:
		return edge.ShuttingDown()
	default:
		return limiter.Busy("too many grammars are compiled at this time, and the request waited too long for its turn; retry later")
	}
}

// end gives the permit back, and says how much processor time the work took.
func (p *compiling) end() (took time.Duration) {
	if p.over != nil {
		close(p.over)
	}
	if p.permit != nil {
		took = p.permit.Used()
		p.permit.Release()
	}
	return took
}
