package batch

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/tenant"
)

// Codes of lines without a response.
const (
	codeExpired   = "batch_expired"
	codeCancelled = "batch_cancelled"
	codeTimeout   = "request_timeout"
)

// reply is what the edge said to a line.
type reply struct {
	status    int
	requestID string
	reason    string        // the error's code
	wait      time.Duration // after which trying again is worth while; 0: never
	body      []byte
}

// ask has the edge answer a line as a request of the batch's caller. A panic is the line's, not the process's.
func (w *worker) ask(l *line, endpoint string, caller tenant.Caller, gone <-chan struct{}) (r reply) {
	ctx := newInternalRequest(fasthttp.MethodPost, endpoint, l.body)
	ctx.Request.Header.Set("X-Weir-Class", "batch")
	defer func() {
		if v := recover(); v != nil {
			w.panicked(v)
			r = reply{status: fasthttp.StatusInternalServerError, reason: "internal_error",
				body: api.Refuse("internal_error", "the server hit a bug while it handled this line").AppendJSON(nil)}
		}
	}()
	w.config.Edge.HandleFor(ctx, &edge.InternalRequest{
		Caller: caller, Gone: gone, PricePercent: w.config.Limits.PricePercent,
	})
	res := &ctx.Response
	r = reply{status: res.StatusCode(), requestID: string(res.Header.Peek("X-Request-Id")), reason: string(res.Header.Peek("X-Weir-Reason"))}
	r.body = bytes.Clone(res.Body())
	if ms, err := strconv.ParseInt(string(res.Header.Peek("Retry-After-Ms")), 10, 64); err == nil {
		r.wait = time.Duration(ms) * time.Millisecond
	}
	return r
}

func (r *reply) succeeded() bool { return r.status >= 200 && r.status < 300 }

// outputLine is a line of the output file or of the file of errors.
type outputLine struct {
	ID       string        `json:"id"`
	CustomID *string       `json:"custom_id"` // nil: of a line that cannot be read
	Response *lineResponse `json:"response"`
	Error    *lineFault    `json:"error"`
}

type lineResponse struct {
	Status    int             `json:"status_code"`
	RequestID string          `json:"request_id"`
	Body      json.RawMessage `json:"body"`
}

type lineFault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"` // of the input file, from 1, where the custom_id may not tell
}

// unreadable is the record of a line that is no JSON.
func unreadable(index, number int, text []byte, wrong *LineError) record {
	out := outputLine{ID: newID("batch_req_"), Error: &lineFault{wrong.Code, wrong.Message, number}}
	if name := nameOf(text); name != "" {
		out.CustomID = &name
	}
	return record{index: index, text: encode(&out)}
}

// record is a line's reply as the journal keeps it.
func (r *reply) record(l *line) record {
	out := outputLine{ID: newID("batch_req_"), CustomID: &l.customID}
	if r.status == fasthttp.StatusRequestTimeout {
		out.Error = &lineFault{Code: codeTimeout, Message: faultMessage(r.body)}
	} else {
		out.Response = &lineResponse{r.status, r.requestID, asJSON(r.body)}
	}
	return record{index: l.index, succeeded: r.succeeded(), text: encode(&out)}
}

// notRun is the line of a request that was not run.
func notRun(customID, code, message string) []byte {
	return encode(&outputLine{ID: newID("batch_req_"), CustomID: &customID, Error: &lineFault{Code: code, Message: message}})
}

// encode is a value as one line.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // the body is valid JSON, and the rest are strings
		return []byte("{}\n")
	}
	return b.Bytes()
}

// asJSON is a body as a JSON value; one that is none becomes a string.
func asJSON(body []byte) json.RawMessage {
	if json.Valid(body) {
		return body
	}
	text, err := json.Marshal(string(body))
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}

func faultMessage(body []byte) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &e) == nil && e.Error.Message != "" {
		return e.Error.Message
	}
	var p struct {
		Error string `json:"error"` // of a prediction
	}
	if json.Unmarshal(body, &p) == nil && p.Error != "" {
		return p.Error
	}
	return "the request's time was over"
}
