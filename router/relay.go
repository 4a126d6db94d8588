package router

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Relay passes requests on to an OpenAI-compatible server, which has its own
// tokenizer and template: bytes go in and bytes come out. It is safe for
// concurrent use.
type Relay struct {
	base   *url.URL
	key    string
	model  string
	client *http.Client
}

// RelayConfig says where an upstream is and what it calls the model.
type RelayConfig struct {
	BaseURL string // as OpenAI's clients have it: "http://10.0.0.7:8000/v1"
	APIKey  string // sent as a bearer token; "" is none
	Model   string // the upstream's name of the model

	// AnswerTimeout is the most that the upstream may take until its answer
	// begins, which for an answer that is no stream is all of it.
	AnswerTimeout time.Duration // 0 is DefaultAnswerTimeout
}

// DefaultAnswerTimeout is that of OpenAI's clients.
const DefaultAnswerTimeout = 10 * time.Minute

// idleConns is how many idle connections to an upstream are kept for later requests.
const idleConns = 64

// NewRelay checks c; it does not look for the upstream.
func NewRelay(c RelayConfig) (*Relay, error) {
	base, err := url.Parse(c.BaseURL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("base URL of an upstream: %w", err)
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("base URL %q of an upstream: it must be like http://host:8000/v1", c.BaseURL)
	case base.User != nil:
		return nil, fmt.Errorf("base URL of the upstream %s: keys do not belong into a URL; set the API key", base.Host)
	case c.Model == "":
		return nil, fmt.Errorf("upstream %s: the name of the model there is missing", base.Host)
	case c.AnswerTimeout < 0:
		return nil, fmt.Errorf("upstream %s: the answer timeout is %v; it must not be negative", base.Host, c.AnswerTimeout)
	}
	transport := &http.Transport{
		ResponseHeaderTimeout: cmp.Or(c.AnswerTimeout, DefaultAnswerTimeout),
		MaxIdleConns:          idleConns, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
		DisableCompression: true, // the client's own edge compresses
	}
	return &Relay{base: base, key: c.APIKey, model: c.Model, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the key goes nowhere else
	}}, nil
}

// Model is the upstream's name of the model.
func (r *Relay) Model() string { return r.model }

// Head is what the upstream is told of a request beside its body: what its own logs and
// traces need to name it, and the request's deadlines.
type Head struct {
	RequestID   string
	Traceparent string // W3C Trace Context; empty: not sent
	Tracestate  string // likewise

	FirstTokenBy, DoneBy time.Time // the time that is left is sent; zero is none
}

func (h *Head) deadlines(to http.Header) {
	for name, at := range map[string]time.Time{"X-Weir-Ttft-Ms": h.FirstTokenBy, "X-Weir-Deadline-Ms": h.DoneBy} {
		if !at.IsZero() {
			to.Set(name, strconv.FormatInt(max(time.Until(at).Milliseconds(), 1), 10))
		}
	}
}

// Send posts a JSON body to a path below the base URL, as
// "/chat/completions", and returns when the answer's header is there. The
// caller closes its body. Ending ctx ends the request also at the upstream.
// Send never retries, because the upstream would generate and charge twice.
func (r *Relay) Send(ctx context.Context, path string, h Head, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("relay to %s: %w", r.base.Host, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", h.RequestID)
	if h.Traceparent != "" {
		req.Header.Set("Traceparent", h.Traceparent)
	}
	if h.Tracestate != "" {
		req.Header.Set("Tracestate", h.Tracestate)
	}
	h.deadlines(req.Header)
	req.Header.Set("User-Agent", "weir")
	if r.key != "" {
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	res, err := r.client.Do(req)
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err // what is around it says POST and the URL
		}
		return nil, fmt.Errorf("relay to %s: %w", r.base.Host, err)
	}
	return res, nil
}
