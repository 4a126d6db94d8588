package openai

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/answer"
	"weir/api/replay"
	"weir/internal/inference"
)

// The compressor of stored answers has a channel, which must not belong to the bubble of
// virtual time that happens to use it first.
func init() {
	if _, err := (&replay.Answer{Status: statusOK, Body: make([]byte, 1<<10)}).Encode(); err != nil {
		panic(err)
	}
}

func keyed(key string) string { return edge.KeyHeader + ": " + key + "\r\n" }

// keyRig counts what happens to keys.
type keyRig struct {
	*rig
	mu   sync.Mutex
	ends map[string]int
}

func newKeyRig(t testing.TB, c Config, b *fakeBackend) *keyRig {
	k := &keyRig{ends: map[string]int{}}
	c.Hooks.OnKey = func(how string, err error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.ends[how]++
		if (err != nil) != (how == edge.KeyFailed) {
			t.Errorf("%s with %v", how, err)
		}
	}
	k.rig = newRig(t, c, b)
	return k
}

func (k *keyRig) count(how string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ends[how]
}

func (b *fakeBackend) executions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.runs)
}

// expect sends a request under a key and checks how it is answered.
func (k *keyRig) expect(key, path, body string, status int, code string, replayed bool) string {
	k.t.Helper()
	res, text := k.do("POST", path, keyed(key), body)
	if res.StatusCode != status || code != "" && !strings.Contains(text, `"code":"`+code+`"`) ||
		(res.Header.Get("X-Weir-Replayed") == "true") != replayed {
		k.t.Errorf("%s %s: %d %v %s; want %d %s, replayed %v", key, body, res.StatusCode, res.Header, text, status, code, replayed)
	}
	return text
}

func TestRepetitionsGetTheFirstAnswer(t *testing.T) {
	b := &fakeBackend{}
	k := newKeyRig(t, DefaultConfig(), b)
	defer k.close()
	for i, tc := range []struct{ path, body string }{
		{routeChat, chatWith(`"n":2`)},
		{routeChat, chatWith(`"stream":true,"stream_options":{"include_usage":true}`)},
		{routeCompletions, textWith(`"n":1`)},
		{routeCompletions, `{"prompt":["a","b","c"],"stream":true,"logprobs":2}`},
		{routeCompletions, `{"prompt":"a","unknown":1}`},
	} {
		key := fmt.Sprint("key", i)
		before := b.executions()
		first, text := k.do("POST", tc.path, keyed(key), tc.body)
		if first.StatusCode != statusOK || first.Header.Get("X-Weir-Replayed") != "" {
			t.Fatalf("%s: %d %v %s", tc.body, first.StatusCode, first.Header, text)
		}
		executed := b.executions()
		again, same := k.do("POST", tc.path, keyed(`"`+key+`"`), tc.body)
		if again.StatusCode != statusOK || again.Header.Get("X-Weir-Replayed") != "true" || same != text ||
			again.Header.Get("Content-Type") != first.Header.Get("Content-Type") ||
			again.Header.Get("X-Weir-Warnings") != first.Header.Get("X-Weir-Warnings") {
			t.Errorf("%s: %d %v\n%s\nafter %v\n%s", tc.body, again.StatusCode, again.Header, same, first.Header, text)
		}
		if executed == before || b.executions() != executed {
			t.Errorf("%s: %d executions, then %d", tc.body, executed-before, b.executions()-executed)
		}
		k.expect(key, tc.path, tc.body+" ", http.StatusUnprocessableEntity, "idempotency_key_reused", false)
		other := routeChat
		if tc.path == routeChat {
			other = routeCompletions
		}
		k.expect(key, other, tc.body, http.StatusUnprocessableEntity, "idempotency_key_reused", false)
	}
	if k.count(edge.KeyExecuted) != 5 || k.count(edge.KeyReplayed) != 5 || k.count(edge.KeyReused) != 10 {
		t.Errorf("%v", k.ends)
	}
}

