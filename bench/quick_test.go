package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// quickServer is a server on a clock of its own: prompts are computed one after the other, tokens of all answers come in steps.
type quickServer struct {
	mu      sync.Mutex
	prompt  chan struct{} // has room for the prompt that is computed
	running int
	waiting int
	most    int           // requests that run at a time; 0: as many as come
	slots   chan struct{} // made in the bubble

	prefill     time.Duration // of a prompt
	fixed, each time.Duration // of a step, and of each sequence in it
	refuseAbove int           // requests at a time; 0: none is refused
	status      int           // of all answers; 0: 200
	kv          float64       // of the memory, used by each sequence
	metrics     bool
	plain       bool // it takes no ignore_eos and no chats
	asked       []string
}

// RoundTrip implements http.RoundTripper.
func (s *quickServer) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(status int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	if s.status != 0 {
		return answer(s.status, `{"error":{"message":"no"}}`)
	}
	if r.Method == http.MethodGet {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case r.URL.Path == "/v1/models":
			return answer(200, `{"data":[{"id":"m"},{"id":"n"}]}`)
		case s.metrics:
			return answer(200, fmt.Sprintf("vllm:num_requests_running{} %d\nvllm:num_requests_waiting{} %d\nvllm:kv_cache_usage_perc %g\n",
				s.running, s.waiting, min(1, s.kv*float64(s.running))))
		}
		return answer(404, "")
	}
	var body struct {
		Stream    bool
		IgnoreEOS *bool `json:"ignore_eos"`
		MaxTokens int   `json:"max_tokens"`
		Chat      int   `json:"max_completion_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.Path)
	s.mu.Unlock()
	if s.plain && (body.IgnoreEOS != nil || body.Chat > 0) {
		return answer(400, "unknown field")
	}
	if !body.Stream {
		return answer(200, `{"usage":{"prompt_tokens":40}}`)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuseAbove > 0 && s.running+s.waiting >= s.refuseAbove {
		return answer(429, `{"error":{"message":"the queue is full"}}`)
	}
	s.waiting++
	return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, Body: s.stream(r, max(body.MaxTokens, body.Chat))}, nil
}

// stream answers in its own time, until the request ends.
func (s *quickServer) stream(r *http.Request, tokens int) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		defer in.CloseWithError(io.ErrUnexpectedEOF)
		wait := func(d time.Duration) bool { return sleepUntil(r.Context(), time.Now().Add(d)) }
		if s.slots != nil {
			select {
			case s.slots <- struct{}{}:
				defer func() { <-s.slots }()
			case <-r.Context().Done():
				s.count(0, -1)
				return
			}
		}
		s.count(1, -1)
		defer s.count(-1, 0)
		s.prompt <- struct{}{} // others in line are short
		ok := wait(s.prefill)
		<-s.prompt
		for i := 0; ok && i < tokens; i++ {
			s.mu.Lock()
			step := s.fixed + time.Duration(s.running)*s.each
			s.mu.Unlock()
			if ok = wait(step); ok {
				fmt.Fprint(in, `data: {"choices":[{"index":0,"text":"a","delta":{}}]}`+"\n\n")
			}
		}
		if ok {
			fmt.Fprintf(in, "data: %s\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":128,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n", last, tokens)
			_ = in.Close()
		}
	}()
	return out
}

func (s *quickServer) count(running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running += running
	s.waiting += waiting
}

// quickOf measures a server in a bubble, whose clock takes no time.
func quickOf(t *testing.T, s *quickServer, change func(*Quick)) (r *QuickReport, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.prompt = make(chan struct{}, 1)
		if s.most > 0 {
			s.slots = make(chan struct{}, s.most)
		}
		q := Quick{
			Target: &Target{BaseURL: "http://server", client: &http.Client{Transport: s}}, TTFT: 500 * time.Millisecond, PerUser: 20,
			Input: 128, Output: 64, Duration: time.Minute, MostUsers: 64, Seed: 1, MetricsURLs: []string{"http://server/metrics"},
		}
		if change != nil {
			change(&q)
		}
		began := time.Now()
		r, err = q.Run(t.Context())
		if took := time.Since(began); took > q.Duration+10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	return r, err
}

// Each kind of server has its number of users, and its bound.
func TestQuickFindsUsersAndBound(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		server    *quickServer
		low, high int
		bound     string
	}{
		"steps of growing cost":   {&quickServer{prefill: 5 * ms, fixed: 10 * ms, each: 5 * ms}, 7, 9, BoundDecoding},
		"heavy weights":           {&quickServer{prefill: 2 * ms, fixed: 42 * ms, each: 1 * ms}, 7, 9, BoundBandwidth},
		"too slow for one":        {&quickServer{prefill: 5 * ms, fixed: 70 * ms}, 0, 0, BoundBandwidth},
		"long prompts":            {&quickServer{prefill: 150 * ms, fixed: 10 * ms}, 3, 16, BoundPrompts},
		"prompts too long":        {&quickServer{prefill: 900 * ms, fixed: 10 * ms}, 0, 0, BoundPrompts},
		"four slots":              {&quickServer{prefill: 5 * ms, fixed: 10 * ms, most: 4}, 4, 5, BoundSequences},
		"four slots, metrics":     {&quickServer{prefill: 5 * ms, fixed: 10 * ms, most: 4, metrics: true}, 4, 5, BoundSequences},
		"memory for four":         {&quickServer{prefill: 5 * ms, fixed: 10 * ms, most: 4, metrics: true, kv: 0.25}, 4, 5, BoundKV},
		"a full queue":            {&quickServer{prefill: 5 * ms, fixed: 10 * ms, refuseAbove: 6}, 6, 6, BoundRefusals},
		"faster than we can tell": {&quickServer{prefill: ms / 10, fixed: 5 * ms}, 64, 64, BoundNone},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := quickOf(t, c.server, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.Users < c.low || r.Users > c.high || r.Bound.Kind != c.bound || r.Open != (c.bound == BoundNone) {
				var b bytes.Buffer
				_ = r.Print(&b)
				t.Errorf("%d users, %s; want %d to %d, %s\n%s", r.Users, r.Bound.Kind, c.low, c.high, c.bound, b.String())
			}
		})
	}
}

// A server that takes neither chats nor ignore_eos is asked for plain completions.
func TestQuickFindsTheForm(t *testing.T) {
	s := &quickServer{prefill: 5 * time.Millisecond, fixed: 10 * time.Millisecond, each: 10 * time.Millisecond, plain: true}
	r, err := quickOf(t, s, func(q *Quick) { q.Target.Model = "n"; q.Duration = 20 * time.Second })
	if err != nil {
		t.Fatal(err)
	}
	if r.Endpoint != EndpointCompletions || r.Model != "n" || r.Users < 3 || r.Users > 4 {
		t.Errorf("%+v", r)
	}
	if s.asked[0] != EndpointChat || s.asked[len(s.asked)-1] != EndpointCompletions {
		t.Errorf("asked %v … %v", s.asked[0], s.asked[len(s.asked)-1])
	}
}

// What keeps a run from beginning says what to do.
func TestQuickRefuses(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		server *quickServer
		change func(*Quick)
		want   string
	}{
		{&quickServer{status: 401}, nil, "give --api-key, or set WEIR_API_KEY"},
		{&quickServer{status: 401}, func(q *Quick) { q.Target.APIKey = "k" }, "give another one with --api-key"},
		{&quickServer{status: 404}, nil, "status 404"},
		{&quickServer{}, func(q *Quick) { q.TTFT = 0 }, "the goal for the first token is 0s"},
		{&quickServer{}, func(q *Quick) { q.PerUser = 0 }, "the goal is 0 tokens per second"},
		{&quickServer{}, func(q *Quick) { q.Duration = time.Second }, "the time is 1s, must be at least 4s"},
		{&quickServer{}, func(q *Quick) { q.MostUsers = 0 }, "0 users, must be 1"},
		{&quickServer{}, func(q *Quick) { q.Output = 1 }, "answer length is 1, must be 8"},
		{&quickServer{plain: true}, func(q *Quick) { q.Target.Endpoint = EndpointChat }, "--model names another of the server's models: m, n"},
		{&quickServer{fixed: ms}, func(q *Quick) { q.Target.BaseURL = "server" }, "must begin with http"},
	} {
		if _, err := quickOf(t, c.server, c.change); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	q := Quick{Target: &Target{BaseURL: "http://127.0.0.1:1"}, TTFT: time.Second, PerUser: 1, Input: 8, Output: 8, Duration: time.Minute, MostUsers: 1}
	if _, err := q.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no server at http://127.0.0.1:1") {
		t.Errorf("without a server: %v", err)
	}
}

// The report says it in one sentence, draws it, and is a result that can be compared.
func TestQuickReport(t *testing.T) {
	r, err := quickOf(t, &quickServer{prefill: 5 * time.Millisecond, fixed: 10 * time.Millisecond, each: 5 * time.Millisecond}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var text, svg, saved bytes.Buffer
	if err := errors.Join(r.Print(&text), r.Plot(&svg)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" users at once: first token below 500 ms and 20 tokens per second each.\n", "Bound: compute of decoding. A token of one user alone takes ", "█", "✗"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if !strings.HasPrefix(svg.String(), "<svg") || strings.Contains(svg.String(), "NaN") || strings.Count(svg.String(), "<circle") != 2*len(r.Steps) {
		t.Errorf("the picture is\n%s", svg.String())
	}
	result := NewResult("quick")
	r.Fill(result)
	if err := result.Write(&saved); err != nil {
		t.Fatal(err)
	}
	if again, err := decodeResult(&saved); err != nil || again.Rows[0].Value != float64(r.Users) {
		t.Errorf("%+v, %v", again, err)
	}
	r.Users, r.Steps = 0, r.Steps[:1]
	if s := r.Sentence(); !strings.HasPrefix(s, "Not one user: first token after ") {
		t.Error(s)
	}
	r.Users, r.Open = 1, true
	if s := r.Sentence(); !strings.HasPrefix(s, "1 user at once or more: ") {
		t.Error(s)
	}
}

// A server that is too slow for its rate to be seen is not said to write nothing.
func TestQuickTellsNoRateOfTooFewTokens(t *testing.T) {
	r := &QuickReport{TTFT: 500 * time.Millisecond, PerUser: 20, Input: 128, Output: 64, Steps: []QuickStep{{Users: 1, TTFT: 3}}}
	var b strings.Builder
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String() + r.Steps[0].String(); strings.Count(got, "too few tokens to tell a rate") != 2 || strings.Contains(got, " 0 tokens") {
		t.Errorf("it says %s", got)
	}
}
