package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// SoakOptions say what to send. Zero fields take the defaults named.
type SoakOptions struct {
	URL         string // base address, "http://127.0.0.1:8000"
	MetricsURL  string // of the Prometheus page; empty skips the check of leaks
	APIKey      string
	Model       string // empty asks the server for its first
	Requests    int    // default 2000
	Concurrency int    // default 32
	MaxTokens   int    // per request, at most; default 64
	PromptWords int    // per request, at most; default 120
	Seed        uint64
	Settle      time.Duration // how long the gauges may take to fall to zero; default 10 s

	Progress func(done, total int) // called after each request, from several goroutines
}

// SoakReport counts how the requests ended and what they left behind.
type SoakReport struct {
	Requests  int `json:"requests"`
	Completed int `json:"completed"` // answered in full
	Cut       int `json:"cut"`       // by us, on purpose
	Refused   int `json:"refused"`   // with 429 or 503
	Failed    int `json:"failed"`    // anything else: a bug
	Truncated int `json:"truncated"` // streams that ended without [DONE] or an error event: a bug

	Stages   map[string]int     `json:"stages"` // of the cuts
	Errors   []string           `json:"errors,omitempty"`
	Gauges   map[string]float64 `json:"gauges"` // after the run; all must be zero
	Duration time.Duration      `json:"duration_ns"`
}

// Err is nil if nothing failed and nothing was left behind.
func (r *SoakReport) Err() error {
	if n := r.Failed + r.Truncated; n > 0 {
		return fmt.Errorf("%d requests failed or were cut silently: %s", n, strings.Join(r.Errors, "; "))
	}
	return r.leak()
}

func (r *SoakReport) leak() error {
	for _, name := range leakGauges {
		if v := r.Gauges[name]; v != 0 {
			return fmt.Errorf("%s is %v after the run, must be 0", name, v)
		}
	}
	return nil
}

// leakGauges must be zero on an idle server.
var leakGauges = []string{"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"}

// Soak runs the check. The error is about the run itself; what the server did
// wrong is in the report.
func Soak(ctx context.Context, o SoakOptions) (*SoakReport, error) {
	o.fill()
	s := &soak{o: o, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.Concurrency}}}
	defer s.client.CloseIdleConnections()
	if s.o.Model == "" {
		id, err := s.firstModel(ctx)
		if err != nil {
			return nil, err
		}
		s.o.Model = id
	}
	s.report = SoakReport{Requests: o.Requests, Stages: map[string]int{}}
	start := time.Now()
	s.run(ctx)
	s.report.Duration = time.Since(start)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.MetricsURL != "" {
		if err := s.settle(ctx); err != nil {
			return nil, err
		}
	}
	return &s.report, nil
}

func (o *SoakOptions) fill() {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set(&o.Requests, 2000)
	set(&o.Concurrency, 32)
	set(&o.MaxTokens, 64)
	set(&o.PromptWords, 120)
	if o.Settle == 0 {
		o.Settle = 10 * time.Second
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	o.URL = strings.TrimSuffix(o.URL, "/")
}

type soak struct {
	o      SoakOptions
	client *http.Client

	next   atomic.Int64
	done   atomic.Int64
	mu     sync.Mutex
	report SoakReport
}

func (s *soak) run(ctx context.Context) {
	var wg sync.WaitGroup
	for range s.o.Concurrency {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := s.next.Add(1) - 1
				if i >= int64(s.o.Requests) {
					return
				}
				s.request(ctx, rand.New(rand.NewPCG(s.o.Seed, uint64(i))))
				s.o.Progress(int(s.done.Add(1)), s.o.Requests)
			}
		})
	}
	wg.Wait()
}

// stage says when a request is cut off.
type stage string

const (
	never      stage = "never"
	whileSent  stage = "while it is sent"
	soonAfter  stage = "queued or prefilling"
	atHeaders  stage = "at the headers"
	afterSome  stage = "after some events"
	nonStream  stage = "non-stream, while it runs"
	nearTheEnd stage = "near the end"
)

var stages = []stage{never, never, whileSent, soonAfter, atHeaders, afterSome, nonStream, nearTheEnd}

// request sends one and ends it at a random stage.
func (s *soak) request(parent context.Context, r *rand.Rand) {
	at := stages[r.IntN(len(stages))]
	stream := at != nonStream && (at != never || r.IntN(2) == 0)
	ctx, cut := context.WithCancel(parent)
	defer cut()
	switch at {
	case whileSent:
		time.AfterFunc(time.Duration(r.IntN(300))*time.Microsecond, cut)
	case soonAfter, nonStream:
		time.AfterFunc(time.Duration(r.IntN(60))*time.Millisecond, cut)
	default: // cut by exchange, or not at all
	}
	err := s.exchange(ctx, r, at, stream, cut)
	switch {
	case parent.Err() != nil:
	case err == nil:
		s.count(&s.report.Completed)
	case errors.Is(err, errRefused):
		s.count(&s.report.Refused)
	case ctx.Err() != nil:
		s.mu.Lock()
		s.report.Cut++
		s.report.Stages[string(at)]++
		s.mu.Unlock()
	case errors.Is(err, errTruncated):
		s.note(&s.report.Truncated, err)
	default:
		s.note(&s.report.Failed, err)
	}
}