func TestInvalidKeysAreRefused(t *testing.T) {
	k := newKeyRig(t, DefaultConfig(), &fakeBackend{})
	defer k.close()
	for _, header := range []string{
		keyed("a b"), keyed(`"a`), keyed(""), keyed(`"a";x`), keyed(strings.Repeat("k", 256)), keyed("ä"), keyed("a") + keyed("a"),
	} {
		res, text := k.do("POST", routeChat, header, chatWith(`"n":1`))
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(text, `"invalid_idempotency_key"`) {
			t.Errorf("%q: %d %s", header, res.StatusCode, text)
		}
	}
	if n := k.backend.executions(); n != 0 {
		t.Errorf("%d executions", n)
	}
}

func TestServerWithoutKeysSaysSo(t *testing.T) {
	for _, strict := range []bool{false, true} {
		c := DefaultConfig()
		c.Strict, c.Idempotency.TTL = strict, 0
		k := newKeyRig(t, c, &fakeBackend{})
		res, text := k.do("POST", routeChat, keyed("a"), chatWith(`"n":1`))
		switch {
		case strict && (res.StatusCode != http.StatusBadRequest || !strings.Contains(text, "unsupported_header")):
			t.Errorf("strict: %d %s", res.StatusCode, text)
		case !strict && (res.StatusCode != statusOK || !strings.Contains(res.Header.Get("X-Weir-Warnings"), edge.KeyHeader)):
			t.Errorf("%d %v", res.StatusCode, res.Header)
		}
		k.close()
	}
}

// What is refused, or fails for now, frees the key; what failed for good is the answer.
func TestWhatIsKept(t *testing.T) {
	ended := func(err error) func(*fakeRun) {
		return func(r *fakeRun) {
			r.token(0, 65)
			r.stream.Close(err)
		}
	}
	refused := func(err error) func(*inference.Request) error { return func(*inference.Request) error { return err } }
	for _, tc := range []struct {
		name         string
		refuse       func(*inference.Request) error
		script       func(*fakeRun)
		body         string
		status       int // of the whole answer
		kept         bool
		maxBodyBytes int
	}{
		{name: "bad parameter", body: chatWith(`"temperature":9`), status: 400},
		{name: "never fits", refuse: refused(inference.ErrNeverFits), status: 400},
		{name: "tenant's queue", refuse: refused(inference.ErrTenantQueueFull), status: 429},
		{name: "queue", refuse: refused(inference.ErrQueueFull), status: 503},
		{name: "bug at submission", refuse: refused(errors.New("bug")), status: 500, kept: true},
		{name: "queue timeout", script: ended(inference.ErrQueueTimeout), status: 503},
		{name: "deadline", script: ended(inference.ErrDeadline), status: 408},
		{name: "cancelled", script: ended(inference.ErrCancelled), status: 503},
		{name: "slow consumer", script: ended(inference.ErrSlowConsumer), status: 408},
		{name: "bug", script: ended(inference.ErrInternal), status: 500, kept: true},
		{name: "silent end", script: ended(nil), status: 500, kept: true},
		{name: "too large", script: say("Hello world", 0), status: 200, maxBodyBytes: 100},
		{name: "fits", script: say("Hello world", 0), status: 200, kept: true, maxBodyBytes: 5000},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %v", tc.name, stream), func(t *testing.T) {
				c := DefaultConfig()
				if tc.maxBodyBytes > 0 {
					c.Idempotency.MaxAnswerBytes = tc.maxBodyBytes
				}
				b := &fakeBackend{refuse: tc.refuse, script: tc.script}
				k := newKeyRig(t, c, b)
				defer k.close()
				body := tc.body
				if body == "" {
					body = chatWith(fmt.Sprintf(`"stream":%v`, stream))
				}
				status := tc.status
				if stream && tc.script != nil {
					status = statusOK
				}
				first := k.expect("k", routeChat, body, status, "", false)
				executed := b.executions()
				again := k.expect("k", routeChat, body, status, "", tc.kept)
				if tc.kept && (again != first || b.executions() != executed) {
					t.Errorf("%d executions\n%s\n%s", b.executions(), first, again)
				}
				if !tc.kept && tc.script != nil && b.executions() != executed+1 {
					t.Errorf("it was executed %d times", b.executions())
				}
				if k.count(edge.KeyInFlight) != 0 {
					t.Error("a key is stuck")
				}
			})
		}
	}
}

