package relay

import (
	"weir/api"
	"weir/api/edge"
	"weir/api/meter"
	"weir/tokenizer"
)

// Relay is what the relayed requests of one server have in common.
type Relay struct {
	Hooks     *edge.Hooks
	Running   *edge.Running
	Estimates *meter.Estimates   // of the lengths of answers
	Counter   *tokenizer.Counter // counts for OpenAI-family model names; nil: none
}

// A Route is the path that the client asked on: the status and the form of its errors.
type Route interface {
	Name() string
	StatusOf(status int) int
	HasErrorForm(body []byte) bool
	AppendFault(dst []byte, fault *api.Error) []byte
}

// What a relayed request is expected to use is a guess, which its upstream's count
// corrects at the end: the tokenizer is there.
const (
	BytesPerToken = 4
	MaxTokens     = 4096 // where a request sets no limit
)
