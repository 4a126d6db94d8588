package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"weir/internal/reference"
	"weir/router"
	"weir/router/balance"
)

// Sockets are followed by few goroutines for all time.
func TestMain(m *testing.M) {
	reference.Overlap(16) // most wait for replicas that do not answer
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("weir/internal/socket.(*poll).start.func1"))
}

// fake is a server with faults.
type fake struct {
	*httptest.Server
	name  string
	fault atomic.Pointer[string]
	calls atomic.Int64
	state atomic.Pointer[string] // what /ready says; nil is ready

}

const words = 8 // of an answer

// wrongAnswers are JSON under 200, and no answers.
var wrongAnswers = map[string]string{
	"empty choices":   `{"id":"x","object":"chat.completion","choices":[],"usage":{"prompt_tokens":1}}`,
	"null choices":    `{"id":"x","choices":null}`,
	"null message":    `{"id":"x","choices":[{"index":0,"message":null,"finish_reason":"stop"}]}`,
	"number content":  `{"id":"x","choices":[{"index":0,"message":{"content":7},"finish_reason":"stop"}]}`,
	"choices of text": `{"id":"x","choices":["text"]}`,
	"negative index":  `{"choices":[{"index":-1,"message":{"content":"x"},"finish_reason":"stop"}]}`,
	"an array":        `[1]`,
}

// brokenMidway is what servers write in the middle of a stream, or at its end, and what the fault is.
var brokenMidway = map[string]struct {
	text  string
	fault Fault
}{
	"garbage mid-stream":   {"data: {\"choi\n\n" + last + done, BadAnswer},
	"html mid-stream":      {"data: <html>\n\n" + last + done, BadAnswer},
	"number mid-stream":    {"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":7}}]}\n\n" + last + done, BadAnswer},
	"a negative index":     {"data: {\"choices\":[{\"index\":-1,\"delta\":{\"content\":\"b\"}}]}\n\n" + last + done, BadAnswer},
	"error mid-stream":     {"data: {\"error\":{\"message\":\"out of blocks\",\"code\":\"kv_cache_exhausted\"}}\n\n", ServerError},
	"done without finish":  {done, BrokenStream},
	"end without finish":   {"", BrokenStream},
	"empty finish":         {"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"\"}]}\n\n" + done, BrokenStream},
	"one of two finishes":  {"data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}}]}\n\n" + last + done, BrokenStream},
	"usage without finish": {"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":8}}\n\n" + done, BrokenStream},
}

func newFake(t *testing.T, name, fault string) *fake {
	t.Helper()
	f := &fake{name: name}
	f.set(fault)
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) set(fault string) { f.fault.Store(&fault) }

func (f *fake) id() string { return strings.TrimPrefix(f.URL, "http://") }

func event(text string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", text)
}