func (s *soak) count(n *int) {
	s.mu.Lock()
	*n++
	s.mu.Unlock()
}

func (s *soak) note(n *int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
	if len(s.report.Errors) < 5 {
		s.report.Errors = append(s.report.Errors, err.Error())
	}
}

var (
	errRefused   = errors.New("refused for now")
	errTruncated = errors.New("stream ended without [DONE]")
)

// exchange sends the request and reads its answer, cutting it at stage at.
func (s *soak) exchange(ctx context.Context, r *rand.Rand, at stage, stream bool, cut func()) error {
	req, err := s.build(ctx, r, stream)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if at == atHeaders {
		cut()
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
			return errRefused
		}
		return fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	if !stream {
		_, err := io.Copy(io.Discard, resp.Body)
		return err
	}
	limit := -1
	switch at {
	case afterSome:
		limit = 1 + r.IntN(5)
	case nearTheEnd:
		limit = s.o.MaxTokens - r.IntN(3)
	default: // not by a count of events
	}
	return readStream(resp.Body, limit, cut)
}

// readStream reads events to [DONE], cutting after limit of them where limit
// is not negative.
func readStream(body io.Reader, limit int, cut func()) error {
	stream := newEventReader(body)
	for events := 0; ; {
		data, err := stream.next()
		switch {
		case errors.Is(err, io.EOF):
			return errTruncated
		case err != nil:
			return err
		case bytes.Equal(data, done):
			return nil
		case bytes.HasPrefix(data, []byte(`{"error"`)):
			return errors.New(string(data))
		}
		if events++; events == limit {
			cut()
		}
	}
}

// words are the prompts' vocabulary; few, so that prefixes are shared.
var words = strings.Fields("the model reads pages of keys and values while many clients ask and leave before their answers come")

func (s *soak) build(ctx context.Context, r *rand.Rand, stream bool) (*http.Request, error) {
	var text strings.Builder
	text.WriteString("Once upon a time")
	for range r.IntN(s.o.PromptWords + 1) {
		text.WriteString(" " + words[r.IntN(len(words))])
	}
	body := map[string]any{
		"model": s.o.Model, "prompt": text.String(), "stream": stream,
		"max_tokens": 1 + r.IntN(s.o.MaxTokens), "temperature": r.Float64(), "seed": r.IntN(1000), "n": 1 + r.IntN(2)*r.IntN(2),
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := s.newRequest(ctx, http.MethodPost, s.o.URL+"/v1/completions", bytes.NewReader(raw))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

func (s *soak) newRequest(ctx context.Context, method, url string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err == nil && s.o.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+s.o.APIKey)
	}
	return req, err
}

func (s *soak) firstModel(ctx context.Context) (string, error) {
	req, err := s.newRequest(ctx, http.MethodGet, s.o.URL+"/v1/models", http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("list models: %w", err)
	}
	defer resp.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return "", fmt.Errorf("list models: status %d: %w", resp.StatusCode, err)
	}
	if len(list.Data) == 0 {
		return "", fmt.Errorf("list models: status %d, none listed", resp.StatusCode)
	}
	return list.Data[0].ID, nil
}

// settle waits for the gauges to fall to zero, or for Settle to pass.
func (s *soak) settle(ctx context.Context) error {
	deadline := time.Now().Add(s.o.Settle)
	for {
		gauges, err := s.gauges(ctx)
		if err != nil {
			return err
		}
		s.report.Gauges = gauges
		if s.report.leak() == nil || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// gauges sums each gauge over its labels.
func (s *soak) gauges(ctx context.Context) (map[string]float64, error) {
	req, err := s.newRequest(ctx, http.MethodGet, s.o.MetricsURL, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics: status %d", resp.StatusCode)
	}
	out, err := readGauges(resp.Body, leakGauges)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return out, nil
}

// readGauges finds the named series in Prometheus' text format. A name that is
// not there is an error: a check that finds nothing must not pass.
func readGauges(page io.Reader, names []string) (map[string]float64, error) {
	out, err := readSeries(page, names)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, ok := out[name]; !ok {
			return nil, fmt.Errorf("series %s is not there", name)
		}
	}
	return out, nil
}

// readSeries finds those of the named series that are there, and sums each over its labels.
func readSeries(page io.Reader, names []string) (map[string]float64, error) {
	out := map[string]float64{}
	lines := bufio.NewScanner(page)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		for _, name := range names {
			rest, ok := strings.CutPrefix(lines.Text(), name)
			if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
				continue
			}
			var v float64
			if _, err := fmt.Sscanf(rest[strings.LastIndexByte(rest, ' ')+1:], "%g", &v); err != nil {
				return nil, fmt.Errorf("series %q: %w", lines.Text(), err)
			}
			out[name] += v
		}
	}
	return out, lines.Err()
}
