package openai

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/router"
	"weir/tokenizer"
	"weir/tokenizer/chat"
	"weir/tokenizer/family"
)

// TestMain warms up what fasthttp starts once per process, so that it does not
// start inside a bubble of virtual time.
func TestMain(m *testing.M) {
	reference.Overlap(8) // where tests wait for heartbeats and deadlines
	srv, err := New(DefaultConfig())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ln := fasthttputil.NewInmemoryListener()
	s := api.New(api.DefaultConfig(), muxOf(srv))
	go func() { _ = s.Serve(ln) }()
	if c, err := ln.Dial(); err == nil {
		_, _ = io.WriteString(c, "GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		_, _ = io.ReadAll(c)
		_ = c.Close()
	}
	_ = s.Shutdown(context.Background())
	os.Exit(m.Run())
}

// byteRunes is how byte-level vocabularies write bytes.
func byteRunes() []rune {
	runes := make([]rune, 256)
	next := rune(256)
	for b := range 256 {
		printable := b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae
		if printable {
			runes[b] = rune(b)
			continue
		}
		runes[b] = next
		next++
	}
	return runes
}

var testWords = []string{"Hello", "Ġworld", "Ġthe", "stop", "ping", "user", "assistant"}

// testTokenizer has the 256 bytes, a few words and the control tokens of
// ChatML. It adds no beginning token.
var testTokenizer = sync.OnceValues(func() (*tokenizer.Tokenizer, error) { return newTokenizer(false) })

// newTokenizer is testTokenizer with more control tokens.
func newTokenizer(addBOS bool, controls ...string) (*tokenizer.Tokenizer, error) {
	var tokens, merges []string
	var types []int32
	have := map[string]bool{}
	add := func(text string, kind int32) {
		if !have[text] {
			have[text] = true
			tokens, types = append(tokens, text), append(types, kind)
		}
	}
	for _, r := range byteRunes() {
		add(string(r), 1)
	}
	for _, word := range testWords {
		runes := []rune(word)
		for i := 1; i < len(runes); i++ {
			add(string(runes[:i+1]), 1)
			merges = append(merges, string(runes[:i])+" "+string(runes[i]))
		}
	}
	add("<|endoftext|>", 3)
	add("<|im_start|>", 3)
	add("<|im_end|>", 3)
	for _, text := range controls {
		add(text, 3)
	}
	id := func(text string) uint32 {
		for i, t := range tokens {
			if t == text {
				return uint32(i)
			}
		}
		return 0
	}
	fields := map[string]any{
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
		"tokenizer.ggml.token_type": types, "tokenizer.ggml.merges": merges,
		"tokenizer.ggml.eos_token_id": id("<|im_end|>"), "tokenizer.ggml.bos_token_id": id("<|endoftext|>"),
		"tokenizer.ggml.add_bos_token": addBOS,
	}
	return tokenizer.New(func(key string) (any, bool) { v, ok := fields[key]; return v, ok })
}

const chatML = `{% for message in messages %}{% if message['content'] == 'raise' %}{{ raise_exception('raised by the template') }}{% endif %}` +
	`{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

func mustTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := testTokenizer()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// fakeBackend answers every request with a script, in a goroutine of its own.
type fakeBackend struct {
	tok      *tokenizer.Tokenizer
	script   func(*fakeRun)
	refuse   func(*inference.Request) error
	notReady bool
	ring     int // events; 0 is plenty
	load     int // sequences that it says are running

	mu   sync.Mutex
	runs []*fakeRun
	wg   sync.WaitGroup
}

// fakeRun is one submitted request.
type fakeRun struct {
	backend   *fakeBackend
	req       *inference.Request
	stream    *inference.Stream
	cancelled chan struct{} // closed by Cancel(-1)

	mu      sync.Mutex
	choices []int // Cancel(i)
}

func (b *fakeBackend) SubmitAll(rs []*inference.Request) (streams []*inference.Stream, err error) {
	for _, r := range rs {
		if b.refuse == nil {
			break
		}
		if err := b.refuse(r); err != nil {
			return nil, err
		}
	}
	for _, r := range rs {
		streams = append(streams, b.submit(r))
	}
	return streams, nil
}

func (b *fakeBackend) submit(r *inference.Request) *inference.Stream {
	ring := b.ring
	if ring == 0 {
		ring = 1 << 16
	}
	run := &fakeRun{backend: b, req: r, cancelled: make(chan struct{})}
	run.stream = inference.NewStream(ring, run.cancel)
	b.mu.Lock()
	b.runs = append(b.runs, run)
	b.mu.Unlock()
	b.wg.Go(func() { b.script(run) })
	return run.stream
}

func (b *fakeBackend) Load() router.Load { return router.Load{Ready: !b.notReady, Running: b.load} }

// run waits for the n-th request.
func (b *fakeBackend) run(t testing.TB, n int) *fakeRun {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		b.mu.Lock()
		if len(b.runs) > n {
			defer b.mu.Unlock()
			return b.runs[n]
		}
		b.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("request %d did not arrive", n)
	return nil
}

func (r *fakeRun) cancel(choice int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if choice >= 0 {
		r.choices = append(r.choices, choice)
		return
	}
	select {
	case <-r.cancelled:
	default:
		close(r.cancelled)
	}
}

func (r *fakeRun) wasCancelled(choice int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.choices, choice)
}

// token pushes one token of a choice, with logprobs where asked for.
func (r *fakeRun) token(choice int, id inference.TokenID) bool {
	e := inference.Event{Kind: inference.EventToken, Choice: choice, Token: id}
	e.Logprob, e.Top = r.logprobs(id, r.req.Sampling.Logprobs)
	return r.stream.Push(e)
}

// logprobs invents: the token itself is the best, its successors follow.
func (r *fakeRun) logprobs(id inference.TokenID, n int) (float32, []inference.TokenLogprob) {
	if n < 0 {
		return 0, nil
	}
	top := make([]inference.TokenLogprob, n)
	for k := range top {
		top[k] = inference.TokenLogprob{ID: (id + inference.TokenID(k)) % inference.TokenID(r.backend.tok.Size()), Logprob: -0.25 * float32(k+1)}
	}
	return -0.25, top
}

func (r *fakeRun) finish(choice int, reason inference.FinishReason) {
	r.stream.Push(inference.Event{Kind: inference.EventFinish, Choice: choice, Finish: reason})
}

func (r *fakeRun) promptLogprobs() {
	for i, id := range r.req.Prompt {
		e := inference.Event{Kind: inference.EventPrompt, Token: id}
		e.Logprob, e.Top = r.logprobs(id, r.req.PromptLogprobs)
		if i == 0 {
			e.Logprob, e.Top = float32(math.NaN()), nil
		}
		r.stream.Push(e)
	}
}

// say is a script: it generates the text for every choice, choice by choice
// and token by token, every time after a pause, and ends as an engine does.
func say(text string, pause time.Duration) func(*fakeRun) {
	return func(r *fakeRun) { r.say(text, pause) }
}

func (r *fakeRun) say(text string, pause time.Duration) {
	ids := r.backend.tok.AppendEncode(nil, text, tokenizer.EncodeOptions{})
	r.sayTokens(ids, pause)
}

func (r *fakeRun) sayTokens(ids []inference.TokenID, pause time.Duration) {
	eog, _ := r.backend.tok.EOS()
	if r.req.PromptLogprobs >= 0 {
		r.promptLogprobs()
	}
	reason := inference.FinishStop
	if len(ids) >= r.req.MaxTokens {
		ids, reason = ids[:r.req.MaxTokens], inference.FinishLength
	} else {
		ids = append(slices.Clip(ids), eog)
	}
	for _, id := range ids {
		for choice := range r.req.N {
			if !r.pause(pause) {
				r.stream.Close(inference.ErrCancelled)
				return
			}
			if !r.wasCancelled(choice) {
				r.token(choice, id)
			}
		}
	}
	for choice := range r.req.N {
		if r.wasCancelled(choice) {
			r.finish(choice, inference.FinishCancelled)
			continue
		}
		r.finish(choice, reason)
	}
	r.stream.Close(nil)
}

// pause is false once the request was cancelled.
func (r *fakeRun) pause(d time.Duration) bool {
	select {
	case <-r.cancelled:
		return false
	default:
	}
	if d == 0 {
		return true
	}
	select {
	case <-r.cancelled:
		return false
	case <-time.After(d):
		return true
	}
}

// rig is a server with one model on a fake backend.
type rig struct {
	t       testing.TB
	backend *fakeBackend
	openai  *Server
	api     *api.Server
	ln      *fasthttputil.InmemoryListener
	served  chan error
}

func testModel(t testing.TB, b *fakeBackend) *models.Model {
	t.Helper()
	template, err := chat.Parse(chatML, chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &models.Model{
		ID: "test-model", Aliases: []string{"alias"}, Created: 1700000000, Fingerprint: "fp_test", Tokenizer: b.tok,
		Template: template, Family: family.Detect(template), Vocabulary: models.NewVocabulary(b.tok), MaxModelLen: 256, Backend: b,
	}
}

func newServer(t testing.TB, c Config, b *fakeBackend) *Server {
	t.Helper()
	b.tok = mustTokenizer(t)
	if b.script == nil {
		b.script = say("Hello world", 0)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetModels(testModel(t, b)); err != nil {
		t.Fatal(err)
	}
	return s
}

// muxOf is a handler of the server alone, which counts its requests' ids.
func muxOf(s *Server) *edge.Mux {
	var n atomic.Uint64
	return edge.NewMux(edge.MuxConfig{Callers: s.callers, DrainRetries: s.config.DrainRetries, CompressMinBytes: s.config.CompressMinBytes,
		OnPanic: s.config.Hooks.OnPanic, IDs: edge.IDs{Random: func() []byte { return binary.BigEndian.AppendUint64(nil, n.Add(1)) }}}, s)
}

// newRig serves on an in-memory listener; close must be called.
func newRig(t testing.TB, c Config, b *fakeBackend) *rig {
	t.Helper()
	r := &rig{t: t, backend: b, openai: newServer(t, c, b), ln: fasthttputil.NewInmemoryListener(), served: make(chan error, 1)}
	r.api = api.New(api.DefaultConfig(), muxOf(r.openai))
	go func() { r.served <- r.api.Serve(r.ln) }()
	return r
}

func (r *rig) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.api.Shutdown(ctx); err != nil {
		r.t.Errorf("shutdown: %v", err)
	}
	if err := <-r.served; err != nil {
		r.t.Errorf("serve: %v", err)
	}
	r.backend.wg.Wait()
}

// rawRequest is a request as bytes. header lines end in \r\n.
func rawRequest(method, path, header, body string) string {
	if method == "POST" && !strings.Contains(header, "Content-Type") {
		header += "Content-Type: application/json\r\n"
	}
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: test\r\n%sContent-Length: %d\r\n\r\n%s", method, path, header, len(body), body)
}

// do sends one request on a connection of its own and reads the response.
func (r *rig) do(method, path, header, body string) (*http.Response, string) {
	r.t.Helper()
	c, err := r.ln.Dial()
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	return exchange(r.t, c, method, rawRequest(method, path, header, body))
}

func (r *rig) post(path, body string) (int, string) {
	r.t.Helper()
	res, text := r.do("POST", path, "", body)
	return res.StatusCode, text
}

func exchange(t testing.TB, c net.Conn, method, request string) (*http.Response, string) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("read body: %v after %q", err, body)
	}
	return res, string(body)
}
