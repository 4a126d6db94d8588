package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"weir/router"
)

// APIs lists the features that are APIs, for the field APIs of a Source.
func APIs() []string { return []string{string(router.Responses), string(router.Messages)} }

// apiOf is the API that a path below the base URL belongs to; "" is one that every replica serves.
func apiOf(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if slices.Contains(APIs(), first) {
		return first
	}
	return ""
}

func (s *Source) offers(what router.Feature) bool {
	kind := cmp.Or(s.Kind, Weir)
	if what == router.Continuing {
		return kinds[kind].continues
	}
	return kind == Weir || slices.Contains(s.APIs, string(what)) || slices.Contains(kinds[kind].apis, string(what))
}

// dialect is the form of a stream's events: "" is chat completions', whose end is [DONE]; the
// others have a type in each event.
type dialect string

// typedEvent is what is read of an event with a type.
type typedEvent struct {
	Type     string
	Error    json.RawMessage // of the event error of Messages, and of some servers' of Responses
	Response struct {
		Error json.RawMessage
	}
}

// openings are the events before any content: another replica can still answer.
var openings = []string{
	"response.created", "response.queued", "response.in_progress", "response.output_item.added", "response.content_part.added",
	"response.reasoning_part.added", "response.reasoning_summary_part.added",
	"message_start", "content_block_start",
}

// endings are the last events of streams, well or not.
var endings = []string{
	"response.completed", "response.incomplete", "response.failed", "response.cancelled", "message_stop", "error",
}

// judge reads one line of a stream. The error says what failed.
func (d dialect) judge(line []byte) (lineContent, error) {
	if d == "" {
		return judge(line)
	}
	data, ok := dataOf(line)
	if !ok || len(data) == 0 {
		return nothing, nil
	}
	var e typedEvent
	if err := json.Unmarshal(data, &e); err != nil {
		if json.Valid(data) {
			return begun, nil // data of another kind
		}
		return failed, BadAnswer.because("an event is no JSON: %.200q", data)
	}
	switch {
	case e.Type == "ping":
		return beat, nil
	case e.Type == "error" || e.Type == "response.failed":
		return failed, d.fault(data, &e)
	case slices.Contains(openings, e.Type):
		return opening, nil
	}
	return begun, nil
}

// fault is the error that an event tells of.
func (d dialect) fault(data []byte, e *typedEvent) *eventError {
	text := string(data)
	switch {
	case !isEmpty(e.Error):
		text = string(e.Error)
	case !isEmpty(e.Response.Error):
		text = string(e.Response.Error)
	}
	return &eventError{text: text, dialect: d}
}

// faultStatuses are what errors in typed events would have been as refusals, by their type or
// code. All others are failures of the replica.
var faultStatuses = map[string]int{
	"invalid_request_error": http.StatusBadRequest, "invalid_prompt": http.StatusBadRequest,
	"rate_limit_error": http.StatusTooManyRequests, "rate_limit_exceeded": http.StatusTooManyRequests,
	"overloaded_error": statusOverloaded, "authentication_error": http.StatusUnauthorized, "permission_error": http.StatusForbidden,
	"billing_error": http.StatusPaymentRequired, "not_found_error": http.StatusNotFound, "request_too_large": http.StatusRequestEntityTooLarge,
}

// endDetector watches a stream of typed events for the one that ends it. It keeps no event: the
// last one of Responses holds the whole answer. Look allocates nothing.
type endDetector struct {
	named string // the end that the field event of the event that passes names; "": none
	whole bool   // the last event with data was an end
	fails bool   // that of an answer that failed
}

// maxTypeBytes of a line hold the type of its event.
const maxTypeBytes = 96

// look reads the beginning of a line. Some servers write an event's type behind the rest of
// its data: then the field event alone says what it is.
func (e *endDetector) look(line []byte) {
	if name, ok := bytes.CutPrefix(line, []byte("event:")); ok {
		e.named = endingOf(bytes.TrimSpace(name))
		return
	}
	data, ok := dataOf(line)
	if !ok {
		return
	}
	end := e.named
	if end == "" {
		end = endingOf(typeOf(data))
	}
	e.whole, e.fails, e.named = end != "", end == "error" || end == "response.failed", ""
}

// typeOf is the type that an event's data begin with; empty: it stands elsewhere.
func typeOf(data []byte) []byte {
	kind, found := bytes.CutPrefix(data, []byte(`{"type":"`))
	if !found {
		kind, found = bytes.CutPrefix(data, []byte(`{"type": "`))
	}
	if i := bytes.IndexByte(kind, '"'); found && i > 0 {
		return kind[:i]
	}
	return nil
}

// endingOf is the end that a type names, "" where it names none.
func endingOf(name []byte) string {
	for _, e := range endings {
		if e == string(name) {
			return e
		}
	}
	return ""
}
