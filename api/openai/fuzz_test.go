package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/valyala/fasthttp"

	"weir/internal/inference"
	"weir/router"
)

// checker is a backend that refuses everything and complains about requests
// that break the contract of inference.Request.
type checker struct{ vocabulary int }

func (c checker) Load() router.Load { return router.Load{Ready: true} }

func (c checker) SubmitAll(rs []*inference.Request) ([]*inference.Stream, error) {
	for _, r := range rs {
		if err := c.check(r); err != nil {
			panic(err)
		}
	}
	return nil, fmt.Errorf("%w: a test", inference.ErrQueueFull)
}

func (c checker) check(r *inference.Request) error {
	s := r.Sampling
	switch {
	case len(r.Prompt) == 0 || r.N < 1 || r.N > maxChoicesPerPrompt:
		return errors.New("no prompt or a wrong n")
	case len(r.Prompt)+r.MaxTokens > 256 || r.MaxTokens < 0 || r.MaxTokens == 0 && r.PromptLogprobs < 0 || r.MinTokens > r.MaxTokens:
		return errors.New("wrong lengths")
	case s.Temperature < 0 || s.Temperature > 2 || s.TopP <= 0 || s.TopP > 1 || s.TypicalP <= 0 || s.TypicalP > 1 || s.MinP < 0 || s.MinP > 1:
		return errors.New("wrong sampling")
	case s.RepetitionPenalty <= 0 || s.PresencePenalty < -2 || s.PresencePenalty > 2 || s.FrequencyPenalty < -2 || s.FrequencyPenalty > 2:
		return errors.New("wrong penalties")
	case s.Logprobs < -1 || s.Logprobs > DefaultMaxLogprobs || r.PromptLogprobs > DefaultMaxLogprobs:
		return errors.New("wrong logprobs")
	}
	ids := append(append([]inference.TokenID(nil), r.Prompt...), r.StopTokens...)
	for _, b := range s.LogitBias {
		ids = append(ids, b.ID)
	}
	for _, id := range ids {
		if id < 0 || int(id) >= c.vocabulary {
			return fmt.Errorf("token %d is outside the vocabulary", id)
		}
	}
	return nil
}

// fuzzBodies answers bodies without a connection. Each must be refused with a
// well-formed 4xx, or reach the backend, which answers 503, as a sound
// request. Panics fail by themselves.
func fuzzBodies(f *testing.F, path string) {
	s := newServer(f, DefaultConfig(), &fakeBackend{})
	m := testModel(f, &fakeBackend{tok: mustTokenizer(f)})
	m.Backend = checker{m.Tokenizer.Size()}
	if err := s.SetModels(m); err != nil {
		f.Fatal(err)
	}
	for _, tc := range refused {
		if tc.path == path && len(tc.body) < 2000 {
			f.Add([]byte(tc.body))
		}
	}
	for _, tc := range transcripts {
		if tc.path == path {
			f.Add([]byte(tc.body))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<16 {
			return
		}
		var ctx fasthttp.RequestCtx
		ctx.Init(&fasthttp.Request{}, nil, nil)
		ctx.Request.Header.SetMethod("POST")
		ctx.Request.Header.SetContentType("application/json")
		ctx.Request.SetRequestURI(path)
		ctx.Request.SetBody(body)
		s.Handle(&ctx)
		status := ctx.Response.StatusCode()
		answer := string(ctx.Response.Body())
		if !json.Valid([]byte(answer)) {
			t.Fatalf("%q got %d and no JSON: %q", body, status, answer)
		}
		_, code, message := parseError(t, answer)
		if status == 503 && code != "server_is_overloaded" || status >= 500 && status != 503 || status < 400 {
			t.Fatalf("%q got %d %s: %s", body, status, code, message)
		}
		if status != 503 && !json.Valid(body) && code != "invalid_json" {
			t.Fatalf("%q is no JSON and got %s", body, code)
		}
	})
}

func FuzzChatRequest(f *testing.F) { fuzzBodies(f, routeChat) }

func FuzzCompletionRequest(f *testing.F) { fuzzBodies(f, routeCompletions) }
