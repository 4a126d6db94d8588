package job

import (
	"encoding/json"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/limiter"
)

// Body is the object of a whole request body, with what its reading needs.
type Body struct {
	*jsonbody.Object
	Permit *limiter.Permit // nil for a short body

	// Requests of /v1/responses have these.
	KeepsResponses bool              // the server does
	Previous       string            // id of the response that the request goes on from; "" is none
	Conversation   string            // id of the conversation that the request is part of; "" is none
	Earlier        []json.RawMessage // the items of the conversation so far
}

// ReadBody checks a whole body and takes its object apart. A strict server refuses fields that others ignore.
func ReadBody(body []byte, strict bool) (*Body, *api.Error) {
	o, fault := jsonbody.Parse(body, strict)
	if fault != nil {
		return nil, fault
	}
	return &Body{Object: o}, nil
}

// Under is the request with all its fields unread, and with other notes.
func (o *Body) Under(n *jsonbody.Notes) *Body {
	own := *o
	own.Object = o.Unread()
	own.Notes = n
	return &own
}

// KeepsState reports whether a request of Responses goes on from a response that is kept here, or
// asks that its own is kept.
func (o *Body) KeepsState() bool {
	var ignored *api.Error
	background := o.Flag("background", false, &ignored)
	store := o.Flag("store", o.KeepsResponses, &ignored)
	return o.Previous != "" || o.Conversation != "" || background || store
}