// An error that is kept tells SDKs that trying again gives the same.
func TestReplayedErrorsAreNotRetried(t *testing.T) {
	k := newKeyRig(t, DefaultConfig(), &fakeBackend{script: func(r *fakeRun) { r.stream.Close(inference.ErrInternal) }})
	defer k.close()
	for i := range 2 {
		res, _ := k.do("POST", routeChat, keyed("k"), chatWith(`"n":1`))
		if res.StatusCode != statusInternal || res.Header.Get("X-Should-Retry") != "false" ||
			(res.Header.Get("X-Weir-Replayed") == "true") != (i == 1) {
			t.Errorf("%d: %d %v", i, res.StatusCode, res.Header)
		}
	}
}

// Of 200 at once one is executed; the others are told to come back, and then have
// its answer.
func TestOneOfManyIsExecuted(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const callers = 200
			b := &fakeBackend{script: say("Hello world", 100*time.Millisecond)}
			k := newKeyRig(t, DefaultConfig(), b)
			defer k.closeInBubble()
			body := chatWith(fmt.Sprintf(`"stream":%v`, stream))
			texts := make([]string, callers)
			var conflicts atomic.Int32
			var wait sync.WaitGroup
			for i := range callers {
				wait.Go(func() {
					for range 100 {
						res, text := k.do("POST", routeChat, keyed("one"), body)
						if res.StatusCode == statusOK {
							texts[i] = text
							return
						}
						if res.StatusCode != http.StatusConflict || res.Header.Get("Retry-After") != "2" ||
							!strings.Contains(text, "idempotency_in_flight") {
							t.Errorf("%d %v %s", res.StatusCode, res.Header, text)
							return
						}
						conflicts.Add(1)
						time.Sleep(time.Second)
					}
				})
			}
			wait.Wait()
			for i := range texts {
				if texts[i] != texts[0] || !strings.Contains(texts[i], "Hello") {
					t.Fatalf("caller %d has %s", i, texts[i])
				}
			}
			if b.executions() != 1 || k.count(edge.KeyExecuted) != 1 || k.count(edge.KeyReplayed) != callers-1 || conflicts.Load() < callers-1 {
				t.Errorf("%d executions, %d conflicts, %v", b.executions(), conflicts.Load(), k.ends)
			}
		})
	}
}

// A client that hangs up under a key gets the whole answer when it asks again.
func TestHangUpUnderAKeyDoesNotCancel(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, body string
		read       int // lines before leaving
	}{
		{"stream, before a token", chatWith(`"stream":true`), 1},
		{"stream, amid tokens", chatWith(`"stream":true`), 14},
		{"whole", chatWith(`"n":1`), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hungUp := make(chan string, 4)
			ends := make(chan string, 4)
			c := DefaultConfig()
			c.Hooks.OnDisconnect = func(model string) { hungUp <- model }
			c.Hooks.OnKey = func(how string, _ error) { ends <- how }
			b := &fakeBackend{script: say("Hello world the Hello world the end", 5*time.Millisecond)}
			addr := loopback(t, c, api.DefaultConfig(), b)
			conn := dial(t, addr)
			if _, err := io.WriteString(conn, rawRequest("POST", routeChat, keyed("k"), tc.body)); err != nil {
				t.Fatal(err)
			}
			b.run(t, 0)
			br := bufio.NewReader(conn)
			for range tc.read {
				if _, err := br.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // a reset, which writes notice
			}
			_ = conn.Close()
			if how := waitFor(t, ends, "the end of the execution"); how != edge.KeyExecuted {
				t.Fatalf("the key is %s", how)
			}
			res, text := exchange(t, dial(t, addr), "POST", rawRequest("POST", routeChat, keyed("k"), tc.body))
			if res.Header.Get("X-Weir-Replayed") != "true" || !strings.Contains(text, `"finish_reason":"stop"`) ||
				strings.Count(text, "world") != 2 {
				t.Errorf("%v %s", res.Header, text)
			}
			select {
			case model := <-hungUp:
				t.Errorf("a hang-up of %s was reported", model)
			default:
			}
		})
	}
}

