package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"weir/router"
	"weir/router/chunk"
)

// Fault is what is wrong with a replica's answer. Its text is that of metrics and of /admin/explain.
type Fault uint8

// The faults. What follows each stands in treatments.
const (
	NoFault       Fault = iota
	Unreachable         // no connection came about
	NoAnswer            // the connection broke, or nothing came for too long, before content
	ServerError         // 500 and above, but 501 and 503
	BadAnswer           // 200 with what cannot be read: HTML, torn JSON, an event that is no JSON
	EmptyAnswer         // 200 without choices
	NotStreamed         // 200 with one JSON object where a stream was asked for
	BrokenStream        // a stream that broke after content
	Overrun             // a stream that goes on behind the end of its answer
	Misconfigured       // 3xx, 401, 402, 403, 404, 405, 407: a key, an account, a path or a model's name is wrong, if other replicas answer
	NoEndpoint          // 404, 405 of embeddings, ranking and the like that say nothing of the model: the server does not have this API
	TooLarge            // 413, as above
	Throttled           // 429
	Overloaded          // 503, 529
	Rejected            // another status of 400 and above: the request is wrong
	Unsupported         // never sent: the replica's API cannot do what the request asks for
	NoMemory            // a whole answer for which this server has no memory now
	Oversized           // a whole answer for which this server never has memory
	numFaults
)

// retry says whether another replica is asked after a fault.
type retry uint8

const (
	never    retry = iota
	always         // the replica has done nothing for the request
	once           // the replica has no room, and others may be as full
	opinion        // another replica shows whose fault it is; maxAttempts at most
	budgeted       // the replica may have worked for it; maxAttempts at most, within the budget of retries
)

// blame says whether a fault counts to the replica's breaker.
type blame uint8

const (
	innocent  blame = iota
	suspected       // it does where another replica answers the same request
	guilty
)

// treatments is what follows each fault: whether another replica is asked, whether it counts to the breaker, whether the
// replica gets no requests for the time that it asks for (Retry-After), and what a caller is told where no other one answers.
var treatments = [numFaults]struct {
	name  string
	again retry
	blame blame
	cools bool
	tells string
}{
	NoFault:       {"", never, innocent, false, ""},
	Unreachable:   {"unreachable", always, guilty, false, "cannot be reached"},
	NoAnswer:      {"no_answer", budgeted, guilty, false, "did not answer, or broke its connection off"},
	ServerError:   {"server_error", budgeted, guilty, false, "failed"},
	BadAnswer:     {"bad_answer", budgeted, guilty, false, "gave an answer that cannot be read"},
	EmptyAnswer:   {"empty_answer", budgeted, guilty, false, "gave an answer with nothing in it"},
	NotStreamed:   {"not_streamed", budgeted, guilty, false, "did not stream its answer"},
	BrokenStream:  {"broken_stream", budgeted, guilty, false, "did not bring its answer to the end"}, // asked again only where the client lets a stream be resumed
	Overrun:       {"overrun", never, guilty, false, "went on behind the end of its answer"},         // the caller has the whole answer, and none of what follows
	Misconfigured: {"misconfigured", opinion, suspected, false, "does not take requests from this server"},
	NoEndpoint:    {"no_endpoint", opinion, suspected, false, "does not have this API"},
	TooLarge:      {"too_large", opinion, suspected, false, "does not take so large a request"},
	Throttled:     {"throttled", once, innocent, true, "takes no more requests for now"},
	Overloaded:    {"overloaded", once, innocent, true, "is overloaded"},
	Rejected:      {"rejected", never, innocent, false, "refuses the request"},
	Unsupported:   {"unsupported", always, innocent, false, "cannot do what the request asks for"},
	NoMemory:      {"no_memory", never, innocent, false, "gave an answer for which this server has no memory now"},
	Oversized:     {"oversized", never, innocent, false, "gave an answer that is larger than this server takes"},
}

func (f Fault) String() string { return treatments[f].name }

// faultOf is what a status says.
func faultOf(status int) Fault {
	switch {
	case status >= http.StatusOK && status < http.StatusMultipleChoices:
		return NoFault
	case status < http.StatusBadRequest, status == http.StatusUnauthorized, status == http.StatusPaymentRequired, status == http.StatusForbidden, status == http.StatusNotFound,
		status == http.StatusMethodNotAllowed, status == http.StatusProxyAuthRequired:
		return Misconfigured
	case status == http.StatusRequestEntityTooLarge:
		return TooLarge
	case status == http.StatusTooManyRequests:
		return Throttled
	case status == http.StatusServiceUnavailable, status == statusOverloaded:
		return Overloaded
	case status < http.StatusInternalServerError, status == http.StatusNotImplemented:
		return Rejected
	}
	return ServerError
}

// judged is the fault of a refusal. A client that asks a chat model for vectors is told that there is no such path by servers that are well
// configured: chats show whether they are.
func (fl *flight) judged(a *router.Answer) Fault {
	fault := faultOf(a.Status)
	missing := a.Status == http.StatusNotFound || a.Status == http.StatusMethodNotAllowed
	if fault == Misconfigured && missing && fl.call.Infer == nil && !generating[fl.call.Path] && !bytes.Contains(bytes.ToLower(a.Whole), []byte("model")) {
		return NoEndpoint
	}
	return fault
}

// generating are the paths of chat models: every server has the first two, and the others by its configuration here.
var generating = map[string]bool{chatPath: true, "/completions": true, "/responses": true, "/messages": true, "/messages/count_tokens": true}