const (
	role = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
	last = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	done = "data: [DONE]\n\n"
)

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if s := f.state.Load(); s != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"status":%q}`, *s)
		}
		return
	}
	f.calls.Add(1)
	body, _ := io.ReadAll(r.Body)
	fault := *f.fault.Load()
	flush := w.(http.Flusher).Flush //nolint:forcetypeassert // it always is one
	if status, err := strconv.Atoi(fault); err == nil {
		w.Header().Set("Location", "http://127.0.0.1:1/v1")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":%q,"code":"c%s"}}`, f.name, fault)
		return
	}
	switch fault {
	case "rst":
		f.reset(w, "")
		return
	case "half header":
		f.reset(w, "HTTP/1.1 200 OK\r\nContent-Ty")
		return
	case "stall":
		<-r.Context().Done()
		return
	case "html":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>Welcome to nginx!</html>")
		return
	case "error under 200":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"error":{"message":"Provider returned error","code":502}}`)
		return
	}
	if answer := wrongAnswers[fault]; answer != "" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
		return
	}
	if fault == "stream unasked" && !bytes.Contains(body, []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, role+event("x")+last+done)
		return
	}
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		switch fault {
		case "garbage":
			_, _ = io.WriteString(w, `{"choices":[{"mess`)
		case "cut":
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"choices":[`)
		default:
			fmt.Fprintf(w, `{"choices":[{"message":{"content":%q},"finish_reason":"stop"}]}`, f.name)
		}
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	switch fault {
	case "role, then cut":
		_, _ = io.WriteString(w, role)
		flush()
		panic(http.ErrAbortHandler)
	case "role, then end":
		_, _ = io.WriteString(w, role)
		return
	case "comments, then cut":
		for range 5 {
			_, _ = io.WriteString(w, ": ping\n\n")
			flush()
		}
		_, _ = io.WriteString(w, role)
		flush()
		panic(http.ErrAbortHandler)
	case "garbage":
		_, _ = io.WriteString(w, "data: {\"choi\n\n")
		return
	case "error event":
		_, _ = io.WriteString(w, role+"data: {\"error\":{\"message\":\"out of blocks\",\"code\":\"kv_cache_exhausted\"}}\n\n")
		return
	case "bad request event":
		_, _ = io.WriteString(w, "data: {\"error\":{\"message\":\"no\",\"code\":400}}\n\n")
		return
	}
	_, _ = io.WriteString(w, role)
	for i := range words {
		flush()
		if midway, ok := brokenMidway[fault]; ok && i == words/2 {
			_, _ = io.WriteString(w, midway.text)
			return
		}
		if i == words/2 {
			switch fault {
			case "cut mid-stream":
				_, _ = io.WriteString(w, "data: {\"choi")
				flush()
				panic(http.ErrAbortHandler)
			case "end mid-stream":
				return
			case "stall mid-stream":
				<-r.Context().Done()
				return
			}
		}
		_, _ = io.WriteString(w, event(fmt.Sprintf("%s%d ", f.name, i)))
	}
	flush()
	switch fault {
	case "finish, then end":
		_, _ = io.WriteString(w, last)
	case "finish, then cut":
		_, _ = io.WriteString(w, last)
		flush()
		panic(http.ErrAbortHandler)
	case "done, then cut":
		_, _ = io.WriteString(w, last+done)
		flush()
		panic(http.ErrAbortHandler)
	case "no end of lines":
		_, _ = io.WriteString(w, last+strings.TrimSpace(done))
	default:
		_, _ = io.WriteString(w, last+done)
	}
}

// reset writes some bytes and ends the connection with an RST.
func (f *fake) reset(w http.ResponseWriter, first string) {
	conn, _, err := w.(http.Hijacker).Hijack() //nolint:forcetypeassert // it always is one
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, first)
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func call(fields string) *router.Call {
	return &router.Call{Path: "/chat/completions", Head: router.Head{RequestID: "id"}, Body: []byte("{" + fields + "}"),
		Stream: strings.Contains(fields, `"stream":true`)}
}

const streamed = `"stream":true`

func fleetOf(t *testing.T, c Config, fakes ...*fake) *Fleet {
	t.Helper()
	c.Model = "m"
	for _, s := range fakes {
		c.Sources = append(c.Sources, Source{URL: s.URL + "/v1"})
	}
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, r := range f.members.Load().list {
			if n := r.running.Load(); n != 0 {
				t.Errorf("%s has %d running requests at the end", r.id, n)
			}
			r.wire.close()
		}
	})
	return f
}

// take sends a call and reads its answer to the end.
func take(t *testing.T, f *Fleet, c *router.Call) (a *router.Answer, text string, err error) {
	t.Helper()
	a, err = f.Send(t.Context(), c)
	if err != nil {
		return nil, "", err
	}
	if a.Events == nil {
		return a, string(a.Whole), nil
	}
	read, _, err := readEvents(a.Events)
	_ = a.Events.Close()
	return a, string(read), err
}

// readEvents reads a stream to its end as an edge does: it follows it where that goes, and reads what comes then. followed is how many bytes
// were not read.
func readEvents(r io.Reader) (text []byte, followed int, err error) {
	stream, ok := r.(router.Follower)
	if !ok {
		return nil, 0, fmt.Errorf("%T cannot be followed", r)
	}
	buf := make([]byte, 4096)
	for err == nil {
		stream.Follow(func(piece []byte) bool {
			text = append(text, piece...)
			followed += len(piece)
			return len(piece)%3 != 0 // has enough now and then
		})
		var n int
		n, err = r.Read(buf)
		text = append(text, buf[:n]...)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return text, followed, err
}

// said is the text of a stream's events.
func said(t *testing.T, stream string) string {
	t.Helper()
	var text strings.Builder
	for line := range strings.Lines(stream) {
		data, ok := dataOf([]byte(line))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		var c struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal(data, &c); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		for _, choice := range c.Choices {
			text.WriteString(choice.Delta.Content)
		}
	}
	return text.String()
}

func answerOf(name string) string {
	var b strings.Builder
	for i := range words {
		fmt.Fprintf(&b, "%s%d ", name, i)
	}
	return b.String()
}

// What goes wrong before a client has content is hidden by another replica, and nothing is
// said twice.
func TestFaultsBeforeContentAreHidden(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		fault  string
		stream bool
	}{
		{"500", true}, {"500", false}, {"503", true}, {"503", false}, {"429", false}, {"rst", true}, {"rst", false},
		{"half header", true}, {"half header", false}, {"garbage", true}, {"garbage", false}, {"cut", false}, {"stream unasked", false},
		{"role, then cut", true}, {"role, then end", true}, {"error event", true}, {"stall", true}, {"stall", false},
		{"comments, then cut", true},
	} {
		t.Run(fmt.Sprint(tc.fault, tc.stream), func(t *testing.T) {
			t.Parallel()
			good, bad := newFake(t, "good", ""), newFake(t, "bad", tc.fault)
			config, fields := Config{Routing: Routing{RetryShare: 1}}, ""
			if tc.fault == "stall" {
				config.AnswerTimeout = time.Second
			}
			f := fleetOf(t, config, good, bad)
			if tc.stream {
				fields = streamed
			}
			hit := 0
			for n := 0; n < 4 && (hit == 0 || tc.fault != "stall"); n++ {
				before := bad.calls.Load()
				a, text, err := take(t, f, call(fields))
				if err != nil || a.Status != 200 || a.Replica != good.id() {
					t.Fatalf("%+v %v %s", a, err, text)
				}
				if tc.stream && (said(t, text) != answerOf("good") || strings.Count(text, "assistant") != 1) {
					t.Errorf("%s", text)
				}
				if bad.calls.Load() > before {
					if hit++; a.Attempts != 2 {
						t.Errorf("%d attempts", a.Attempts)
					}
				}
			}
			if hit == 0 {
				t.Error("the bad one was never asked")
			}
		})
	}
}

// A replica that is not there costs no retry of the budget, however many are not there.
func TestUnreachableReplicasAreSkipped(t *testing.T) {
	good := newFake(t, "good", "")
	fakes := []*fake{good}
	for range 4 {
		gone := newFake(t, "gone", "")
		gone.Close()
		fakes = append(fakes, gone)
	}
	f := fleetOf(t, Config{Routing: Routing{BreakerFailures: 1000}}, fakes...)
	for range 20 {
		if a, text, err := take(t, f, call(streamed)); err != nil || a.Status != 200 || said(t, text) != answerOf("good") {
			t.Fatalf("%+v %v", a, err)
		}
	}
}

// What a client has done wrong, another replica would refuse too.
func TestClientErrorsAreNotRetried(t *testing.T) {
	for _, fault := range []string{"400", "bad request event"} {
		a, b := newFake(t, "a", fault), newFake(t, "b", fault)
		f := fleetOf(t, Config{}, a, b)
		for range 3 {
			got, text, err := take(t, f, call(streamed))
			if err != nil || got.Status >= 500 || got.Status < 400 || got.Attempts != 1 || !strings.Contains(text, "error") {
				t.Errorf("%s: %+v %v", fault, got, err)
			}
		}
		if n := a.calls.Load() + b.calls.Load(); n != 3 {
			t.Errorf("%s: %d attempts for 3 requests", fault, n)
		}
	}
}

// A refusal is tried once elsewhere, and then passed on.
func TestRefusalsSpillOnce(t *testing.T) {
	for _, status := range []string{"429", "503"} {
		fakes := []*fake{newFake(t, "a", status), newFake(t, "b", status), newFake(t, "c", status)}
		f := fleetOf(t, Config{}, fakes...)
		got, text, err := take(t, f, call(""))
		if err != nil || fmt.Sprint(got.Status) != status || got.Attempts != 2 || !strings.Contains(text, "c"+status) {
			t.Errorf("%+v %v %s", got, err, text)
		}
	}
}

// Once content has passed, a broken stream ends with an error and is not started over.
func TestBrokenStreamsEndWithAnError(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"cut mid-stream", "end mid-stream", "stall mid-stream"} {
		a, b := newFake(t, "a", fault), newFake(t, "b", fault)
		config := Config{}
		if fault == "stall mid-stream" {
			config.StallTimeout = time.Second
		}
		f := fleetOf(t, config, a, b)
		got, text, err := take(t, f, call(streamed))
		if err == nil || errors.Is(err, io.EOF) || got.Attempts != 1 {
			t.Errorf("%s: %v", fault, err)
		}
		if n := a.calls.Load() + b.calls.Load(); n != 1 {
			t.Errorf("%s: asked %d times", fault, n)
		}
		if fault != "cut mid-stream" && strings.Count(text, "\"content\":\"") != words/2+1 {
			t.Errorf("%s: what had come was %s", fault, text)
		}
		if strings.Contains(text, "[DONE]") {
			t.Errorf("%s: %s", fault, text)
		}
	}
}

// Retries are at most a tenth of the requests.
func TestRetriesHaveABudget(t *testing.T) {
	a, b, c := newFake(t, "a", "500"), newFake(t, "b", "500"), newFake(t, "c", "500")
	f := fleetOf(t, Config{Routing: Routing{BreakerFailures: 1 << 20}}, a, b, c)
	const requests = 19 // 20 failures open the breaker
	for range requests {
		if got, _, err := take(t, f, call("")); err != nil || got.Status != 500 {
			t.Fatalf("%+v %v", got, err)
		}
	}
	if n := a.calls.Load() + b.calls.Load() + c.calls.Load(); n != requests+freeRetries {
		t.Errorf("%d attempts for %d requests", n, requests)
	}
}

func TestBudget(t *testing.T) {
	b := newBudget(0.1, 10*time.Second)
	now := time.Unix(1000, 0)
	taken := func() (n int) {
		for b.take(now) {
			n++
		}
		return n
	}
	if n := taken(); n != freeRetries {
		t.Errorf("%d retries without requests", n)
	}
	for range 200 {
		b.request(now)
	}
	if n := taken(); n != 20-freeRetries {
		t.Errorf("%d more retries of 200 requests", n)
	}
	now = now.Add(9 * time.Second)
	if n := taken(); n != 0 {
		t.Errorf("%d retries within the window", n)
	}
	now = now.Add(time.Hour)
	if n := taken(); n != freeRetries {
		t.Errorf("%d retries after the window", n)
	}
}

// A deadline that has passed ends the attempts.
func TestNoRetryAfterTheDeadline(t *testing.T) {
	a, b := newFake(t, "a", "stall"), newFake(t, "b", "stall")
	f := fleetOf(t, Config{Routing: Routing{AnswerTimeout: 50 * time.Millisecond}}, a, b)
	c := call(streamed)
	c.Head.FirstTokenBy = time.Now().Add(20 * time.Millisecond)
	if _, _, err := take(t, f, c); err == nil {
		t.Error("it was answered")
	}
	if n := a.calls.Load() + b.calls.Load(); n > 1 {
		t.Errorf("%d attempts", n)
	}
}

// Who hangs up says nothing about the replica.
func TestHangingUpBlamesNoOne(t *testing.T) {
	a := newFake(t, "a", "stall")
	f := fleetOf(t, Config{Routing: Routing{BreakerFailures: 1}}, a)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		if _, err := f.Send(ctx, call("")); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	a.set("")
	if got, _, err := take(t, f, call("")); err != nil || got.Status != 200 {
		t.Errorf("%v", err)
	}
	got, err := f.Send(t.Context(), call(streamed)) // it is not read
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Events.Close()
	if n := (f.members.Load().list)[0].running.Load(); n != 0 {
		t.Errorf("%d are running after the end", n)
	}
}

// A replica that fails is left alone.
func TestBreakerOpens(t *testing.T) {
	good, bad := newFake(t, "good", ""), newFake(t, "bad", "500")
	f := fleetOf(t, Config{Balance: inTurn, Routing: Routing{BreakerFailures: 3, BreakerPause: time.Hour, RetryShare: 1}}, good, bad)
	for range 20 {
		if got, _, err := take(t, f, call("")); err != nil || got.Status != 200 {
			t.Fatalf("%+v %v", got, err)
		}
	}
	if n := bad.calls.Load(); n != 3 {
		t.Errorf("the bad one was asked %d times", n)
	}
}

// Where no breaker is closed, the replicas that their probes find ready are asked all the same, and a good answer closes its breaker.
func TestBreakersDoNotKeepAllRequestsFromAll(t *testing.T) {
	a, b := newFake(t, "a", "500"), newFake(t, "b", "500")
	f := fleetOf(t, Config{Balance: inTurn, Routing: Routing{BreakerFailures: 2, BreakerPause: time.Hour, RetryShare: 1}}, a, b)
	for range 20 {
		if got, _, err := take(t, f, call("")); err != nil || got.Status != 500 {
			t.Fatalf("with both open: %+v %v", got, err)
		}
	}
	b.set("")
	for range 20 {
		_, _, _ = take(t, f, call(""))
	}
	before := a.calls.Load()
	for range 20 {
		if got, _, err := take(t, f, call("")); err != nil || got.Replica != b.id() || got.Status != 200 {
			t.Fatalf("with one back: %+v %v", got, err)
		}
	}
	if n := a.calls.Load() - before; n != 0 {
		t.Errorf("the one whose breaker is open was asked %d times", n)
	}
}

// inTurn asks a replica whatever it has answered before.
var inTurn = balance.Config{Policy: balance.RoundRobin}

// A replica that failed is tried again after the pause, and takes its share once it works.
func TestBreakerCloses(t *testing.T) {
	good, bad := newFake(t, "good", ""), newFake(t, "bad", "500")
	f := fleetOf(t, Config{Balance: inTurn, Routing: Routing{BreakerFailures: 3, BreakerPause: 20 * time.Millisecond, RetryShare: 1}}, good, bad)
	asked := func() string {
		t.Helper()
		got, _, err := take(t, f, call(""))
		if err != nil || got.Status != 200 {
			t.Fatalf("%+v %v", got, err)
		}
		return got.Replica
	}
	until(t, "the bad one fails three times", func() bool { asked(); return bad.calls.Load() >= 3 })
	bad.set("")
	until(t, "the bad one is tried again", func() bool { return asked() == bad.id() })
	before := bad.calls.Load()
	for range 10 {
		asked()
	}
	if n := bad.calls.Load() - before; n < 3 {
		t.Errorf("after its return it was asked %d times of 10", n)
	}
}

// Signs of life pass while the answer is held back, and another replica may still take over.
func TestHeartbeatsPassBeforeContent(t *testing.T) {
	bad, good := newFake(t, "bad", "comments, then cut"), newFake(t, "good", "")
	f := fleetOf(t, Config{Balance: inTurn, Routing: Routing{HoldTime: time.Nanosecond, RetryShare: 1}}, bad, good) // it is over with the first comment
	passed := 0
	for bad.calls.Load() < 2 {
		_, text, err := take(t, f, call(streamed))
		if err != nil || said(t, text) != answerOf("good") || strings.Count(text, "assistant") != 1 {
			t.Fatalf("%v %s", err, text)
		}
		passed += strings.Count(text, ": ping\n\n")
	}
	if passed == 0 {
		t.Error("no heartbeat passed")
	}
}

// An event that has passed costs no memory.
func TestRelayedEventsAllocateNothing(t *testing.T) {
	piece := []byte(event("word"))
	f := &Fleet{config: Config{Routing: Routing{StallTimeout: time.Minute}}}
	a := &attempt{timer: time.NewTimer(time.Hour), replica: &replica{}}
	s := &stream{flight: &flight{fleet: f}, attempt: a, body: endless{piece}, content: true}
	buf := make([]byte, 4096)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := s.Read(buf); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for an event", n)
	}
}

type endless struct{ piece []byte }

func (e endless) Read(buf []byte) (int, error) { return copy(buf, e.piece), nil }
func (e endless) Close() error                 { return nil }
