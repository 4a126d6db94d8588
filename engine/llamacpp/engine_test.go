package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/inference"
)

// clock is a generator that takes a second for each piece of output, and ends by itself after limit pieces.
type clock struct {
	limit   int
	running atomic.Int32
	prompts []string
	closed  bool
}

func (c *clock) generate(call call, token func(string) bool) error {
	if c.running.Add(1) > 1 {
		return errors.New("two at once")
	}
	defer c.running.Add(-1)
	c.prompts = append(c.prompts, call.prompt)
	for i := range c.limit {
		time.Sleep(time.Second)
		if strings.Contains(call.prompt, "fail") {
			return fmt.Errorf("%w: no", inference.ErrInternal)
		}
		if !token(string(rune('a' + i))) {
			return nil
		}
	}
	return nil
}

func (c *clock) close() { c.closed = true }

// letters has a token for each byte.
var letters = Vocabulary{
	Text: func(ids []inference.TokenID) string {
		text := make([]byte, len(ids))
		for i, id := range ids {
			text[i] = byte(id)
		}
		return string(text)
	},
	Tokens: func(piece string) []inference.TokenID {
		ids := make([]inference.TokenID, len(piece))
		for i := range len(piece) {
			ids[i] = inference.TokenID(piece[i])
		}
		return ids
	},
}

func request(id, prompt string, maxTokens int) *inference.Request {
	s := inference.DefaultSampling()
	s.Logprobs = -1
	return &inference.Request{ID: id, Tenant: id, Prompt: letters.Tokens(prompt), MaxTokens: maxTokens, N: 1, PromptLogprobs: -1, Sampling: s}
}

func start(t *testing.T, g generator, o Options) *Engine {
	t.Helper()
	o.Vocabulary = letters
	e, err := newEngine(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func submit(t *testing.T, e *Engine, r *inference.Request) *inference.Stream {
	t.Helper()
	s, err := e.SubmitAll([]*inference.Request{r})
	if err != nil {
		t.Fatal(err)
	}
	return s[0]
}

// read gives an answer's text, how it ended and why.
func read(s *inference.Stream) (text string, reason inference.FinishReason, err error) {
	var events [16]inference.Event
	for {
		n, done, err := s.Poll(events[:])
		for _, e := range events[:n] {
			if e.Kind == inference.EventToken {
				text += string(e.Token)
			} else {
				reason = e.Finish
			}
		}
		if done {
			return text, reason, err
		}
		if n == 0 {
			<-s.Wake()
		}
	}
}

func TestAnswersComeOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &clock{limit: 5}
		e := start(t, g, Options{})
		began := time.Now()
		a, b := submit(t, e, request("a", "hello", 3)), submit(t, e, request("b", "there", 100))
		synctest.Wait()
		if l := e.Load(); l.Running != 1 || l.Waiting != 1 || !l.Ready {
			t.Errorf("load is %+v", l)
		}
		if text, reason, err := read(a); text != "abc" || reason != inference.FinishLength || err != nil {
			t.Errorf("%q, %v, %v", text, reason, err)
		}
		if text, reason, err := read(b); text != "abcde" || reason != inference.FinishStop || err != nil {
			t.Errorf("%q, %v, %v", text, reason, err)
		}
		if took := time.Since(began); took != 8*time.Second || !slices.Equal(g.prompts, []string{"hello", "there"}) {
			t.Errorf("%v for %q", took, g.prompts)
		}
		if err := e.Close(t.Context()); err != nil || !g.closed {
			t.Errorf("closed %v, %v", g.closed, err)
		}
		if _, err := e.SubmitAll([]*inference.Request{request("c", "x", 1)}); !errors.Is(err, inference.ErrUnavailable) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestCancelsAndDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &clock{limit: 20}
		e := start(t, g, Options{})
		running, waiting := submit(t, e, request("a", "x", 20)), submit(t, e, request("b", "y", 20))
		late := request("c", "z", 20)
		late.WaitUntil = time.Now().Add(2 * time.Second)
		tooLate, short := submit(t, e, late), request("d", "w", 20)
		time.Sleep(2500 * time.Millisecond)
		waiting.Cancel(-1)
		if text, reason, err := read(waiting); text != "" || reason != inference.FinishCancelled || !errors.Is(err, inference.ErrCancelled) {
			t.Errorf("in line: %q, %v, %v", text, reason, err)
		}
		running.Cancel(-1)
		if text, reason, err := read(running); text != "ab" || reason != inference.FinishCancelled || !errors.Is(err, inference.ErrCancelled) {
			t.Errorf("running: %q, %v, %v", text, reason, err)
		}
		if _, _, err := read(tooLate); !errors.Is(err, inference.ErrQueueTimeout) {
			t.Errorf("waited too long: %v", err)
		}
		short.DoneBy = time.Now().Add(4500 * time.Millisecond)
		if text, _, err := read(submit(t, e, short)); text != "abcd" || !errors.Is(err, inference.ErrDeadline) {
			t.Errorf("deadline: %q, %v", text, err)
		}
		stop := request("e", "v", 20)
		stop.StopTokens = []inference.TokenID{'c'}
		if text, reason, err := read(submit(t, e, stop)); text != "abc" || reason != inference.FinishStop || err != nil {
			t.Errorf("stop token: %q, %v, %v", text, reason, err)
		}
		if _, reason, err := read(submit(t, e, request("f", "fail", 20))); reason != inference.FinishError || !errors.Is(err, inference.ErrInternal) {
			t.Errorf("a fault: %v, %v", reason, err)
		}
		last, next := submit(t, e, request("g", "u", 20)), submit(t, e, request("h", "u", 20))
		time.Sleep(time.Second)
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*inference.Stream{last, next} {
			if _, _, err := read(s); !errors.Is(err, inference.ErrUnavailable) {
				t.Errorf("at the end: %v", err)
			}
		}
	})
}

