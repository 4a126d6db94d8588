package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/inference"
	"weir/router"
	"weir/router/balance"
)

// pooled is a fleet of one prefill and one decode replica, both stand-ins.
type pooled struct {
	*Fleet
	prefill, decode *httptest.Server
	answer          http.HandlerFunc // of the prefill replica

	mu   sync.Mutex
	told map[string][]inference.KVTransfer // what replicas were told, by who
}

const prefixTokens = 16 * 40

func newPooled(t *testing.T) *pooled {
	t.Helper()
	p := &pooled{told: make(map[string][]inference.KVTransfer)}
	hear := func(who string, answer func(w http.ResponseWriter, r *http.Request)) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				return
			}
			var kv inference.KVTransfer
			_ = json.Unmarshal([]byte(r.Header.Get(router.CallerHeader)), &kv)
			p.mu.Lock()
			p.told[who] = append(p.told[who], kv)
			p.mu.Unlock()
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client is gone
			w.Header().Set("Content-Type", "application/json")
			answer(w, r)
		}))
		t.Cleanup(s.Close)
		return s
	}
	p.prefill = hear("prefill", func(w http.ResponseWriter, r *http.Request) { p.answer(w, r) })
	p.decode = hear("decode", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"content":"right"},"finish_reason":"stop"}]}`)
	})
	var err error
	p.Fleet, err = New(Config{Model: "m", Secret: []byte("s"), Sources: []Source{
		{URL: p.prefill.URL + "/v1", AdminURL: "http://127.0.0.1:11", Role: Prefill, Model: "theirs"},
		{URL: p.decode.URL + "/v1", AdminURL: "http://127.0.0.1:12", Role: Decode},
	}})
	if err != nil {
		t.Fatal(err)
	}
	p.blocks.root.Store(&hashRoots{digest: "d", kvType: "f16", blockTokens: 16})
	p.reports(4, 1e6)
	return p
}

// reports is how many requests the decode replica runs, and how fast it fetches.
func (p *pooled) reports(running int, fetch float64) {
	for _, r := range p.members.Load().list {
		if r.target.Role == Decode {
			p.balancer.Report(time.Now(), r.number, balance.Report{Running: running, WaitingTokens: -1, FetchRate: fetch})
		}
	}
}

// long is a request with a prompt of so many tokens, and the attempts that it takes.
func (p *pooled) long(tokens int) (c *router.Call, tried *[]*router.Attempt) {
	c, tried = call(streamed), new([]*router.Attempt)
	c.Stream = false
	c.Tokens, c.Domain = make([]int32, tokens), "acme"
	c.Head.Caller = func(_ time.Time, kv inference.KVTransfer) string {
		text, _ := json.Marshal(kv)
		return string(text)
	}
	c.Tried = func(a *router.Attempt) { *tried = append(*tried, a) }
	return c, tried
}

func computed(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, `{"kv_transfer_params":{"do_remote_prefill":true,"remote_tokens":%d,"remote_computed_tokens":600},"usage":{"prompt_tokens":%d}}`, prefixTokens, prefixTokens)
}

// A long prompt is computed by the prefill replica, and the decode replica is told where its blocks are, and which of them are no
// cached tokens of the request.
func TestAPrefillReplicaComputesALongPrompt(t *testing.T) {
	p := newPooled(t)
	p.answer = computed
	c, tried := p.long(prefixTokens)
	answer, text, err := take(t, p.Fleet, c)
	if err != nil || !strings.Contains(text, "right") || answer.Attempts != 1 {
		t.Fatalf("%d attempts, %s, %v", answer.Attempts, text, err)
	}
	if got := p.told["prefill"]; len(got) != 1 || got[0] != (inference.KVTransfer{DoRemoteDecode: true}) {
		t.Errorf("the prefill replica was told %+v", got)
	}
	want := inference.KVTransfer{DoRemotePrefill: true, RemoteURL: "http://127.0.0.1:11", RemoteModel: "theirs", RemoteTokens: prefixTokens, RemoteComputed: 600}
	if got := p.told["decode"]; len(got) != 1 || got[0] != want {
		t.Errorf("the decode replica was told %+v", got)
	}
	if list := *tried; len(list) != 2 || !strings.HasPrefix(list[0].Reason, "prefill of 640 tokens: ") || list[0].Failed != "" || list[1].Considered[0].Fetched < 600 {
		t.Errorf("attempts: %+v", list)
	}
	if n := p.Counts().Prefills["done"]; n != 1 {
		t.Errorf("%v", p.Counts().Prefills)
	}
	for _, s := range p.Status() {
		if s.Running != 0 || s.Balance.InFlight != 0 || s.Balance.Tokens > 0 && s.Role == Prefill {
			t.Errorf("%+v is left", s)
		}
	}
}

// Whatever happens to the prefix, the decode replica answers, once, and computes what it does not get.
func TestAPrefixThatFailsIsComputedByTheDecodeReplica(t *testing.T) {
	t.Parallel()
	for outcome, answer := range map[string]http.HandlerFunc{
		"refused":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"broken":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"timeout":     func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"unreachable": nil,
		"bad_answer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"content":"a weir of another version"}}]}`)
		},
	} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			p := newPooled(t)
			if p.answer = answer; answer == nil {
				p.prefill.Close()
			}
			c, tried := p.long(prefixTokens)
			if _, text, err := take(t, p.Fleet, c); err != nil || !strings.Contains(text, "right") {
				t.Fatalf("%s %v", text, err)
			}
			if got := p.told["decode"]; len(got) != 1 || got[0] != (inference.KVTransfer{}) {
				t.Errorf("the decode replica was told %+v", got)
			}
			if counts := p.Counts().Prefills; counts[outcome] != 1 || (*tried)[0].Failed == "" {
				t.Errorf("%v, %+v", counts, (*tried)[0])
			}
		})
	}
}

