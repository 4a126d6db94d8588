package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/api/tenant"
	"weir/configs"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/internal/server/servertest"
	"weir/router"
	"weir/router/fleet"
)

// pooledModel is computed slowly enough that its blocks are worth fetching.
func pooledModel(t *testing.T) (path string, serves func(*configs.Config)) {
	t.Helper()
	if testing.Short() {
		t.Skip("computes a real model for seconds")
	}
	path = reference.Model(t, "smollm2")
	return path, func(c *configs.Config) {
		c.Model.Path, c.Model.ServedNames, c.Engine.KVMemoryBytes = path, []string{"chat"}, 256<<20
	}
}

// pools is a router with weirs of both roles.
func pools(model, prefill, decode, at string, more func(*configs.Config)) func(*configs.Config) {
	return sharing(func(c *configs.Config) {
		routedTo("prefix", prefill, decode)(c)
		m := &c.Models[0]
		m.Tokenizer, m.Routing.ProbeEvery = model, 100*time.Millisecond
		m.Replicas[0].Model, m.Replicas[1].Model = "chat", "chat"
		m.Replicas[0].Role, m.Replicas[0].AdminURL = fleet.Prefill, at
		m.Replicas[1].Role, m.Replicas[1].AdminURL = fleet.Decode, decode
		if more != nil {
			more(c)
		}
	})
}

// question is a chat of a few hundred tokens.
func question(i int) string {
	return fmt.Sprintf(`"messages":[{"role":"user","content":"%d %s"}],"temperature":0,"max_tokens":8`, i, strings.Repeat("What is weir? ", 70))
}

// choicesOf are the choices of an answer, without what differs between two of one question.
func choicesOf(t *testing.T, text string) string {
	t.Helper()
	var answer struct {
		Choices []struct {
			Message struct{ Content string }
			Reason  string `json:"finish_reason"`
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Choices) == 0 {
		t.Fatal(text)
	}
	return fmt.Sprint(answer.Choices)
}

// keepsRunning keeps a stream running at the decode replica: pools are for those who would wait for others' prompts.
func keepsRunning(s *servertest.Server) (end func()) {
	s.T.Helper()
	res := s.Post("/v1/chat/completions", `{"model":"front","messages":[{"role":"user","content":"Hi"}],"stream":true,"ignore_eos":true,"max_tokens":150}`)
	if _, err := io.ReadFull(res.Body, make([]byte, 8)); err != nil {
		s.T.Fatal(err)
	}
	return func() {
		_, _ = io.Copy(io.Discard, res.Body) // to its end: its tokens are the same in all ledgers
		_ = res.Body.Close()
	}
}

// prefixOf asks for the KV blocks of token ids alone, in a tenant's name.
func prefixOf(s *servertest.Server, of, model string, ids []int) string {
	s.T.Helper()
	peers, err := tenant.NewPeers([]string{sharedPeerKey})
	if err != nil {
		s.T.Fatal(err)
	}
	who := tenant.New(of)
	list, _ := json.Marshal(ids)
	r, _ := http.NewRequestWithContext(s.T.Context(), http.MethodPost, s.API+"/v1/completions",
		strings.NewReader(fmt.Sprintf(`{"model":%q,"prompt":%s,"max_tokens":20,"stream":true,"n":2}`, model, list)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(router.CallerHeader, peers.Sign(&who, inference.KVTransfer{DoRemoteDecode: true}, time.Now()))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	return servertest.Body(s.T, res)
}

// prefillUntil asks long questions until so many of their prompts had an outcome at the prefill replica, while another answer runs, and
// compares each answer with a weir's that computes alone.
func prefillUntil(s *servertest.Server, alone *servertest.Server, outcome string, want int) (asked int) {
	s.T.Helper()
	for end := time.Now().Add(2 * servertest.Patience); time.Now().Before(end); asked++ {
		rest := keepsRunning(s)
		got := servertest.Body(s.T, s.Post("/v1/chat/completions", `{"model":"front",`+question(asked)+`}`))
		rest()
		if whole := servertest.Body(s.T, alone.Post("/v1/chat/completions", "{"+question(asked)+"}")); choicesOf(s.T, got) != choicesOf(s.T, whole) {
			s.T.Errorf("%s, want %s", got, whole)
		}
		if s.Counter("weir_route_prefills_total", `outcome="`+outcome+`"`) >= want {
			return asked + 1
		}
	}
	_, text := s.Get(s.Admin + "/metrics")
	s.T.Fatalf("of %d prompts too few were %s:\n%s\n%s", asked, outcome, grepped(text, "weir_route_prefills_total"), grepped(s.Errs.String(), "warn"))
	return 0
}

func grepped(text, word string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, word) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// A long prompt is computed by a prefill replica, and the decode replica fetches its blocks: the answer is a lone replica's, the ledger of
// all three has its tokens once, and none of them as cached.
func TestPoolsOfWeirs(t *testing.T) {
	path, serves := pooledModel(t)
	t.Setenv("WEIR_KEY_PEPPER", strings.Repeat("pepper of a test", 3))
	kept := func(c *configs.Config) { // a store with a pepper of its own, so that what the router counted is counted there, too
		folder := t.TempDir()
		c.Store.URL, c.Store.KeyPepper = "sqlite:"+filepath.Join(folder, "weir.db"), strings.Repeat("pepper of "+folder, 3)
	}
	both := func(c *configs.Config) {
		serves(c)
		kept(c)
	}
	alone, prefill, decode := servertest.Start(t, serves), servertest.Start(t, sharing(both)), servertest.Start(t, sharing(both))
	r := servertest.Start(t, pools(path, prefill.API, decode.API, prefill.Admin, func(c *configs.Config) {
		kept(c)
		c.Models[0].Replicas[1].AdminURL = decode.Admin
	}))
	asked := prefillUntil(r, alone, "done", 1)
	if n := decode.Counter("weir_kv_transfer_blocks_total", "received"); n < leastBlocks {
		t.Errorf("%d blocks came", n)
	}
	if n := prefill.Counter("weir_kv_transfer_blocks_total", "sent"); n < leastBlocks {
		t.Errorf("%d blocks went", n)
	}
	sum := func(s *servertest.Server) (u struct{ Requests, Input, Cached, Output int }) {
		t.Helper()
		for end := time.Now().Add(servertest.Patience); time.Now().Before(end) && u.Requests < 2*asked; time.Sleep(20 * time.Millisecond) {
			_, text := s.Get(s.Admin + "/admin/usage")
			var report struct {
				Total struct {
					Requests     int
					InputTokens  int `json:"input_tokens"`
					CachedTokens int `json:"cached_tokens"`
					OutputTokens int `json:"output_tokens"`
				}
			}
			if err := json.Unmarshal([]byte(text), &report); err != nil {
				t.Fatal(text)
			}
			u.Requests, u.Input, u.Cached, u.Output = report.Total.Requests, report.Total.InputTokens, report.Total.CachedTokens, report.Total.OutputTokens
			if s == prefill {
				break
			}
		}
		return u
	}
	if u := sum(prefill); u.Requests+u.Input+u.Output != 0 {
		t.Errorf("the prefill replica charges %+v", u)
	}
	there, here := sum(decode), sum(r)
	if there != here || there.Requests != 2*asked || there.Cached > there.Input/2 {
		t.Errorf("the decode replica has counted %+v, the router %+v", there, here)
	}
}

// killer is a way to a weir's admin listener that kills the weir amid its first KV blocks.
type killer struct {
	listener net.Listener
	to       string
	after    int // bytes
	kill     func()
	once     sync.Once
}

func newKiller(t *testing.T, to string, after int, kill func()) *killer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &killer{listener: l, to: strings.TrimPrefix(to, "http://"), after: after, kill: kill}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go k.pass(c)
		}
	}()
	return k
}