// rawAnswer reads a response's bytes: its header's lines in order, except for those that
// belong to the exchange itself, and its body.
func rawAnswer(t *testing.T, addr, request string) (header []string, body string) {
	t.Helper()
	conn := dial(t, addr)
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(raw), "\r\n\r\n")
	if !found {
		t.Fatalf("%q", raw)
	}
	for line := range strings.SplitSeq(head, "\r\n") {
		name, _, _ := strings.Cut(strings.ToLower(line), ":")
		if name != "date" && name != "x-request-id" && name != "x-weir-replayed" {
			header = append(header, line)
		}
	}
	var text strings.Builder
	for rest != "" { // chunks
		size, after, _ := strings.Cut(rest, "\r\n")
		var n int
		if _, err := fmt.Sscanf(size, "%x", &n); err != nil {
			t.Fatalf("a chunk of %q bytes", size)
		}
		if n == 0 {
			break
		}
		text.WriteString(after[:n])
		rest = after[n+2:]
	}
	return header, text.String()
}

func TestReplayedStreamIsTheSameOnTheWire(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	c.HeartbeatEvery = 100 * time.Millisecond
	addr := loopback(t, c, api.DefaultConfig(), &fakeBackend{script: say("Hello é👋 world", 60*time.Millisecond)})
	request := rawRequest("POST", routeChat, "Connection: close\r\n"+keyed("k"),
		chatWith(`"stream":true,"logprobs":true,"top_logprobs":2,"stream_options":{"include_usage":true}`))
	header, body := rawAnswer(t, addr, request)
	for range 2 {
		again, same := rawAnswer(t, addr, request)
		if strings.Join(again, "\n") != strings.Join(header, "\n") || same != body || !strings.HasSuffix(body, answer.Done) {
			t.Fatalf("%s\n\n%s\n\nafter\n\n%s\n\n%s", again, same, header, body)
		}
	}
}

// A key is a tenant's own: another tenant's is another key, and neither learns of the
// other's.
func TestKeysAreATenantsOwn(t *testing.T) {
	c := DefaultConfig()
	c.APIKeys = []string{"tenant-one", "tenant-two"}
	b := &fakeBackend{}
	k := newKeyRig(t, c, b)
	defer k.close()
	ask := func(tenant, body string) (string, string) {
		t.Helper()
		res, text := k.do("POST", routeChat, "Authorization: Bearer "+tenant+"\r\n"+keyed("k"), body)
		if res.StatusCode != statusOK {
			t.Fatalf("%s: %d %s", tenant, res.StatusCode, text)
		}
		return res.Header.Get("X-Weir-Replayed"), text
	}
	_, one := ask("tenant-one", chatWith(`"n":1`))
	if replayed, two := ask("tenant-two", chatWith(`"n":1`)); replayed != "" || two == one {
		t.Errorf("the second tenant got the first one's answer: %s", two)
	}
	ask("tenant-two", chatWith(`"n":1`))
	if replayed, again := ask("tenant-one", chatWith(`"n":1`)); replayed != "true" || again != one {
		t.Errorf("the first tenant got %s", again)
	}
	res, _ := k.do("POST", routeChat, "Authorization: Bearer tenant-x\r\n"+keyed("k"), chatWith(`"n":1`))
	if res.StatusCode != http.StatusUnauthorized || b.executions() != 2 {
		t.Errorf("%d, %d executions", res.StatusCode, b.executions())
	}
}

// brokenClaims fails as it is told.
type brokenClaims struct {
	replay.Claims
	look, begin, finish atomic.Bool
}

var errBroken = errors.New("the database is gone")

func (b *brokenClaims) Look(ctx context.Context, r replay.Request) (replay.Outcome, error) {
	if b.look.Load() {
		return replay.Outcome{}, errBroken
	}
	return b.Claims.Look(ctx, r)
}

func (b *brokenClaims) Begin(ctx context.Context, r replay.Request) (replay.Outcome, error) {
	if b.begin.Load() {
		return replay.Outcome{}, errBroken
	}
	return b.Claims.Begin(ctx, r)
}

func (b *brokenClaims) Finish(ctx context.Context, c replay.Claim, answer []byte) error {
	if b.finish.Load() {
		return errBroken
	}
	return b.Claims.Finish(ctx, c, answer)
}

