package openai

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/jsonbody"
	"weir/api/openai/priority"
	"weir/api/tenant"
	"weir/internal/inference"
)

// termsOf reads the terms of a request with these header lines and body, as a tenant.
func termsOf(t *testing.T, strict bool, may *tenant.Tenant, header, body string) (got priority.Terms, warnings string, fault *api.Error) {
	t.Helper()
	var ctx fasthttp.RequestCtx
	for line := range strings.Lines(header) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		ctx.Request.Header.Set(name, value)
	}
	s := newServer(t, DefaultConfig(), &fakeBackend{})
	o, err := jsonbody.Parse([]byte(body), strict)
	if err != nil {
		t.Fatal(err)
	}
	got, fault = (&call{server: s, ctx: &ctx, arrived: time.Unix(1000, 0)}).termsReader().Read(o, may)
	return got, o.Notes.Header(), fault
}

func TestClassOfARequest(t *testing.T) {
	free, modest, plain := tenant.New("free"), tenant.New("modest"), tenant.New("plain")
	free.HighestClass = inference.Interactive
	modest.Class, modest.HighestClass = inference.Batch, inference.Default
	for _, tc := range []struct {
		may          *tenant.Tenant
		header, body string
		class        string
		tier         string
		warning      string
	}{
		{&free, "", `{}`, "default", "", ""},
		{&free, "", `{"service_tier":null,"priority":null}`, "default", "", ""},
		{&free, "", `{"service_tier":"auto"}`, "default", "default", ""},
		{&free, "", `{"service_tier":"priority"}`, "interactive", "priority", ""},
		{&free, "", `{"service_tier":"fast"}`, "interactive", "priority", ""},
		{&free, "", `{"service_tier":"scale"}`, "interactive", "priority", ""},
		{&free, "", `{"service_tier":"flex"}`, "batch", "flex", ""},
		{&free, "", `{"service_tier":"batch"}`, "batch", "flex", ""},
		{&free, "", `{"service_tier":"gold"}`, "default", "default", `ignored "service_tier"`},
		{&free, "", `{"priority":-1}`, "interactive", "", ""},
		{&free, "", `{"priority":3}`, "batch", "", ""},
		{&free, "", `{"priority":3,"service_tier":"priority"}`, "interactive", "priority", ""},
		{&free, "", `{"priority":3,"service_tier":"auto"}`, "batch", "flex", ""},
		{&free, "X-Weir-Class: batch", `{"service_tier":"priority"}`, "batch", "flex", ""},
		{&modest, "", `{}`, "batch", "", ""},
		{&modest, "", `{"priority":0}`, "batch", "", ""},
		{&modest, "", `{"service_tier":"default"}`, "default", "default", ""},
		{&modest, "", `{"service_tier":"priority"}`, "default", "default", "service_tier lowered to class default, the highest of the tenant"},
		{&modest, "", `{"priority":-1}`, "default", "", "priority lowered to class default, the highest of the tenant"},
		{&plain, "", `{}`, "default", "", ""}, // its highest class is its own
		{&plain, "", `{"service_tier":"flex"}`, "batch", "flex", ""},
		{&plain, "", `{"service_tier":"priority"}`, "default", "default", "service_tier lowered to class default, the highest of the tenant"},
		{&plain, "", `{"priority":-1}`, "default", "", "priority lowered to class default, the highest of the tenant"},
		{&modest, "X-Weir-Class: interactive", `{}`, "default", "", "x-weir-class lowered to class default, the highest of the tenant"},
	} {
		got, warnings, fault := termsOf(t, false, tc.may, tc.header, tc.body)
		if fault != nil || got.Class.String() != tc.class || got.Tier != tc.tier || warnings != tc.warning {
			t.Errorf("%s %s of %s: class %s, tier %q, warnings %q, %v; want %s, %q, %q", tc.header, tc.body, tc.may.Name,
				got.Class.String(), got.Tier, warnings, fault, tc.class, tc.tier, tc.warning)
		}
		_, _, fault = termsOf(t, true, tc.may, tc.header, tc.body)
		if (fault != nil) != (tc.warning != "") {
			t.Errorf("%s %s of %s on a strict server: %v", tc.header, tc.body, tc.may.Name, fault)
		}
	}
	for _, tc := range []struct{ header, body, says string }{
		{"X-Weir-Class: urgent", `{}`, `the header x-weir-class is "urgent"; it must be interactive, default, batch`},
		{"", `{"service_tier":7}`, "service_tier"},
		{"", `{"priority":"high"}`, "priority"},
	} {
		if _, _, fault := termsOf(t, false, &free, tc.header, tc.body); fault == nil || !strings.Contains(fault.Message, tc.says) {
			t.Errorf("%s %s: %v", tc.header, tc.body, fault)
		}
	}
}

