package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/models"
	"weir/api/openai/relay"
	"weir/router"
	"weir/router/fleet"
)

// pieces is an upstream whose streams can be followed, in a goroutine of their own as with sockets.
type pieces struct {
	list     []string
	last     error      // of a Read behind the list; nil: the stream waits for its end
	followed int        // pieces that were not read
	over     chan error // what ended the request that waits

	ctx context.Context //nolint:containedctx // of the request
	at  int
}

func (p *pieces) Send(ctx context.Context, _ *router.Call) (*router.Answer, error) {
	p.ctx, p.at, p.followed = ctx, 0, 0
	return &router.Answer{Status: http.StatusOK, Header: http.Header{}, Events: p, Replica: "r", Reason: "only", Attempts: 1}, nil
}
func (*pieces) Offers(router.Feature) bool { return true }
func (*pieces) Load() router.Load          { return router.Load{Ready: true} }
func (*pieces) Close() error               { return nil }

func (p *pieces) Read(buf []byte) (int, error) {
	if p.at == len(p.list) {
		if p.last == nil {
			<-p.ctx.Done()
			p.over <- context.Cause(p.ctx)
			return 0, context.Cause(p.ctx)
		}
		return 0, p.last
	}
	p.at++
	return copy(buf, p.list[p.at-1]), nil
}

// Follow leaves the last piece to Read.
func (p *pieces) Follow(take func([]byte) bool) {
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() {
		for more := true; more && p.at < len(p.list)-1; p.followed++ {
			p.at++
			more = take([]byte(p.list[p.at-1]))
		}
	})
}

var _ router.Follower = (*pieces)(nil)

// relayOn serves a model "front" of an upstream on a real connection.
func relayOn(t *testing.T, c Config, upstream router.Upstream) (address string) {
	t.Helper()
	s := newServer(t, c, &fakeBackend{})
	if err := s.SetModels(&models.Model{ID: "front", Created: 1, Version: "v1", Upstream: upstream}); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(serveOn(t, api.New(api.DefaultConfig(), muxOf(s))), "http://")
}

func ask(t *testing.T, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, bufio.NewReader(c)
}

const streamedChat = `{"model":"front","stream":true,"messages":[{"role":"user","content":"Hello"}]}`

func readAnswer(t *testing.T, in *bufio.Reader) (string, error) {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		t.Errorf("%d %s", res.StatusCode, text)
	}
	return string(text), err
}

func chatEvent(model, text string) string {
	return fmt.Sprintf(`data: {"id":"c","model":%q,"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", model, text)
}

// contentOf is what a stream of chunks says.
func contentOf(t *testing.T, stream string) string {
	t.Helper()
	var said strings.Builder
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(line, "data: {")
		if !ok {
			continue
		}
		var piece relay.ChatPiece
		if err := json.Unmarshal([]byte("{"+data), &piece); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if len(piece.Choices) > 0 && piece.Choices[0].Delta != nil {
			said.WriteString(piece.Choices[0].Delta.Content)
		}
	}
	return said.String()
}

// A stream that is followed reaches its client whole, also one that reads late, and the connection serves the next request; what is read of it
// for metrics is the same as ever.
func TestFollowedStreams(t *testing.T) {
	t.Parallel()
	upstream := &pieces{last: io.EOF}
	var want bytes.Buffer
	for i := range 1200 {
		text := strings.Repeat("word ", 1+i%3000)
		upstream.list = append(upstream.list, chatEvent("theirs", text))
		want.WriteString(chatEvent("front", text))
	}
	const counted, end = `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1200,"total_tokens":1203}}` + "\n\n", "data: [DONE]\n\n"
	torn := len("data: {")
	upstream.list = append(upstream.list, counted[:torn], counted[torn:]+end)
	c := DefaultConfig()
	finished := make(chan edge.RequestFinish, 2)
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finished <- f }
	client, in := ask(t, relayOn(t, c, upstream))
	for request, ending := range map[string]string{
		streamedChat: end,
		strings.Replace(streamedChat, "{", `{"stream_options":{"include_usage":true},`, 1): counted + end,
	} {
		_, _ = io.WriteString(client, rawRequest("POST", routeChat, "", request))
		time.Sleep(20 * time.Millisecond) // the kernel's buffers fill up meanwhile
		got, err := readAnswer(t, in)
		if got != want.String()+ending || err != nil {
			t.Fatalf("%d bytes of %d, or others: %v", len(got), want.Len()+len(ending), err)
		}
		if upstream.followed < len(upstream.list)/2 {
			t.Errorf("%d of %d pieces were followed", upstream.followed, len(upstream.list))
		}
		if f := <-finished; f.Status != http.StatusOK || f.OutputTokens != 1200 || f.PromptTokens != 3 {
			t.Errorf("%+v", f)
		}
	}
}

// A stream that breaks while it is followed ends with an error event, and its client's hang-up ends it.
func TestFollowedStreamsBreak(t *testing.T) {
	upstream := &pieces{last: errors.New("broken"), list: []string{chatEvent("front", "a"), chatEvent("front", "b"), chatEvent("front", "c"), "data: {\"to"}}
	c := DefaultConfig()
	gone := make(chan string, 1)
	c.Hooks.OnDisconnect = func(model string) { gone <- model }
	address := relayOn(t, c, upstream)
	client, in := ask(t, address)
	_, _ = io.WriteString(client, rawRequest("POST", routeChat, "", streamedChat))
	got, err := readAnswer(t, in)
	before, after, ok := strings.Cut(got, chatEvent("front", "c"))
	if err != nil || !ok || before != chatEvent("front", "a")+chatEvent("front", "b") || !strings.Contains(after, relay.UpstreamUnavailable) || strings.Contains(after, `{"to`) {
		t.Errorf("%v: %s", err, got)
	}
	if upstream.followed != 2 {
		t.Errorf("%d pieces were followed", upstream.followed)
	}
	upstream.last, upstream.over = nil, make(chan error, 1)
	_, _ = io.WriteString(client, rawRequest("POST", routeChat, "", streamedChat))
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, len(before))); err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	if cause := <-upstream.over; !errors.Is(cause, edge.ErrHungUp) || <-gone != "front" {
		t.Error(cause)
	}
}

// Streams by the whole way, from sockets to sockets, are those of the upstream, many beside each other.
func TestFollowedFromSocketToSocket(t *testing.T) {
	t.Parallel()
	const text = "Hello world, é👋 and all that is said after it"
	base := edgeUpstream(t, &fakeBackend{script: say(text, time.Millisecond)})
	upstream, err := fleet.New(fleet.Config{Model: "front", Sources: []fleet.Source{{URL: base, APIKey: "sk-upstream", Model: "test-model"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	address := relayOn(t, DefaultConfig(), upstream)
	var all sync.WaitGroup
	for range 20 {
		client, in := ask(t, address)
		all.Go(func() {
			for range 3 {
				_, _ = io.WriteString(client, rawRequest("POST", routeChat, "", streamedChat))
				got, err := readAnswer(t, in)
				if said := contentOf(t, got); said != text || err != nil || strings.Contains(got, "test-model") {
					t.Errorf("%q is said: %v\n%s", said, err, got)
				}
			}
		})
	}
	all.Wait()
}
