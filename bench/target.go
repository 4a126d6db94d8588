package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// Target is an OpenAI-compatible server and how to ask it.
type Target struct {
	BaseURL   string // "http://127.0.0.1:8000", without /v1
	Endpoint  string // EndpointCompletions or EndpointChat, also behind a path of the server's own
	APIKey    string
	Headers   http.Header // sent with every request
	Model     string      // the model's name
	Served    string      // the name sent with requests; "" sends Model
	IgnoreEOS bool        // ask for outputs of the full length; a field that not every server takes

	Temperature *float64       // nil leaves it to the server
	ExtraBody   map[string]any // further fields of every request; they win

	Timeout time.Duration // of one request; 0 is six hours

	client *http.Client
}

// The endpoints that can be measured.
const (
	EndpointCompletions = "/v1/completions"
	EndpointChat        = "/v1/chat/completions"
)

// maxAnswerBytes bounds answers that are not streams.
const maxAnswerBytes = 4 << 20

func (t *Target) chat() bool { return strings.HasSuffix(t.Endpoint, "/chat/completions") }

// Check fills in fields that are empty and refuses values that cannot work.
func (t *Target) Check() error {
	t.BaseURL = strings.TrimRight(t.BaseURL, "/")
	switch {
	case !strings.HasPrefix(t.BaseURL, "http://") && !strings.HasPrefix(t.BaseURL, "https://"):
		return fmt.Errorf("base URL %q must begin with http:// or https://", t.BaseURL)
	case !strings.HasPrefix(t.Endpoint, "/") || !strings.HasSuffix(t.Endpoint, "/completions"):
		return fmt.Errorf("endpoint %q must be %s or %s", t.Endpoint, EndpointCompletions, EndpointChat)
	}
	if t.Timeout <= 0 {
		t.Timeout = 6 * time.Hour
	}
	if t.client == nil {
		t.client = &http.Client{Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			MaxIdleConns:        0,
			MaxIdleConnsPerHost: 1 << 16,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true, // a compressed stream arrives in lumps
		}}
	}
	return nil
}

// Close drops idle connections.
func (t *Target) Close() {
	if t.client != nil {
		t.client.CloseIdleConnections()
	}
}

// newRequest adds the key and the headers.
func (t *Target) newRequest(ctx context.Context, method, url string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if t.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+t.APIKey)
	}
	maps.Copy(req.Header, t.Headers)
	return req, nil
}

// body is the JSON of one request.
func (t *Target) body(r *Request, outputTokens int, stream bool) ([]byte, error) {
	model := t.Served
	if model == "" {
		model = t.Model
	}
	fields := map[string]any{"model": model}
	switch {
	case t.chat() && r.Messages != nil:
		fields["messages"] = r.Messages
	case t.chat():
		fields["messages"] = []map[string]string{{"role": "user", "content": r.Prompt}}
	case r.Messages != nil:
		return nil, fmt.Errorf("the request has messages, which %s does not take; use --endpoint %s", t.Endpoint, EndpointChat)
	default:
		fields["prompt"] = r.Prompt
	}
	if t.chat() {
		fields["max_completion_tokens"] = outputTokens
	} else {
		fields["max_tokens"] = outputTokens
	}
	if stream {
		fields["stream"] = true
		fields["stream_options"] = map[string]bool{"include_usage": true}
	}
	if t.IgnoreEOS {
		fields["ignore_eos"] = true
	}
	if t.Temperature != nil {
		fields["temperature"] = *t.Temperature
	}
	maps.Copy(fields, t.ExtraBody)
	return json.Marshal(fields)
}

// ServerModel is what a server tells about a model.
type ServerModel struct {
	ID          string `json:"id"`
	MaxModelLen int    `json:"max_model_len"` // 0 if it does not tell
}

// Models asks the server which models it has.
func (t *Target) Models(ctx context.Context) ([]ServerModel, error) {
	url := t.BaseURL + "/v1/models"
	var list struct {
		Data []ServerModel `json:"data"`
	}
	if err := t.ask(ctx, http.MethodGet, url, nil, &list); err != nil {
		return nil, fmt.Errorf("ask %s for its models: %w", url, err)
	}
	if len(list.Data) == 0 {
		return nil, fmt.Errorf("ask %s for its models: it lists none; name one with --model", url)
	}
	return list.Data, nil
}

