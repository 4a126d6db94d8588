package fleet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"weir/router"
)

// What the fleet reads of a stream of server-sent events: enough to know whether a client
// has seen content, and whether the stream came to its end.

// content says what a line of a stream is.
type content uint8

const (
	nothing content = iota // a comment, an empty line, a field that is no data
	beat                   // a chunk without choices: a heartbeat
	opening                // a chunk without content: the role that begins an answer
	begun                  // content, usage, a finish reason, or data of another kind
	failed                 // an error, or what should be JSON and is not
	ended                  // [DONE]
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

// chunk is what is read of one event of a generation.
type chunk struct {
	Choices []struct {
		Index int     `json:"index"`
		Text  *string `json:"text"`
		Delta *delta  `json:"delta"`

		Finish *string `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// delta is a piece of a message. Fields that weir does not know are content, too.
type delta map[string]json.RawMessage

// has reports whether the delta has more than a role and empty values.
func (d delta) has() bool {
	for name, value := range d {
		if name != "role" && !isEmpty(value) {
			return true
		}
	}
	return false
}

func isEmpty(value json.RawMessage) bool {
	switch string(bytes.TrimSpace(value)) {
	case "", "null", `""`, "[]", "{}":
		return true
	}
	return false
}

// judge reads one line of a stream. The error says what failed.
func judge(line []byte) (content, error) {
	data, ok := dataOf(line)
	switch {
	case !ok || len(data) == 0:
		return nothing, nil
	case bytes.Equal(data, doneLine):
		return ended, nil
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		if json.Valid(data) {
			return begun, nil // data of another kind
		}
		return failed, BadAnswer.because("an event is no JSON: %.200q", data)
	}
	switch {
	case !isEmpty(c.Error):
		return failed, &eventError{text: string(c.Error)}
	case !isEmpty(c.Usage) || c.Choices == nil:
		return begun, nil
	case len(c.Choices) == 0:
		return beat, nil
	}
	for _, choice := range c.Choices {
		text := choice.Text != nil && *choice.Text != ""
		if text || choice.Finish != nil || choice.Delta != nil && choice.Delta.has() {
			return begun, nil
		}
	}
	return opening, nil
}

// eventError is an error that a server has written into its stream.
type eventError struct {
	text    string // JSON of its error
	dialect dialect
}

func (e *eventError) Error() string {
	return fmt.Sprintf("the stream began with an error: %.200s", e.text)
}

// answer is the error as an answer that is no stream would have it.
func (e *eventError) answer() (status int, body []byte) {
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

// tailBytes is how much of a stream's end is kept: enough for its last events.
const tailBytes = 4 << 10

// tail remembers the last bytes of a stream.
type tail struct {
	dialect dialect
	ending  ending              // of a stream of typed events, in place of what follows
	kept    [2 * tailBytes]byte // twice of what is wanted, so that hardly any piece moves what came before it
	n       int
}

func (t *tail) add(piece []byte) {
	if t.dialect != "" {
		t.ending.add(piece)
		return
	}
	piece = piece[max(0, len(piece)-tailBytes):]
	if t.n+len(piece) > len(t.kept) {
		t.n = copy(t.kept[:], t.kept[t.n-tailBytes:t.n])
	}
	t.n += copy(t.kept[t.n:], piece)
}

// whole reports whether the stream came to its end: with [DONE], with an error event, or,
// of servers that send no [DONE], with a finish reason. A connection that ends in between
// is closed in the same way as one that ends well.
func (t *tail) whole() bool {
	if t.dialect != "" {
		return t.ending.whole
	}
	rest := t.kept[:t.n]
	for len(rest) > 0 {
		i := bytes.LastIndexByte(rest[:len(rest)-1], '\n')
		line := rest[i+1:]
		rest = rest[:max(i+1, 0)]
		data, ok := dataOf(line)
		if !ok || len(data) == 0 {
			if i < 0 {
				return false
			}
			continue
		}
		if bytes.Equal(data, doneLine) {
			return true
		}
		if finishes(data) {
			return true
		}
		if i < 0 || !bytes.Contains(data, []byte(`"usage"`)) {
			return false
		}
	}
	return false
}

// finishes reports whether an event is the last one of a generation's content, or an error.
func finishes(data []byte) bool {
	var c chunk
	if json.Unmarshal(data, &c) != nil {
		return false
	}
	if !isEmpty(c.Error) {
		return true
	}
	for _, choice := range c.Choices {
		if choice.Finish != nil {
			return true
		}
	}
	return false
}

// isEventStream tells streams by their content type.
func isEventStream(contentType string) bool {
	return strings.HasPrefix(contentType, "text/event-stream")
}