// Without its store a request under a key does not run; one that runs is answered.
func TestStoreOfKeysFails(t *testing.T) {
	claims := &brokenClaims{Claims: replay.NewMemory(1 << 20)}
	c := DefaultConfig()
	c.Idempotency.Claims = claims
	b := &fakeBackend{}
	k := newKeyRig(t, c, b)
	defer k.close()
	for _, broken := range []*atomic.Bool{&claims.look, &claims.begin} {
		broken.Store(true)
		k.expect("k", routeChat, chatWith(`"n":1`), http.StatusServiceUnavailable, "idempotency_unavailable", false)
		broken.Store(false)
	}
	if b.executions() != 0 {
		t.Error("it was executed")
	}
	if status, text := k.post(routeChat, chatWith(`"n":1`)); status != statusOK {
		t.Errorf("without a key: %d %s", status, text)
	}
	claims.finish.Store(true)
	for _, stream := range []string{`"n":1`, `"stream":true`} {
		k.expect("k", routeChat, chatWith(stream), statusOK, "", false)
	}
	claims.finish.Store(false)
	k.expect("k", routeChat, chatWith(`"n":1`), statusOK, "", false)
	k.expect("k", routeChat, chatWith(`"n":1`), statusOK, "", true)
}

// takenClaims are those of a process that was slow: another one has taken them before it ends.
type takenClaims struct{ replay.Claims }

func (takenClaims) Finish(context.Context, replay.Claim, []byte) error { return replay.ErrClaimTaken }

// An execution whose key another one has does not send its answer: its stream ends with an error.
func TestAnAnswerWhoseKeyWasTakenIsNotGiven(t *testing.T) {
	c := DefaultConfig()
	c.Idempotency.Claims = takenClaims{replay.NewMemory(1 << 20)}
	k := newKeyRig(t, c, &fakeBackend{})
	defer k.close()
	k.expect("whole", routeChat, chatWith(`"n":1`), http.StatusConflict, "idempotency_in_flight", false)
	for route, body := range map[string]string{
		routeChat: chatWith(`"stream":true`), routeResponses: `{"input":"hi","stream":true,"store":false}`,
		routeMessages: `{"messages":[{"role":"user","content":"hi"}],"max_tokens":200,"stream":true}`,
	} {
		_, text := k.do("POST", route, keyed("stream"+route[4:]), body)
		if !strings.Contains(text, "Idempotency-Key is still running") || strings.Contains(text, "[DONE]") || strings.Contains(text, "message_stop") || strings.Contains(text, "response.completed") {
			t.Errorf("%s: %s", route, text)
		}
	}
}

// The answer is stored before its last bytes leave.
func TestAnswersAreStoredBeforeTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims := &slowClaims{Claims: replay.NewMemory(1 << 20), takes: 3 * time.Second}
		c := DefaultConfig()
		c.Idempotency.Claims = claims
		k := newKeyRig(t, c, &fakeBackend{})
		defer k.closeInBubble()
		for i, body := range []string{chatWith(`"stream":true`), chatWith(`"n":1`)} {
			start := time.Now()
			if text := k.expect(fmt.Sprint(i), routeChat, body, statusOK, "", false); time.Since(start) < claims.takes {
				t.Errorf("%s was complete after %v", text, time.Since(start))
			}
		}
	})
}

type slowClaims struct {
	replay.Claims
	takes time.Duration
}

func (s *slowClaims) Finish(ctx context.Context, c replay.Claim, answer []byte) error {
	time.Sleep(s.takes)
	return s.Claims.Finish(ctx, c, answer)
}