func (k *killer) url() string { return "http://" + k.listener.Addr().String() }

func (k *killer) pass(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", k.to)
	if err != nil {
		return
	}
	defer s.Close()
	first := make([]byte, len("POST /admin/kv-blocks"))
	if _, err := io.ReadFull(c, first); err != nil {
		return
	}
	if _, err := s.Write(first); err != nil {
		return
	}
	go func() { _, _ = io.Copy(s, c) }()
	if string(first) == "POST /admin/kv-blocks" {
		_, _ = io.CopyN(c, s, int64(k.after))
		k.once.Do(k.kill) // and what it has sent since is lost
		return
	}
	_, _ = io.Copy(c, s)
}

// A prefill replica that is killed amid its blocks costs a request no right answer: what has come counts, the rest is computed, and so are
// the prompts that come later.
func TestAPrefillReplicaIsKilledAmidATransfer(t *testing.T) {
	path, serves := pooledModel(t)
	alone := servertest.Start(t, serves)
	t.Setenv("WEIR_PREFIX_CACHE_KEY", sharedPrefixKey)
	t.Setenv("WEIR_PEER_KEY", sharedPeerKey)
	flags := []string{"--kv-cache-memory-bytes", "256MiB", "--served-model-name", "chat", "--model", path}
	prefill, decode := servertest.StartProcess(t, 1024, flags...), servertest.StartProcess(t, 1024, flags...)
	way := newKiller(t, prefill.Admin, 2<<20, func() {
		prefill.Kill()
	})
	r := servertest.Start(t, pools(path, prefill.API, decode.API, way.url(), func(c *configs.Config) { c.Models[0].Replicas[1].AdminURL = decode.Admin }))
	prefillUntil(r, alone, "done", 1)
	cut := 0
	for _, reason := range []string{"truncated", "unreachable"} {
		cut += decode.Counter("weir_kv_transfer_failures_total", `reason="`+reason+`"`)
	}
	if cut != 1 {
		_, text := decode.Get(decode.Admin + "/metrics")
		t.Errorf("%d transfers were cut\n%s", cut, grepped(text, "weir_kv_transfer"))
	}
	got := servertest.Body(t, r.Post("/v1/chat/completions", `{"model":"front",`+question(9999)+`}`))
	if whole := servertest.Body(t, alone.Post("/v1/chat/completions", "{"+question(9999)+"}")); choicesOf(t, got) != choicesOf(t, whole) {
		t.Errorf("%s, want %s", got, whole)
	}
}

// A weir computes a prefix for peers alone, and only where it computes the model.
func TestPrefixesAreForPeers(t *testing.T) {
	far := servertest.Start(t, sharing(nil))
	r := servertest.Start(t, sharing(func(c *configs.Config) { routedTo("prefix", far.API)(c) }))
	for s, want := range map[*servertest.Server]string{far: `"remote_tokens":203`, r: "prefill_unavailable"} {
		model := map[*servertest.Server]string{far: configs.EmbeddedName, r: "front"}[s]
		if got := prefixOf(s, "acme", model, randomIDs(1, 203, 300)); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if n := far.Counter("vllm:generation_tokens_total", ""); n != 0 {
		t.Errorf("%d tokens were generated", n)
	}
	forged, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, far.API+"/v1/completions", strings.NewReader(`{"prompt":"a","max_tokens":2,"kv_transfer_params":{"do_remote_decode":true}}`))
	forged.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(forged)
	if err != nil {
		t.Fatal(err)
	}
	if text := servertest.Body(t, res); strings.Contains(text, "remote_tokens") {
		t.Errorf("a client gets a prefix: %s", text)
	}
}