// statusOverloaded is what Anthropic's API has for 503.
const statusOverloaded = 529

// misconfigurations are what statuses say that only an operator can change. Others of these are redirects.
var misconfigurations = map[int]string{
	0:                       "cannot be asked with the credential that this server has",
	http.StatusUnauthorized: "refuses this server's credential", http.StatusForbidden: "refuses this server's credential",
	http.StatusPaymentRequired:   "wants to be paid first",
	http.StatusProxyAuthRequired: "stands behind a proxy that refuses this server's credential",
	http.StatusNotFound:          "does not know the model, or the path, that it was asked for", http.StatusMethodNotAllowed: "does not take requests on the path that it was asked on",
}

// faultError is a fault with what shows it.
type faultError struct {
	fault  Fault
	err    error
	status int // of the answer that shows it; 0: another thing does
}

func (e *faultError) Error() string { return e.fault.String() + ": " + e.err.Error() }
func (e *faultError) Unwrap() error { return e.err }

// FaultKind implements router.UpstreamFault.
func (e *faultError) FaultKind() string { return e.fault.String() }

// Told implements router.UpstreamFault.
func (e *faultError) Told() string {
	text := treatments[e.fault].tells
	if e.fault == Misconfigured {
		text = cmp.Or(misconfigurations[e.status], "redirects to another address")
	}
	if e.status != 0 {
		text += fmt.Sprintf(" (status %d)", e.status)
	}
	return text
}

// Lasting implements router.UpstreamFault.
func (e *faultError) Lasting() bool { return e.fault == Misconfigured }

var _ router.UpstreamFault = (*faultError)(nil)

func (f Fault) because(format string, args ...any) error {
	return &faultError{fault: f, err: fmt.Errorf(format, args...)}
}

// ofStatus is the fault of a status as an error.
func (f Fault) ofStatus(status int) *faultError {
	return &faultError{fault: f, err: fmt.Errorf("status %d", status), status: status}
}

// listed are the lists without which an answer under 200 says nothing, by path.
var listed = map[string]string{
	"/chat/completions": "choices", "/completions": "choices", "/embeddings": "data", "/messages": "content", "/responses": "output",
}

// check reads an answer under 200 that is no stream as far as to know that it is one to the call. An error object in it
// is an *eventError.
func (fl *flight) check(a *router.Answer) error {
	c := fl.call
	if c.Infer != nil {
		err := c.Infer.Read(a.Header, a.Whole)
		var said struct{ Error json.RawMessage }
		switch {
		case err == nil:
			return nil
		case json.Unmarshal(a.Whole, &said) == nil && !isEmpty(said.Error):
			return &eventError{text: string(said.Error)}
		}
		return BadAnswer.because("%w", err)
	}
	if !chunk.IsJSON(a.Whole) {
		return BadAnswer.because("the answer is no JSON: %.200q", a.Whole)
	}
	name := listed[c.Path]
	var list, fault []byte // an array or a number has no fields
	for field, value := range chunk.Fields(a.Whole) {
		switch field {
		case "error":
			fault = value
		case name:
			list = value
		}
	}
	switch {
	case len(fault) > maxErrorBytes:
		return BadAnswer.because("the answer has an error of %d bytes", len(fault))
	case !isEmpty(fault):
		return &eventError{text: string(fault), dialect: dialect(apiOf(c.Path))}
	case name != "" && !isList(list):
		return EmptyAnswer.because("the answer has no %s: %.200q", name, a.Whole)
	case name == "choices":
		if err := checkChoices(list); err != nil {
			return err
		}
	}
	if c.Stream {
		return NotStreamed.because("a stream was asked for, and the answer is %.100q", a.Header.Get("Content-Type"))
	}
	return nil
}

// isList reports whether a value is a list; content and output may be empty ones.
func isList(value []byte) bool { return len(value) > 0 && value[0] == '[' }

func isObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

// checkChoices reads the choices of a whole answer as far as their clients need them.
func checkChoices(list []byte) error {
	n := 0
	for choice := range chunk.Elements(list) {
		if !isObject(choice) {
			return BadAnswer.because("choices of the answer have a wrong type: %.200q", list)
		}
		if err := checkChoice(n, choice); err != nil {
			return err
		}
		n++
	}
	if n == 0 {
		return EmptyAnswer.because("the answer has no choices")
	}
	return nil
}

func checkChoice(i int, choice []byte) error {
	var index, text, message, content []byte
	for field, value := range chunk.Fields(choice) {
		switch field {
		case "index":
			index = value
		case "text":
			text = value
		case "message":
			message = value
		}
	}
	for field, value := range chunk.Fields(message) {
		if field == "content" {
			content = value
		}
	}
	switch {
	case len(index) > 0 && index[0] == '-':
		return BadAnswer.because("the index of choice %d is below 0: %.40q", i, index)
	case isText(text):
	case isNull(message):
		return EmptyAnswer.because("choice %d of the answer has no message", i)
	case !isObject(message):
		return BadAnswer.because("the message of choice %d has a wrong type: %.200q", i, message)
	case !isNull(content) && !isText(content) && !isList(content):
		return BadAnswer.because("the content of choice %d has a wrong type: %.200q", i, content)
	}
	return nil
}

func isText(value json.RawMessage) bool { return len(value) > 0 && value[0] == '"' }
func isNull(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }
