package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"weir/router"
	"weir/router/chunk"
)

// What the fleet reads of a stream of server-sent events: enough to know whether a client
// has seen content, and whether the stream came to its end.

// lineContent says what a line of a stream is.
type lineContent uint8

const (
	nothing lineContent = iota // a comment, an empty line, a field that is no data
	beat                       // a chunk without choices: a heartbeat
	opening                    // a chunk without content: the role that begins an answer
	begun                      // content, usage, a finish reason, or data of another kind
	failed                     // an error, or what should be JSON and is not
	ended                      // [DONE]
)

var (
	dataField = []byte("data:")
	doneLine  = []byte("[DONE]")
)

// dataOf returns a line's data.
func dataOf(line []byte) ([]byte, bool) {
	data, ok := bytes.CutPrefix(line, dataField)
	return bytes.TrimSpace(data), ok
}

func isEmpty(value json.RawMessage) bool {
	switch string(bytes.TrimSpace(value)) {
	case "", "null", `""`, "[]", "{}":
		return true
	}
	return false
}

// judge reads one line of a stream that has no content yet. The error says what failed.
func judge(line []byte) (lineContent, error) {
	data, ok := dataOf(line)
	switch {
	case !ok || len(data) == 0:
		return nothing, nil
	case bytes.Equal(data, doneLine):
		return ended, EmptyAnswer.because("the stream ended with [DONE] before it had content")
	}
	var r chunk.Reader
	c := r.Read(data)
	switch {
	case c == nil:
		return failed, BadAnswer.because("an event is no JSON: %.200q", data)
	case !c.Error.IsEmpty():
		return failed, &eventError{text: string(c.Error.Of(data))}
	case c.Wrong != "":
		return failed, BadAnswer.because("%s of an event has a wrong type: %.200q", c.Wrong, data)
	case c.Said() || c.Finished != 0 || c.Choices < 0 || c.Choices == 0 && c.HasUsage():
		return begun, nil
	case c.Choices == 0:
		return beat, nil
	}
	return opening, nil
}

var _ router.StreamedFault = (*eventError)(nil)

// eventError is an error that a server has written into its stream.
type eventError struct {
	text    string // JSON of its error
	dialect dialect
}

func (e *eventError) Error() string {
	return fmt.Sprintf("the stream has an error: %.200s", e.text)
}

// Refusal implements router.StreamedFault: the error as an answer that is no stream would have it.
func (e *eventError) Refusal() (status int, body []byte) {
	var said struct {
		Code any
		Type string
	}
	_ = json.Unmarshal([]byte(e.text), &said) // what is no object says no status
	status = http.StatusInternalServerError
	switch code := said.Code.(type) {
	case float64:
		if code >= http.StatusBadRequest && code < 600 {
			status = int(code)
		}
	case string:
		if e.dialect != "" {
			status = cmp.Or(faultStatuses[code], status)
		}
	}
	if e.dialect != "" {
		status = cmp.Or(faultStatuses[said.Type], status)
	}
	if e.dialect == dialect(router.Messages) {
		return status, []byte(`{"type":"error","error":` + e.text + `}`)
	}
	return status, []byte(`{"error":` + e.text + `}`)
}

// isEventStream tells streams by their content type.
func isEventStream(contentType string) bool {
	return strings.HasPrefix(contentType, "text/event-stream")
}