// A prefill that runs into its time limit costs its caller that time. The next prompt of this size goes to the decode replica at once, and both
// the metrics and the request's explanation say why.
func TestAPrefillThatIsLateIsNotTriedAgainAtOnce(t *testing.T) {
	t.Parallel()
	p := newPooled(t)
	p.answer = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for i := range 3 {
		c, _ := p.long(prefixTokens)
		c.Tokens[0] = int32(1 + i) // another prompt
		if _, text, err := take(t, p.Fleet, c); err != nil || !strings.Contains(text, "right") {
			t.Fatalf("%s %v", text, err)
		}
	}
	c, tried := p.long(prefixTokens)
	answer, _, err := take(t, p.Fleet, c)
	if err != nil || len(p.told["prefill"]) != 1 || len(p.told["decode"]) != 4 {
		t.Fatalf("%v, %d prefills for %d requests", err, len(p.told["prefill"]), len(p.told["decode"]))
	}
	if n := p.Counts().Prefills; n["timeout"] != 1 || n["failing"] != 3 {
		t.Errorf("%v", n)
	}
	if list := *tried; len(list) != 1 || !strings.Contains(list[0].Reason, "; no prefill of 640 tokens at 127.0.0.1:") || !strings.Contains(list[0].Reason, "(failing)") || strings.Contains(answer.Reason, "prefill") {
		t.Errorf("attempts: %+v, the header says %q", list, answer.Reason)
	}
	for _, s := range p.Status() {
		if s.Role == Prefill && (s.Balance.Overruns != 1 || s.PrefillSeconds < 0.002 || s.Breaker != "closed") {
			t.Errorf("%+v", s)
		}
	}
}

// A caller who hangs up ends the prefix as well, and no replica is blamed.
func TestACallerWhoHangsUpEndsThePrefix(t *testing.T) {
	p := newPooled(t)
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan struct{})
	p.answer = func(_ http.ResponseWriter, r *http.Request) {
		hangUp()
		<-r.Context().Done()
		close(ended)
	}
	c, _ := p.long(prefixTokens)
	if _, err := p.Send(ctx, c); err == nil {
		t.Error("an answer without a caller")
	}
	<-ended
	if p.Counts().Prefills["cancelled"] != 1 || len(p.told["decode"]) != 0 {
		t.Errorf("%v, the decode replica was told %+v", p.Counts().Prefills, p.told["decode"])
	}
	for _, s := range p.Status() {
		if s.Running != 0 || s.Balance.InFlight != 0 || len(s.Faults) != 0 || s.Breaker != "closed" {
			t.Errorf("%+v", s)
		}
	}
}

