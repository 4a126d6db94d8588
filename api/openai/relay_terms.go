package openai

import (
	"fmt"
	"time"

	"weir/api"
	"weir/internal/inference"
)

// A relayed request has deadlines like any other. Its class is left to its upstream,
// which has the queue.

var (
	errFirstTokenLate = fmt.Errorf("%w: the server behind this model had not begun its answer", inference.ErrDeadline)
	errAnswerLate     = fmt.Errorf("%w: the answer was due before it ended", inference.ErrDeadline)
)

func (c *call) relayTerms(o *object) (terms, *api.Error) {
	var fault *api.Error
	t := c.readDeadlines(o, c.caller.Tenant, &fault)
	return t, fault
}

// watchDeadlines ends the request at the upstream when a deadline passes. The end of
// the passage stops the timers.
func (p *passage) watchDeadlines(t terms) {
	for _, d := range []struct {
		at  time.Time
		why error
	}{{t.firstTokenBy, errFirstTokenLate}, {t.doneBy, errAnswerLate}} {
		if !d.at.IsZero() {
			p.timers = append(p.timers, time.AfterFunc(time.Until(d.at), func() { p.cancel(d.why) }))
		}
	}
	p.dated = !t.firstTokenBy.IsZero()
}

// inTime stops the timer to the first token, which has come: of an answer that is no
// stream with the whole answer.
func (p *passage) inTime() {
	if p.dated {
		p.timers[0].Stop()
	}
}
