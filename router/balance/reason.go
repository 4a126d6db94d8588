package balance

import "strconv"

// Why is the kind of a Reason.
type Why uint8

// The kinds of reasons.
const (
	ByPolicy  Why = iota // the policy needs no other reason than its name
	ByPrefix             // it holds a prefix of the prompt
	ByLoad               // no candidate holds a prefix that is worth waiting for: the least cost is the least load
	BySession            // the session's home, where nothing else decided
	ByGate               // what the policy preferred is loaded far above the mean
	Only                 // no other replica may take it
)

// Reason says why a request went to a replica. It is a plain value.
type Reason struct {
	Why    Why
	Policy Policy
	Hit    int // keys of the prompt that the replica holds
	Of     int // keys of the prompt
}

// Append appends the reason as the header x-weir-route-reason has it: "prefix 12/14 blocks", "gate", "least_load" …
func (r Reason) Append(dst []byte) []byte {
	switch r.Why {
	case ByPrefix:
		dst = append(dst, "prefix "...)
		dst = strconv.AppendInt(dst, int64(r.Hit), 10)
		dst = append(dst, '/')
		dst = strconv.AppendInt(dst, int64(r.Of), 10)
		return append(dst, " blocks"...)
	case ByLoad:
		return append(dst, "least_load"...)
	case BySession:
		return append(dst, "session"...)
	case ByGate:
		return append(dst, "gate"...)
	case Only:
		return append(dst, "only"...)
	default:
		return append(dst, r.Policy.String()...)
	}
}

func (r Reason) String() string { return string(r.Append(nil)) }
