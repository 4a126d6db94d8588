package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
)

// Kinds of failed requests. An answer with a status other than 200 is
// "http_NNN".
const (
	failConnect   = "connect"      // no connection
	failTimeout   = "timeout"      // of the request
	failBroken    = "connection"   // it broke before the answer was complete
	failTruncated = "truncated"    // the stream ended without [DONE] and without a finish_reason
	failStream    = "stream_error" // the server reported a fault inside the stream
	failBad       = "bad_stream"   // the answer is no stream of chunks, or exceeds the limits
	failEmpty     = "empty"        // no chunk with choices: there is no TTFT
	failRequest   = "request"      // it could not be built
	failCancelled = "cancelled"    // by the user
)

// Outcome is the result of one request. Times are in seconds; those of a failed
// request say how far it got.
type Outcome struct {
	Arrival float64 // when it should have been sent, since the run began
	Start   float64 // when it was sent, since the run began

	TTFT      float64   // to the first chunk with choices, as vLLM has it
	FirstText float64   // to the first chunk with text
	ITLs      []float64 // between chunks with choices
	Latency   float64   // to the last chunk with choices

	PromptTokens int
	OutputTokens int
	CachedTokens int  // of the prompt, if the server tells
	Counted      bool // the tokens are the server's; else words and chunks
	Chunks       int
	Resent       int // times it was sent again: the server had closed the idle connection

	Text        string // only with ServeOptions.KeepText
	Fingerprint string // the server's system_fingerprint
	Replica     string // that answered, as the header x-weir-replica has it; "" without a router
	Kind        string // of failure; "" is success
	Error       string
}

func (o *Outcome) ok() bool { return o.Kind == "" }

func (o *Outcome) fail(kind string, err error) {
	o.Kind, o.Error = kind, err.Error()
}

// chunk is one event of a stream, of either endpoint.
type chunk struct {
	Choices []struct {
		Text  string `json:"text"`
		Delta struct {
			Content          string `json:"content"`
			Reasoning        string `json:"reasoning"`
			ReasoningContent string `json:"reasoning_content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage       *usage          `json:"usage"`
	Error       json.RawMessage `json:"error"`
	Fingerprint string          `json:"system_fingerprint"`
}

// exchange sends one request and times its answer. The clock starts just
// before the request is sent.
func (t *Target) exchange(ctx context.Context, r *Request, began time.Time, keepText bool) Outcome {
	out := Outcome{PromptTokens: r.Words}
	body, err := t.body(r, r.OutputTokens, true)
	if err != nil {
		out.fail(failRequest, err)
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	var sent atomic.Int64
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Add(1) }})
	req, err := t.newRequest(ctx, http.MethodPost, t.BaseURL+t.Endpoint, body)
	if err != nil {
		out.fail(failRequest, err)
		return out
	}
	// Servers close idle connections, sometimes just as a request is sent. An
	// empty key, which is not sent, lets the transport use another connection
	// if an old one ends without a byte of an answer.
	req.Header["Idempotency-Key"] = []string{}
	start := time.Now()
	out.Start = start.Sub(began).Seconds()
	resp, err := t.client.Do(req)
	out.Resent = int(max(0, sent.Load()-1))
	if err != nil {
		out.fail(kindOf(ctx, err, failBroken), err)
		return out
	}
	defer resp.Body.Close()
	out.Replica = resp.Header.Get("X-Weir-Replica")
	if resp.StatusCode != http.StatusOK {
		out.fail(fmt.Sprintf("http_%d", resp.StatusCode), readStatusError(resp))
		return out
	}
	s := streamed{out: &out, start: start, keepText: keepText}
	if kind, err := s.read(resp.Body); err != nil {
		out.fail(kindOf(ctx, err, kind), err)
	} else {
		drain(resp.Body, cancel)
	}
	s.count()
	return out
}

// drain reads the end of the stream that follows [DONE], so that the connection
// can be used again. It does not wait for a server that leaves the stream open.
func drain(body io.Reader, cancel func()) {
	const most, patience = 64 << 10, time.Second
	defer time.AfterFunc(patience, cancel).Stop()
	_, _ = io.Copy(io.Discard, io.LimitReader(body, most)) // the answer is complete whatever comes
}

// kindOf prefers a reason that bench itself had (a time-out, a cancel) to the
// network error that followed from it.
func kindOf(ctx context.Context, err error, kind string) string {
	var timeout net.Error
	var op *net.OpError
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return failCancelled
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return failTimeout
	case errors.As(err, &op) && op.Op == "dial":
		return failConnect
	default:
		return kind
	}
}

// streamed is one answer while it is read.
type streamed struct {
	out      *Outcome
	start    time.Time
	keepText bool

	last     float64 // time of the last chunk with choices
	text     strings.Builder
	texts    int // chunks with text
	usage    *usage
	finished bool
}

var (
	errTruncatedStream = errors.New("the stream ended without [DONE] and without a finish_reason")
	errNoChunk         = errors.New("the stream had no chunk with choices, so there is no time to first token")
)

// read takes the stream to its end; the kind belongs to the error.
func (s *streamed) read(body io.Reader) (kind string, err error) {
	defer func() { s.out.Text = s.text.String() }()
	events := newEventReader(body)
	for {
		data, err := events.next()
		now := time.Since(s.start).Seconds()
		switch {
		case errors.Is(err, io.EOF) && !s.finished:
			return failTruncated, errTruncatedStream
		case errors.Is(err, io.EOF), err == nil && bytes.Equal(data, done):
			if s.out.Chunks == 0 {
				return failEmpty, errNoChunk
			}
			return "", nil
		case errors.Is(err, errEventSize), errors.Is(err, errStreamSize):
			return failBad, err
		case err != nil:
			return failBroken, err
		}
		if kind, err := s.chunk(data, now); err != nil {
			return kind, err
		}
	}
}

// chunk records one event, which has just arrived.
func (s *streamed) chunk(data []byte, now float64) (kind string, err error) {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return failBad, fmt.Errorf("event %.100q: %w", data, err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return failStream, fmt.Errorf("the server reported %.300s", c.Error)
	}
	if c.Usage != nil {
		s.usage = c.Usage
	}
	if c.Fingerprint != "" {
		s.out.Fingerprint = c.Fingerprint
	}
	if len(c.Choices) == 0 {
		return "", nil
	}
	if s.out.Chunks == 0 {
		s.out.TTFT = now
	} else {
		s.out.ITLs = append(s.out.ITLs, now-s.last)
	}
	s.last = now
	s.out.Latency = now
	s.out.Chunks++
	first := &c.Choices[0]
	s.finished = s.finished || first.FinishReason != ""
	s.take(first.Text+first.Delta.Content+first.Delta.Reasoning+first.Delta.ReasoningContent, now)
	return "", nil
}

// take appends a chunk's text.
func (s *streamed) take(text string, now float64) {
	if text == "" {
		return
	}
	if s.texts++; s.texts == 1 {
		s.out.FirstText = now
	}
	if s.keepText {
		s.text.WriteString(text)
	}
}

// count takes the token counts from the answer's usage. Without usage it counts the
// chunks that have text as output tokens, and the caller counts the prompt's words.
func (s *streamed) count() {
	if s.usage == nil {
		s.out.OutputTokens = max(s.texts, min(1, s.out.Chunks))
		return
	}
	s.out.Counted = true
	s.out.PromptTokens, s.out.OutputTokens = s.usage.PromptTokens, s.usage.CompletionTokens
	if s.usage.Details != nil {
		s.out.CachedTokens = s.usage.Details.CachedTokens
	}
}