func TestDeadlinesOfARequest(t *testing.T) {
	free, capped := tenant.New("free"), tenant.New("capped")
	capped.FirstTokenTimeout, capped.TotalTimeout, capped.QueueTimeout = 2*time.Second, 20*time.Second, 5*time.Second
	for _, tc := range []struct {
		may               *tenant.Tenant
		header, body      string
		first, done, wait time.Duration // after the arrival; 0 is none
	}{
		{&free, "", `{}`, 0, 0, 0},
		{&free, "", `{"ttft_deadline_ms":250,"deadline_ms":9000}`, 250 * time.Millisecond, 9 * time.Second, 0},
		{&free, "X-Weir-Ttft-Ms: 300\nX-Weir-Deadline-Ms: 4000", `{}`, 300 * time.Millisecond, 4 * time.Second, 0},
		{&free, "X-Llm-D-Slo-Ttft-Ms: 300.5", `{}`, 300500 * time.Microsecond, 0, 0},
		{&free, "X-Llm-D-Slo-Ttft-Ms: 300\nX-Weir-Ttft-Ms: 200", `{"ttft_deadline_ms":100}`, 100 * time.Millisecond, 0, 0},
		{&free, "X-Weir-Ttft-Ms: 200", `{"ttft_deadline_ms":400}`, 200 * time.Millisecond, 0, 0},
		{&capped, "", `{}`, 2 * time.Second, 20 * time.Second, 5 * time.Second},
		{&capped, "", `{"ttft_deadline_ms":9000,"deadline_ms":1000}`, 2 * time.Second, time.Second, 5 * time.Second},
	} {
		got, _, fault := termsOf(t, false, tc.may, tc.header, tc.body)
		for i, d := range []struct {
			at   time.Time
			want time.Duration
		}{{got.FirstTokenBy, tc.first}, {got.DoneBy, tc.done}, {got.WaitUntil, tc.wait}} {
			if want := time.Unix(1000, 0).Add(d.want); fault != nil || d.want == 0 && !d.at.IsZero() || d.want != 0 && !d.at.Equal(want) {
				t.Errorf("%s %s of %s: time %d is %v, want %v, %v", tc.header, tc.body, tc.may.Name, i, d.at, want, fault)
			}
		}
	}
	for _, wrong := range []string{"0", "-1", "soon", "1e3", "0x10", "NaN", "86400001", "0.0001"} {
		if _, _, fault := termsOf(t, false, &free, "X-Weir-Deadline-Ms: "+wrong, `{}`); fault == nil || fault.Code != "invalid_value" {
			t.Errorf("a deadline of %q: %v", wrong, fault)
		}
	}
	for _, wrong := range []string{`0`, `-1`, `"5"`, `1.5`, `86400001`} {
		if _, _, fault := termsOf(t, false, &free, "", `{"deadline_ms":`+wrong+`}`); fault == nil || fault.Param != "deadline_ms" {
			t.Errorf("deadline_ms of %s: %v", wrong, fault)
		}
	}
}

func FuzzParseMilliseconds(f *testing.F) {
	for _, s := range []string{"1", "250.5", ".5", "1.2.3", "", ".", "86400000", "00007", "1e9", "+1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, ok := edge.ParseMilliseconds(text)
		if ok != (d > 0) || d > edge.MaxDeadline || ok && strings.ContainsAny(text, "eExX+- _") {
			t.Errorf("%q is %v, %v", text, d, ok)
		}
	})
}

// What the edge read reaches the backend, and the answer says how it was served.
func TestTermsReachTheBackend(t *testing.T) {
	b, c := &fakeBackend{}, DefaultConfig()
	again := 0
	c.Hooks.OnClientRetry = func() { again++ }
	r := newRig(t, c, b)
	defer r.close()
	for i, body := range []string{
		chatWith(`"service_tier":"flex"`), chatWith(`"service_tier":"flex","stream":true`), textWith(`"service_tier":"flex"`),
	} {
		path := routeChat
		if i == 2 {
			path = routeCompletions
		}
		res, text := r.do("POST", path, "X-Weir-Ttft-Ms: 5000\r\nX-Stainless-Retry-Count: 2\r\n", body)
		req := b.runs[i].req
		if res.StatusCode != 200 || !strings.Contains(text, `"service_tier":"flex"`) || req.Class != inference.Batch || req.Retries != 2 ||
			!req.FirstTokenBy.Equal(req.Arrived.Add(5*time.Second)) || !req.DoneBy.IsZero() || !req.WaitUntil.IsZero() {
			t.Errorf("%s: %d %s, request %+v", body, res.StatusCode, text, req)
		}
	}
	r.do("POST", routeChat, "X-Stainless-Retry-Count: 1\r\n", `{}`) // refused, and yet a retry
	r.do("POST", routeChat, "X-Stainless-Retry-Count: 0\r\n", chatWith(`"n":1`))
	r.do("GET", routeModels, "X-Stainless-Retry-Count: 1\r\n", "")
	if again != 4 {
		t.Errorf("%d retries were counted, want 4", again)
	}
}

