package messages

import (
	"net/http"

	"weir/api"
)

// StatusOverloaded is what Anthropic's API has for 503, and its clients alone know.
const StatusOverloaded = 529

// messageFaults are the types of errors by status; others are api_error from 500 on, and invalid_request_error below.
var messageFaults = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
	http.StatusRequestTimeout: "timeout_error", http.StatusServiceUnavailable: "overloaded_error", StatusOverloaded: "overloaded_error",
}

// CodeThread refuses a request that belongs to a conversation which the server would keep. Anthropic's clients know it, and send the whole
// conversation then.
const CodeThread = "thread_unsupported_request"

// AppendFault appends {"type":"error","error":{type,message},"request_id"}.
func AppendFault(dst []byte, fault *api.Error, id string) []byte {
	kind, ok := messageFaults[fault.Status]
	switch {
	case ok:
	case fault.Status >= http.StatusInternalServerError:
		kind = "api_error"
	default:
		kind = "invalid_request_error"
	}
	dst = append(append(append(dst, `{"type":"error","error":{"type":"`...), kind...), `","message":`...)
	dst = api.AppendString(dst, fault.Message)
	if fault.Code == CodeThread {
		dst = append(dst, `,"details":{"error_code":"`+CodeThread+`"}`...)
	}
	dst = append(dst, '}')
	if id != "" {
		dst = api.AppendString(append(dst, `,"request_id":`...), id)
	}
	return append(dst, '}')
}
