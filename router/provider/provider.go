// Package provider puts the APIs of model providers into the words of chat completions: a chat is written as the
// provider's request, and the provider's answer, whole or as a stream, is written as a chat completion. It has no
// connections and no clock.
package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// API is a provider's API. Implementations hold nothing.
type API interface {
	// Path is where requests for a model go, below the base URL.
	Path(model string, stream bool) string
	// Authorize adds the provider's credential, and what its API wants in every header. body is what is sent.
	Authorize(req *http.Request, key string, body []byte) error
	// Secrets are what Authorize sends or signs with; they must not reach clients or logs.
	Secrets(key string) []string
	// Streams reports whether answers of a content type are streams.
	Streams(contentType string) bool
	// Request writes a chat as the provider's request. The error is a *Refusal where the provider cannot do what the chat asks for.
	Request(chat []byte, model string, o Options) (*Request, error)

	whole(answer []byte, to sink) error
	decoder() decoder
	frames(from io.Reader) frames
	// said reads a refusal. Its status is one that says the same in HTTP, whatever the provider has made of it.
	said(status int, h http.Header, body []byte) fault
}

// Options of a request.
type Options struct {
	Stream    bool
	Unsampled bool // the model refuses temperature, top_p and top_k
}

// RefusesSampling reports whether a refusal, as Error has written it, says that the model takes no parameters of sampling. Anthropic's later
// models do not, at Bedrock neither; which ones is said nowhere in their APIs.
func RefusesSampling(status int, body []byte) bool {
	if status != http.StatusBadRequest || !bytes.Contains(body, []byte("is deprecated for this model")) {
		return false
	}
	for _, name := range samplingNames {
		if bytes.Contains(body, []byte("`"+name+"`")) {
			return true
		}
	}
	return false
}

var samplingNames = []string{"temperature", "top_p", "top_k"}

// withoutSampling leaves the parameters out that a model refuses.
func (c *chat) withoutSampling(o Options) {
	if !o.Unsampled {
		return
	}
	for i, p := range []**float64{&c.temperature, &c.topP, &c.topK} {
		if *p != nil {
			*p = nil
			c.ignored = append(c.ignored, samplingNames[i])
		}
	}
}

// Request is a chat in the provider's words.
type Request struct {
	Body    []byte
	Ignored []string // fields of the chat that the provider has no place for, and that change no answer's form
}

// Identity is what stands in every object of a chat's answer.
type Identity struct {
	ID      string // of the request
	Model   string
	Created int64 // seconds since 1970
}

// Refusal is a chat that a provider cannot answer.
type Refusal struct {
	Param   string // the field that it cannot do
	message string
	code    string
}

func (r *Refusal) Error() string { return r.message }

// Body is the refusal as OpenAI's clients read it.
func (r *Refusal) Body() []byte {
	return errorBody(map[string]any{"message": r.message, "type": "invalid_request_error", "param": r.Param, "code": r.code})
}

func lacks(param, format string, args ...any) *Refusal {
	return &Refusal{Param: param, message: param + ": " + fmt.Sprintf(format, args...), code: "unsupported_parameter"}
}

func wrong(param, format string, args ...any) *Refusal {
	return &Refusal{Param: param, message: param + ": " + fmt.Sprintf(format, args...), code: "invalid_value"}
}

// ErrUnreadable says that an answer is none of the provider's API.
var ErrUnreadable = errors.New("the provider's answer cannot be read")

func unreadable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnreadable, fmt.Errorf(format, args...))
}

// Whole writes an answer that is no stream as a chat completion.
func Whole(api API, answer []byte, who Identity) ([]byte, error) {
	m := message{who: who}
	if err := api.whole(answer, &m); err != nil {
		if f, ok := errors.AsType[*fault](err); ok {
			return f.body(), nil
		}
		return nil, err
	}
	return m.body()
}

// Error writes a refusal as OpenAI's clients read it, and sets Retry-After where the provider says it elsewhere.
func Error(api API, status int, h http.Header, body []byte) (int, []byte) {
	f := api.said(status, h, body)
	if status >= http.StatusInternalServerError && f.status < http.StatusInternalServerError {
		f.status = status // the server has failed, whatever its error is called
	}
	if f.wait != "" && h.Get("Retry-After") == "" {
		h.Set("Retry-After", f.wait)
	}
	if f.status < http.StatusBadRequest {
		return f.status, body
	}
	return f.status, f.body()
}

// fault is an error of a provider.
type fault struct {
	status  int
	kind    string // the provider's word for it
	message string
	wait    string // seconds before the next request; "": it does not say
}

func (f *fault) Error() string {
	return fmt.Sprintf("%s (status %d): %.200s", f.kind, f.status, f.message)
}

// body has the status as its code, by which the readers of streams tell errors apart.
func (f *fault) body() []byte {
	return errorBody(map[string]any{"message": f.message, "type": f.kind, "param": nil, "code": f.status})
}

func errorBody(fields map[string]any) []byte {
	body, err := json.Marshal(map[string]any{"error": fields})
	if err != nil {
		return []byte(`{"error":{}}`) // strings and numbers always have a JSON form
	}
	return body
}

// OnlyChats refuses a request of another kind.
func OnlyChats(provider, path string) *Refusal {
	return &Refusal{
		message: "the replica of kind " + provider + " answers chats, and not requests of " + path + "; use a chat, or a model with other replicas",
		code:    "unsupported_endpoint",
	}
}