// anything is a constraint that is not asked.
type anything struct{ inference.Constraint }

func TestWhatLlamaCppCannotDoIsRefused(t *testing.T) {
	e := start(t, &clock{}, Options{MaxModelLen: 80, MaxWaiting: 1})
	defer e.Close(context.Background())
	for name, change := range map[string]func(*inference.Request){
		"grammars":             func(r *inference.Request) { r.Constraint = anything{} },
		"n":                    func(r *inference.Request) { r.N = 2 },
		"log-probabilities":    func(r *inference.Request) { r.Sampling.Logprobs = 0 },
		"logit_bias":           func(r *inference.Request) { r.Sampling.LogitBias = make([]inference.TokenBias, 1) },
		"allowed or forbidden": func(r *inference.Request) { r.Sampling.AllowedTokens = []inference.TokenID{1} },
		"min_p":                func(r *inference.Request) { r.Sampling.MinP = 0.1 },
		"min_tokens":           func(r *inference.Request) { r.MinTokens = 1 },
		"at least one output":  func(r *inference.Request) { r.MaxTokens = 0 },
	} {
		r := request("a", "x", 1)
		change(r)
		if _, err := e.SubmitAll([]*inference.Request{r}); !errors.Is(err, inference.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := e.SubmitAll([]*inference.Request{request("a", "x", 80)}); !errors.Is(err, inference.ErrContextLength) {
		t.Errorf("too long: %v", err)
	}
	if _, err := e.SubmitAll([]*inference.Request{request("a", "x", 1), request("a", "x", 1)}); !errors.Is(err, inference.ErrQueueFull) {
		t.Errorf("more than may wait: %v", err)
	}
	if l := e.Load(); l.Waiting != 0 {
		t.Errorf("a refused call left %d requests", l.Waiting)
	}
	if _, _, err := read(submit(t, e, request("n", "a\x00b", 1))); !errors.Is(err, inference.ErrInvalid) {
		t.Errorf("NUL: %v", err)
	}
}