// Prompts that cost less at the decode replica go there, and so does all where no rate of fetches is known.
func TestPromptsThatStayAtTheDecodeReplica(t *testing.T) {
	for outcome, c := range map[string]struct {
		tokens, running int
		fetch           float64
	}{
		"short": {16*balance.LeastFetch - 1, 4, 1e6}, "cost": {prefixTokens, 0, 1e6}, "unknown": {prefixTokens, 4, 0},
	} {
		p := newPooled(t)
		if c.fetch == 0 {
			fresh, err := New(p.config)
			if err != nil {
				t.Fatal(err)
			}
			p.Fleet = fresh
			p.blocks.root.Store(&hashRoots{digest: "d", kvType: "f16", blockTokens: 16})
		}
		p.reports(c.running, c.fetch)
		asked, _ := p.long(c.tokens)
		if _, _, err := take(t, p.Fleet, asked); err != nil || len(p.told["prefill"]) != 0 || p.Counts().Prefills[outcome] != 1 {
			t.Errorf("%s: %v, %d at the prefill replica, %v", outcome, err, len(p.told["prefill"]), p.Counts().Prefills)
		}
	}
}

// A prefill replica answers where no other replica is left.
func TestAPrefillReplicaAnswersWhereNoOtherIsLeft(t *testing.T) {
	p := newPooled(t)
	p.answer = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"content":"too"},"finish_reason":"stop"}]}`)
	}
	for _, r := range p.members.Load().list {
		if r.target.Role == Decode {
			p.judge(r, Down, "a test")
		}
	}
	c, _ := p.long(prefixTokens)
	if _, text, err := take(t, p.Fleet, c); err != nil || !strings.Contains(text, "too") {
		t.Errorf("%s %v", text, err)
	}
}

func TestRolesThatCannotBe(t *testing.T) {
	for want, c := range map[string]Config{
		"only weirs":           {Sources: []Source{{URL: "http://a:1", Kind: VLLM, Role: Prefill, AdminURL: "http://a:2"}}},
		"no admin_url":         {Sources: []Source{{URL: "http://a:1", Role: Decode}}},
		"there are":            {Sources: []Source{{URL: "http://a:1", Role: "kv_producer"}}},
		"none with prefill":    {Sources: []Source{{URL: "http://a:1", Role: Decode, AdminURL: "http://a:2"}}},
		"prefill alone":        {Secret: []byte("s"), Sources: []Source{{URL: "http://a:1", Role: Prefill, AdminURL: "http://a:2"}}},
		"give the model a tok": {Sources: []Source{{URL: "http://a:1", Role: Prefill, AdminURL: "http://a:2"}, {URL: "http://b:1"}}},
		"the policy least": {Secret: []byte("s"), Balance: balance.Config{Policy: balance.LeastLoad},
			Sources: []Source{{URL: "http://a:1", Role: Prefill, AdminURL: "http://a:2"}, {URL: "http://b:1"}}},
	} {
		c.Model = "m"
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

// Each address of a name gives its own blocks.
func TestBlocksOfOneAddress(t *testing.T) {
	for _, c := range []struct{ base, address, admin, want string }{
		{"http://w:8000/v1", "", "http://w:9090", "http://w:9090"},
		{"http://w:8000/v1", "10.0.0.7", "http://w:9090", "http://10.0.0.7:9090"},
		{"http://w:8000/v1", "fd00::7", "http://w:9090/", "http://[fd00::7]:9090/"},
		{"https://w:8000/v1", "10.0.0.7", "https://w:9090", ""},
		{"http://w:8000/v1", "10.0.0.7", "http://other:9090", "http://other:9090"},
	} {
		base, err := parseBase(Weir, c.base)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&Target{Base: base, Address: c.address, Source: Source{Kind: Weir, AdminURL: c.admin}}).sharesAt(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
