package openai

import (
	"encoding/json"
	"fmt"
	"time"

	"weir/api"
	"weir/api/openai/priority"
	"weir/internal/inference"
)

// A relayed request has deadlines like any other. Its class is for its upstream to obey,
// which has the queue, and at most the tenant's highest.

var (
	errFirstTokenLate = fmt.Errorf("%w: the server behind this model had not begun its answer", inference.ErrDeadline)
	errAnswerLate     = fmt.Errorf("%w: the answer was due before it ended", inference.ErrDeadline)
)

func (c *call) relayTerms(r *relayed) (priority.Terms, *api.Error) {
	var fault, ignored *api.Error
	own := c.caller.Tenant
	reader := c.terms()
	t := reader.ReadDeadlines(r.asked.Object, own, &fault)
	asked, named := reader.ReadClass(r.asked.Unread(), own, &priority.Terms{}, &ignored)
	if t.Class = max(asked, own.HighestClass); t.Class != asked && named != "" {
		r.asked.Notes.Add("%s lowered to class %s, the highest of the tenant", named, t.Class)
		r.sent = r.sent.Without("priority", "service_tier")
		warn(c.ctx, r.asked.Notes)
	}
	return t, fault
}

// relayedClass is what the header of a relayed request says of its class; "" is nothing.
func (c *call) relayedClass(t priority.Terms) string {
	if c.header(priority.Header) == "" {
		return ""
	}
	return t.Class.String()
}

// prompts is how many prompts a relayed request has, each of which is answered.
func (r *relayed) prompts() int64 {
	for _, f := range r.sent.Fields {
		if f.Name != "prompt" {
			continue
		}
		var list []json.RawMessage
		if json.Unmarshal(f.Raw, &list) != nil || len(list) == 0 {
			continue
		}
		if c := list[0][0]; c == '"' || c == '[' { // else it is one of token ids
			return int64(len(list))
		}
	}
	return 1
}

// watchDeadlines ends the request at the upstream when a deadline passes. The end of
// the passage stops the timers.
func (p *passage) watchDeadlines(t priority.Terms) {
	for _, d := range []struct {
		at  time.Time
		why error
	}{{t.FirstTokenBy, errFirstTokenLate}, {t.DoneBy, errAnswerLate}} {
		if !d.at.IsZero() {
			p.timers = append(p.timers, time.AfterFunc(time.Until(d.at), func() { p.cancel(d.why) }))
		}
	}
	p.dated = !t.FirstTokenBy.IsZero()
}

// inTime stops the timer to the first token, which has come: of an answer that is no
// stream with the whole answer.
func (p *passage) inTime() {
	if p.dated {
		p.timers[0].Stop()
	}
}