// usage is the token count of an answer.
type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	Details          *struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// statusError is an answer with a status other than 200.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.text) }

// readStatusError keeps the start of the answer, without line ends.
func readStatusError(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // a part is as good
	return &statusError{resp.StatusCode, strings.Join(strings.Fields(string(text)), " ")}
}

// ask does one call whose answer is not a stream.
func (t *Target) ask(ctx context.Context, method, url string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	req, err := t.newRequest(ctx, method, url, body)
	if err != nil {
		return err
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return readStatusError(resp)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxAnswerBytes)).Decode(into)
}

// WaitReady sends requests of one output token until one is answered, for as
// long as patience lasts. Only a server that is not there yet, or still loads,
// is waited for; any other error would also fail every request of the run.
func (t *Target) WaitReady(ctx context.Context, patience time.Duration, probe *Request) error {
	deadline := time.Now().Add(patience)
	for {
		err := t.once(ctx, probe, nil)
		if err == nil || !NotYet(err) || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(time.Second, time.Until(deadline)+time.Millisecond)):
		}
	}
}

// NotYet reports whether an error of a Target is one that a starting server
// makes: no answer, or 503.
func NotYet(err error) bool {
	var status *statusError
	var op *net.OpError
	return errors.As(err, &status) && status.status == http.StatusServiceUnavailable || errors.As(err, &op) && op.Op == "dial"
}

// once sends a request without a stream for one token and reads the usage.
func (t *Target) once(ctx context.Context, r *Request, u **usage) error {
	body, err := t.body(r, 1, false)
	if err != nil {
		return err
	}
	var answer struct {
		Usage *usage `json:"usage"`
	}
	if err := t.ask(ctx, http.MethodPost, t.BaseURL+t.Endpoint, body, &answer); err != nil {
		return err
	}
	if u != nil {
		*u = answer.Usage
	}
	return nil
}

// Calibrate measures how many tokens the server's model makes of the words
// that generated prompts consist of, from two prompts of different lengths. They
// are the same for every seed, so that the answer is the same for a tokenizer.
func (t *Target) Calibrate(ctx context.Context) (Scale, error) {
	const short, long = 16, 256
	var w Workload
	var tokens [2]float64
	for i, words := range []int{short, long} {
		var u *usage
		r := Request{Prompt: text(w.rand(streamCalibrate, i), words)}
		if err := t.once(ctx, &r, &u); err != nil {
			return Scale{}, fmt.Errorf("measure tokens per word: %w", err)
		}
		if u == nil || u.PromptTokens <= 0 {
			return Scale{}, errors.New("measure tokens per word: the server tells no usage; give lengths in words")
		}
		tokens[i] = float64(u.PromptTokens)
	}
	perWord := (tokens[1] - tokens[0]) / (long - short)
	if perWord < 0.5 || perWord > 10 {
		return Scale{}, fmt.Errorf("measure tokens per word: %d words are %g tokens and %d words %g, which cannot be; "+
			"give lengths in words",
			short, tokens[0], long, tokens[1])
	}
	return Scale{TokensPerWord: perWord, OverheadTokens: max(0, tokens[0]-short*perWord)}, nil
}

var digestLabel = regexp.MustCompile(`^weir_model_info\{(?:.*,)?digest="([0-9a-f]+)"`)

// ModelDigest reads the digest of the served model from weir's metrics; other
// servers do not tell.
func ModelDigest(ctx context.Context, metricsURL string) (string, error) {
	t := Target{BaseURL: metricsURL, Endpoint: EndpointCompletions, Timeout: 10 * time.Second}
	if err := t.Check(); err != nil {
		return "", err
	}
	defer t.Close()
	req, err := t.newRequest(ctx, http.MethodGet, metricsURL, nil)
	if err != nil {
		return "", err
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("read metrics: %w", err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, maxAnswerBytes))
	for lines.Scan() {
		if m := digestLabel.FindStringSubmatch(lines.Text()); m != nil {
			return m[1], nil
		}
	}
	return "", errors.Join(lines.Err(), fmt.Errorf("%s has no weir_model_info with a digest; leave --metrics-url out", metricsURL))
}
