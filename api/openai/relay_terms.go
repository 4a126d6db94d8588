package openai

import (
	"weir/api"
	"weir/api/openai/priority"
	"weir/api/openai/relay"
)

// A relayed request has deadlines like any other. Its class is for its upstream to obey,
// which has the queue, and at most the tenant's highest.

func (c *call) relayTerms(r *relay.Request) (priority.Terms, *api.Error) {
	var fault, ignored *api.Error
	own := c.caller.Tenant
	reader := c.terms()
	t := reader.ReadDeadlines(r.Asked.Object, own, &fault)
	asked, named := reader.ReadClass(r.Asked.Unread(), own, &priority.Terms{}, &ignored)
	if t.Class = max(asked, own.HighestClass); t.Class != asked && named != "" {
		r.Asked.Notes.Add("%s lowered to class %s, the highest of the tenant", named, t.Class)
		r.Sent = r.Sent.Without("priority", "service_tier")
		warn(c.ctx, r.Asked.Notes)
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
