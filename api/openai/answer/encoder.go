package answer

import "weir/api"

// Encoder writes the deltas of one generation in the shape of an endpoint,
// as a stream of server-sent events or as one JSON object. Bytes are appended
// by hand: they are the contract, and a stream writes them once per token.
type Encoder interface {
	// AppendDelta appends the events that one delta makes.
	AppendDelta(dst []byte, d *Delta) []byte
	// AppendPulse appends a heartbeat event without content.
	AppendPulse(dst []byte) []byte
	// AppendEnd appends what follows the last delta.
	AppendEnd(dst []byte, u Usage) []byte
	// AppendFault appends the event that ends a broken stream. A client must
	// never take a broken answer for a short one, so nothing follows it.
	AppendFault(dst []byte, fault *api.Error) []byte
	// AppendWhole appends an answer that is no stream; choices are in order.
	AppendWhole(dst []byte, choices []Delta, u Usage) []byte
}
