package openai

import (
	"weir/api"
	"weir/api/openai/priority"
)

// A relayed request has deadlines like any other. Its class is for its upstream to obey,
// which has the queue, and at most the tenant's highest.

// readTerms reads the deadlines and the class of the request.
func (r *relaying) readTerms() *api.Error {
	var fault, ignored *api.Error
	own := r.caller.Tenant
	reader := r.termsReader()
	r.terms = reader.ReadDeadlines(r.Asked.Object, own, &fault)
	t := &r.terms
	asked, named := reader.ReadClass(r.Asked.Unread(), own, &priority.Terms{}, &ignored)
	if t.Class = max(asked, own.HighestClass); t.Class != asked && named != "" {
		r.Asked.Notes.Add("%s lowered to class %s, the highest of the tenant", named, t.Class)
		r.Sent = r.Sent.Without("priority", "service_tier")
		warn(r.ctx, r.Asked.Notes)
	}
	return fault
}

// class is what the header of a relayed request says of its class; "" is nothing.
func (r *relaying) class() string {
	if r.header(priority.Header) == "" {
		return ""
	}
	return r.terms.Class.String()
}
