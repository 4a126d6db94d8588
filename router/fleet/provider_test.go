package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"weir/router"
)

// provided is a server that answers as a provider does: status 0 is a stream's text, another one a refusal.
type provided struct {
	*httptest.Server
	calls atomic.Int64
}

func newProvided(t *testing.T, contentType string, status int, header, text string) *provided {
	t.Helper()
	p := &provided{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		if name, value, ok := strings.Cut(header, ": "); ok {
			w.Header().Set(name, value)
		}
		w.Header().Set("Content-Type", contentType)
		if status != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(p.Close)
	return p
}

// amazonException is a message of an event stream that tells of an error.
func amazonException(t *testing.T, name string) string {
	t.Helper()
	var out bytes.Buffer
	m := eventstream.Message{Payload: []byte(`{"message":"` + name + `"}`)}
	m.Headers.Set(":message-type", eventstream.StringValue("exception"))
	m.Headers.Set(":exception-type", eventstream.StringValue(name))
	if err := eventstream.NewEncoder().Encode(&out, m); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const (
	serverSent = "text/event-stream"
	amazonSent = "application/vnd.amazon.eventstream"
	userSays   = `"messages":[{"role":"user","content":"x"}]`
)

// providerFaults are what providers do, and the row of the table that follows.
var providerFaults = []struct {
	name   string
	kind   Kind
	media  string
	status int
	header string
	text   func(t *testing.T) string
	want   Fault
	rests  time.Duration // at least
}{
	{"overloaded", Anthropic, "", 529, "Retry-After: 20", texts(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), Overloaded, 15 * time.Second},
	{"rate limit", Anthropic, "", 429, "Retry-After: 20", texts(`{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`), Throttled, 15 * time.Second},
	{"no balance", Anthropic, "", 400, "", texts(`{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`), Misconfigured, 0},
	{"bad key", Anthropic, "", 401, "", texts(`{"type":"error","error":{"type":"authentication_error","message":"no"}}`), Misconfigured, 0},
	{"billing", Anthropic, "", 402, "", texts(`{"type":"error","error":{"type":"billing_error","message":"no"}}`), Misconfigured, 0},
	{"too large", Anthropic, "", 413, "", texts(`{"type":"error","error":{"type":"request_too_large","message":"no"}}`), TooLarge, 0},
	{"fails", Anthropic, "", 500, "", texts(`{"type":"error","error":{"type":"api_error","message":"no"}}`), ServerError, 0},
	{"overloaded in the stream", Anthropic, serverSent, 0, "", texts("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"), Overloaded, 0},
	{"no JSON", Anthropic, serverSent, 0, "", texts("data: {\"type\n\n"), BadAnswer, 0},
	{"empty", Anthropic, serverSent, 0, "", texts("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n"), EmptyAnswer, 0},
	{"page", Anthropic, "text/html", 0, "", texts("<html>"), BadAnswer, 0},
	{"exhausted", Gemini, "", 429, "", texts(`{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}`), Throttled, 30 * time.Second},
	{"key", Gemini, "", 400, "", texts(`{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}`), Misconfigured, 0},
	{"unavailable in the stream", Gemini, serverSent, 0, "", texts("data: {\"error\":{\"code\":503,\"message\":\"busy\",\"status\":\"UNAVAILABLE\"}}\r\n\r\n"), Overloaded, 0},
	{"a call that has no end", Gemini, serverSent, 0, "", texts("data: {\"candidates\":[{\"finishReason\":\"MALFORMED_FUNCTION_CALL\"}]}\r\n\r\n"), ServerError, 0},
	{"throttled", Bedrock, "", 429, "X-Amzn-Errortype: ThrottlingException:", texts(`{"message":"slow"}`), Throttled, 0},
	{"denied", Bedrock, "", 403, "X-Amzn-Errortype: AccessDeniedException", texts(`{"message":"no"}`), Misconfigured, 0},
	{"late", Bedrock, "", 408, "X-Amzn-Errortype: ModelTimeoutException", texts(`{"message":"late"}`), ServerError, 0},
	{"throttled in the stream", Bedrock, amazonSent, 0, "", func(t *testing.T) string { t.Helper(); return amazonException(t, "throttlingException") }, Throttled, 0},
	{"fails in the stream", Bedrock, amazonSent, 0, "", func(t *testing.T) string { t.Helper(); return amazonException(t, "modelStreamErrorException") }, ServerError, 0},
	{"damaged", Bedrock, amazonSent, 0, "", texts("not an event stream at all"), BadAnswer, 0},
}

func texts(text string) func(*testing.T) string { return func(*testing.T) string { return text } }

// TestProviderFaults: whatever a provider does, the table of faults has a row for it, and another replica answers.
func TestProviderFaults(t *testing.T) {
	for _, tc := range providerFaults {
		t.Run(string(tc.kind)+" "+tc.name, func(t *testing.T) {
			p := newProvided(t, tc.media, tc.status, tc.header, tc.text(t))
			other := newFake(t, "other", "")
			f := fleetOf(t, Config{Sources: []Source{{URL: p.URL, Kind: tc.kind, APIKey: "k", Model: "m"}, {URL: other.URL + "/v1", Kind: VLLM}}})
			for n := range 20 {
				got, text, err := take(t, f, call(streamed+`,`+userSays+fmt.Sprintf(`,"user":"%d"`, n)))
				if err != nil || got.Status != http.StatusOK || got.Replica != other.id() || strings.Count(text, "[DONE]") != 1 {
					t.Fatalf("request %d: %+v %v %s", n, got, err, text)
				}
			}
			s := statusOf(f, strings.TrimPrefix(p.URL, "http://"))
			if p.calls.Load() == 0 || s.Faults[tc.want.String()] != p.calls.Load() || s.Rests < tc.rests {
				t.Errorf("asked %d times, faults %v, rests for %v; want %s and %v", p.calls.Load(), s.Faults, s.Rests, tc.want, tc.rests)
			}
		})
	}
}

func statusOf(f *Fleet, id string) Status {
	for _, s := range f.Status() {
		if s.ID == id {
			return s
		}
	}
	return Status{}
}

// TestUnsupportedAtAProvider: what a provider cannot do is asked of another replica, and without one refused by the field's name; the
// provider hears nothing of it, and no breaker opens.
func TestUnsupportedAtAProvider(t *testing.T) {
	p := newProvided(t, serverSent, 0, "", "")
	other := newFake(t, "other", "")
	source := Source{URL: p.URL, Kind: Anthropic, APIKey: "k"}
	f := fleetOf(t, Config{Sources: []Source{source, {URL: other.URL + "/v1", Kind: VLLM}}})
	alone := fleetOf(t, Config{Sources: []Source{source}})
	for n := range 20 {
		c := call(fmt.Sprintf(`%s,"logprobs":true,"user":"%d"`, userSays, n))
		if got, text, err := take(t, f, c); err != nil || got.Replica != other.id() {
			t.Errorf("%+v %v %s", got, err, text)
		}
		got, text, err := take(t, alone, c)
		if err != nil || got.Status != http.StatusBadRequest || !strings.Contains(text, `"param":"logprobs"`) {
			t.Errorf("%+v %v %s", got, err, text)
		}
	}
	if s := alone.Status()[0]; p.calls.Load() != 0 || s.Breaker != "closed" || s.Faults["unsupported"] != 20 {
		t.Errorf("asked %d times: %+v", p.calls.Load(), s)
	}
}

// TestWhatProvidersOffer: Anthropic's API is its own for clients of Messages, also beside weirs.
func TestWhatProvidersOffer(t *testing.T) {
	for _, tc := range []struct {
		kinds               []Kind
		messages, responses bool
	}{
		{[]Kind{Anthropic}, true, false}, {[]Kind{Anthropic, Weir}, true, false}, {[]Kind{Anthropic, Gemini}, false, false}, {[]Kind{Bedrock}, false, false},
	} {
		var c Config
		for i, k := range tc.kinds {
			c.Sources = append(c.Sources, Source{URL: fmt.Sprintf("http://127.0.0.1:%d", i+1), Kind: k})
		}
		f := fleetOf(t, c)
		if f.Offers(router.Messages) != tc.messages || f.Offers(router.Responses) != tc.responses || f.Offers(router.Continuing) {
			t.Errorf("%v", tc.kinds)
		}
	}
}

// TestBasesOfProviders: a URL without a path has that of the kind.
func TestBasesOfProviders(t *testing.T) {
	for _, tc := range []struct {
		kind       Kind
		text, want string
	}{
		{Anthropic, "https://api.anthropic.com", "/v1"}, {Gemini, "https://generativelanguage.googleapis.com/", "/v1beta"},
		{Gemini, "https://aiplatform.googleapis.com/v1/publishers/google", "/v1/publishers/google"}, {Bedrock, "https://bedrock-runtime.us-east-1.amazonaws.com", "/"}, {VLLM, "http://a:1", "/v1"},
	} {
		base, err := parseBase(tc.kind, tc.text)
		if err != nil || base.Path != tc.want {
			t.Errorf("%s: %v %v", tc.text, base, err)
		}
	}
}

// TestModelsThatRefuseSampling: a model that takes no temperature is found out by its first refusal, which no client sees, and the answer
// says what was left out.
func TestModelsThatRefuseSampling(t *testing.T) {
	var calls, sampled atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if bytes.Contains(body, []byte("temperature")) || bytes.Contains(body, []byte("top_p")) {
			sampled.Add(1)
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"`temperature` is deprecated for this model.\"}}")
			return
		}
		_, _ = io.WriteString(w, `{"type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
	}))
	defer server.Close()
	f := fleetOf(t, Config{Sources: []Source{{URL: server.URL, Kind: Anthropic, APIKey: "k"}}})
	for range 3 {
		got, text, err := take(t, f, call(userSays+`,"temperature":0.5,"top_p":0.9`))
		if err != nil || got.Status != http.StatusOK || got.Header.Get(warnings) != "ignored temperature, ignored top_p" {
			t.Errorf("%+v %v %s", got, err, text)
		}
	}
	if calls.Load() != 4 || sampled.Load() != 1 {
		t.Errorf("asked %d times, %d of them with a temperature", calls.Load(), sampled.Load())
	}
}

// TestProviderWithoutCredentials: what this server lacks to ask a provider is an operator's fault, and said so.
func TestProviderWithoutCredentials(t *testing.T) {
	for _, name := range []string{"AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	p := newProvided(t, "", 0, "", "")
	for region, want := range map[string]string{"": "names no region", "us-east-1": "AWS_ACCESS_KEY_ID"} {
		t.Setenv("AWS_REGION", region)
		f := fleetOf(t, Config{Sources: []Source{{URL: p.URL, Kind: Bedrock}}})
		_, _, err := take(t, f, call(userSays))
		fault, ok := errors.AsType[router.UpstreamFault](err)
		if !ok || fault.FaultKind() != "misconfigured" || !fault.Lasting() || !strings.Contains(fault.Told(), "credential") || !strings.Contains(err.Error(), want) || p.calls.Load() != 0 {
			t.Errorf("%v", err)
		}
	}
	t.Setenv("AWS_BEARER_TOKEN_BEDROCK", "token")
	f := fleetOf(t, Config{Sources: []Source{{URL: p.URL, Kind: Bedrock}}})
	if _, _, err := take(t, f, call(userSays)); err == nil || p.calls.Load() == 0 {
		t.Errorf("%v after %d calls", err, p.calls.Load())
	}
}

// TestMessagesAtAnthropic: refusals of requests that pass as they are have the same rows of the table, and reach the client as they came.
func TestMessagesAtAnthropic(t *testing.T) {
	for _, tc := range []struct {
		status       int
		kind, text   string
		want         Fault
		passedStatus int
	}{
		{529, "overloaded_error", "Overloaded", Overloaded, 529}, {429, "rate_limit_error", "slow", Throttled, 429}, {400, "invalid_request_error", "bad", Rejected, 400},
		{400, "invalid_request_error", "Your credit balance is too low", Misconfigured, 402}, {402, "billing_error", "pay", Misconfigured, 402},
	} {
		body := fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, tc.kind, tc.text)
		p := newProvided(t, "", tc.status, "", body)
		f := fleetOf(t, Config{Sources: []Source{{URL: p.URL, Kind: Anthropic, APIKey: "k"}}})
		c := call(userSays)
		c.Path = "/messages"
		got, text, err := take(t, f, c)
		if err != nil || got.Status != tc.passedStatus || text != body || got.Fault.FaultKind() != tc.want.String() || f.Status()[0].Faults[tc.want.String()] != 1 {
			t.Errorf("%d %s: %+v %v %s", tc.status, tc.text, got, err, text)
		}
	}
}