// ends is a script that waits, says a text and ends as the scheduler ends a request.
func ends(after time.Duration, text string, err error) func(*fakeRun) {
	return func(r *fakeRun) {
		if !r.pause(after) {
			r.stream.Close(inference.ErrCancelled)
			return
		}
		for i := range len(text) {
			r.token(0, inference.TokenID(text[i]-'!'))
		}
		r.stream.Close(err)
	}
}

// Before the first byte of a stream an error is a status, after it an event. A deadline
// never looks like an answer that was cut at its length.
func TestErrorsOfStreamsBeforeAndAfterTheFirstByte(t *testing.T) {
	late := fmt.Errorf("step: %w", inference.ErrDeadline)
	for _, tc := range []struct {
		name   string
		script func(*fakeRun)
		status int
		has    string
	}{
		{"expired in the queue", ends(3*time.Second, "", late), 408, "deadline_exceeded"},
		{"waited too long", ends(9*time.Second, "", inference.ErrQueueTimeout), 503, "queue_timeout"},
		{"after a heartbeat", ends(11*time.Second, "", inference.ErrQueueTimeout), 200, ": ping\ndata: {\"error\":"},
		{"after a token", ends(time.Second, "A", late), 200, `"code":"deadline_exceeded"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, DefaultConfig(), &fakeBackend{script: tc.script})
				defer r.closeInBubble()
				began := time.Now()
				res, text := r.do("POST", routeChat, "", chatWith(`"stream":true`))
				if res.StatusCode != tc.status || !strings.Contains(text, tc.has) || strings.Contains(text, `"length"`) || strings.Contains(text, "[DONE]") {
					t.Errorf("%d after %v: %s", res.StatusCode, time.Since(began), text)
				}
				if tc.status != 200 && (res.Header.Get("X-Should-Retry") == "" || strings.HasPrefix(text, "data:")) {
					t.Errorf("headers %v, body %s", res.Header, text)
				}
			})
		})
	}
}

// A stream that cannot begin yet has its header with the first heartbeat at the
// latest, and at once where it asked for progress.
func TestHeaderOfAQuietStream(t *testing.T) {
	for fields, want := range map[string]time.Duration{
		`"stream":true`: 10 * time.Second,
		`"stream":true,"stream_options":{"include_progress":true}`: 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), &fakeBackend{script: ends(time.Minute, "A", nil)})
			defer r.closeInBubble()
			conn, err := r.ln.Dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			began := time.Now()
			if _, err := io.WriteString(conn, rawRequest("POST", routeChat, "", chatWith(fields))); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if took := time.Since(began); err != nil || res.StatusCode != 200 || took != want {
				t.Errorf("%s: the header came after %v, want %v; %v", fields, took, want, err)
			}
			_ = res.Body.Close()
		})
	}
}

// A client that hangs up before the first token of its stream ends the request.
func TestHangUpBeforeTheHeaderOfAStream(t *testing.T) {
	finished := make(chan edge.RequestFinish, 1)
	c := DefaultConfig()
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
	b := &fakeBackend{script: ends(time.Minute, "A", nil)}
	r := newRig(t, c, b)
	defer r.close()
	conn, err := r.ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, rawRequest("POST", routeChat, "", chatWith(`"stream":true`))); err != nil {
		t.Fatal(err)
	}
	run := b.run(t, 0)
	_ = conn.Close()
	<-run.cancelled
	if f := <-finished; f.Status != edge.StatusHungUp {
		t.Errorf("finish %+v", f)
	}
}

func TestDeadlinesOfRelayedRequests(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	body := make(chan string, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		text, _ := io.ReadAll(q.Body)
		got <- q
		body <- string(text)
		if strings.Contains(string(text), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
			w.(http.Flusher).Flush() //nolint:forcetypeassert // it always is one
		}
		<-q.Context().Done()
	}))
	defer upstream.Close()
	r := relayRig(t, DefaultConfig(), upstream.URL)
	defer r.close()
	for _, tc := range []struct {
		fields string
		status int
		has    string
	}{
		{`"ttft_deadline_ms":100`, 408, `"code":"deadline_exceeded"`},
		{`"deadline_ms":100`, 408, `"code":"deadline_exceeded"`},
		{`"deadline_ms":1500,"ttft_deadline_ms":1400,"stream":true`, 200, "data: {\"error\":"},
		{`"deadline_ms":-1`, 400, `"param":"deadline_ms"`},
	} {
		res, text := r.do("POST", routeChat, "", `{"model":"front","messages":[],`+tc.fields+`}`)
		if res.StatusCode != tc.status || !strings.Contains(text, tc.has) {
			t.Errorf("%s: %d %s", tc.fields, res.StatusCode, text)
		}
		if tc.status == 400 {
			continue
		}
		q, sent := <-got, <-body
		if strings.Contains(sent, "deadline") || q.Header.Get("X-Weir-Ttft-Ms")+q.Header.Get("X-Weir-Deadline-Ms") == "" {
			t.Errorf("%s: the upstream got %s, %v", tc.fields, sent, q.Header)
		}
	}
}