// A drain waits for executions whose client is gone, and frees the keys of those that it
// cuts off.
func TestDrainOfAnExecution(t *testing.T) {
	for _, tc := range []struct {
		name  string
		grace time.Duration
		how   string
	}{{"long enough", time.Minute, edge.KeyExecuted}, {"too short", 50 * time.Millisecond, edge.KeyFreed}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &fakeBackend{script: say("Hello world the end", 100*time.Millisecond)}
				k := newKeyRig(t, DefaultConfig(), b)
				conn, err := k.ln.Dial()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(conn, rawRequest("POST", routeChat, keyed("k"), chatWith(`"stream":true`))); err != nil {
					t.Fatal(err)
				}
				b.run(t, 0)
				_ = conn.Close()
				ctx, cancel := context.WithTimeout(t.Context(), tc.grace)
				defer cancel()
				if err := k.openai.Drain(ctx); err != nil {
					t.Error(err)
				}
				if k.count(tc.how) != 1 || len(k.ends) != 1 {
					t.Errorf("%v, want %s", k.ends, tc.how)
				}
				k.closeInBubble()
			})
		})
	}
}

func TestRelayedAnswersAreReplayed(t *testing.T) {
	b := &fakeBackend{script: say("Hello world", time.Millisecond)}
	r := relayRig(t, DefaultConfig(), edgeUpstream(t, b))
	defer r.close()
	for _, body := range []string{chatWith(`"n":1`), chatWith(`"stream":true`)} {
		_, first := r.do("POST", routeChat, keyed(body[len(body)-9:len(body)-2]), body)
		executed := b.executions()
		res, again := r.do("POST", routeChat, keyed(body[len(body)-9:len(body)-2]), body)
		if res.StatusCode != statusOK || res.Header.Get("X-Weir-Replayed") != "true" || first != again || b.executions() != executed {
			t.Errorf("%d %v\n%s\n%s", res.StatusCode, res.Header, first, again)
		}
	}
	for range 2 { // an upstream's refusal is no answer
		res, text := r.do("POST", routeChat, keyed("bad"), chatWith(`"temperature":9`))
		if res.StatusCode != http.StatusBadRequest || res.Header.Get("X-Weir-Replayed") != "" {
			t.Errorf("%d %v %s", res.StatusCode, res.Header, text)
		}
	}
}

// An upstream that is down is asked again.
func TestUnreachableUpstreamFreesTheKey(t *testing.T) {
	r := relayRig(t, DefaultConfig(), "http://127.0.0.1:1/v1")
	defer r.close()
	for range 2 {
		res, text := r.do("POST", routeChat, keyed("k"), chatWith(`"n":1`))
		if res.StatusCode != http.StatusBadGateway || res.Header.Get("X-Weir-Replayed") != "" {
			t.Errorf("%d %v %s", res.StatusCode, res.Header, text)
		}
	}
}

// A bug at submission frees the key.
func TestBugsFreeTheKey(t *testing.T) {
	panics := true
	k := newKeyRig(t, DefaultConfig(), &fakeBackend{refuse: func(*inference.Request) error {
		if panics {
			panic("a bug")
		}
		return nil
	}})
	defer k.close()
	for _, body := range []string{chatWith(`"n":1`), chatWith(`"stream":true`)} {
		panics = true
		k.expect("k", routeChat, body, statusInternal, "internal_error", false)
		if n := k.count(edge.KeyFreed); n != 1 {
			t.Errorf("%d keys were freed", n)
		}
		panics = false
		k.expect("k", routeChat, body, statusOK, "", false)
		k.expect("k", routeChat, body, statusOK, "", true)
		k.ends = map[string]int{}
		k.openai.keys.Claims = replay.NewMemory(1 << 20)
	}
}

func TestDamagedStoredAnswers(t *testing.T) {
	claims := replay.NewMemory(1 << 20)
	c := DefaultConfig()
	c.Idempotency.Claims = claims
	b := &fakeBackend{}
	k := newKeyRig(t, c, b)
	defer k.close()
	body := chatWith(`"n":1`)
	begun, err := claims.Begin(t.Context(), replay.Request{Key: "k", Fingerprint: replay.Fingerprint(routeChat, []byte(body)), TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if err := claims.Finish(t.Context(), begun.Claim, []byte("no answer")); err != nil {
		t.Fatal(err)
	}
	text := k.expect("k", routeChat, body, statusInternal, "internal_error", false)
	if !strings.Contains(text, "send a new key") || b.executions() != 0 || k.count(edge.KeyFailed) != 1 {
		t.Errorf("%s, %d executions, %v", text, b.executions(), k.ends)
	}
}
