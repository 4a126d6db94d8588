package openai

import (
	"encoding/json"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/turnstile"
)

// request is the object of a whole request body, with what its reading needs.
type request struct {
	*jsonbody.Object
	turn *turnstile.Turn // nil for a short body

	// Of a request of /v1/responses.
	keepsResponses bool              // the server does
	previous       string            // id of the response that the request goes on from; "" is none
	earlier        []json.RawMessage // the items of the conversation so far
}

// readRequest checks a whole body and takes its object apart. A strict server refuses fields that others ignore.
func readRequest(body []byte, strict bool) (*request, *api.Error) {
	o, fault := jsonbody.Parse(body, strict)
	if fault != nil {
		return nil, fault
	}
	return &request{Object: o}, nil
}
