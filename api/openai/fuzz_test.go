package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/pooling"
	"weir/api/openai/relay"
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
	case len(r.Prompt) == 0 || r.N < 1 || r.N > params.MaxChoicesPerPrompt:
		return errors.New("no prompt or a wrong n")
	case len(r.Prompt)+r.MaxTokens > 256 || r.MaxTokens < 0 || r.MaxTokens == 0 && r.PromptLogprobs < 0 || r.MinTokens > r.MaxTokens:
		return errors.New("wrong lengths")
	case s.Temperature < 0 || s.Temperature > 2 || s.TopP <= 0 || s.TopP > 1 || s.TypicalP <= 0 || s.TypicalP > 1 || s.MinP < 0 || s.MinP > 1:
		return errors.New("wrong sampling")
	case s.RepetitionPenalty <= 0 || s.PresencePenalty < -2 || s.PresencePenalty > 2 || s.FrequencyPenalty < -2 || s.FrequencyPenalty > 2:
		return errors.New("wrong penalties")
	case s.Logprobs < -1 || s.Logprobs > models.DefaultMaxLogprobs || r.PromptLogprobs > models.DefaultMaxLogprobs:
		return errors.New("wrong logprobs")
	}
	ids := append(append([]inference.TokenID(nil), r.Prompt...), r.StopTokens...)
	ids = append(ids, s.AllowedTokens...)
	for _, word := range s.BadWords {
		if len(word) == 0 {
			return errors.New("an empty bad word")
		}
		ids = append(ids, word...)
	}
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
// request; what a strict server takes the other takes without a word. Panics
// fail by themselves.
func fuzzBodies(f *testing.F, path string) {
	tok := mustTokenizer(f)
	serve := func(strict bool) *Server {
		c := DefaultConfig()
		c.Strict = strict
		s := newServer(f, c, &fakeBackend{})
		m := testModel(f, &fakeBackend{tok: tok})
		m.Backend = checker{tok.Size()}
		if err := s.SetModels(m); err != nil {
			f.Fatal(err)
		}
		return s
	}
	plain, strict := serve(false), serve(true)
	for _, tc := range refused {
		if tc.path == path && len(tc.body) < 2000 {
			f.Add([]byte(tc.body))
		}
	}
	for _, tc := range ignored {
		if tc.path == path {
			f.Add([]byte(tc.body))
		}
	}
	for _, tc := range transcripts {
		if tc.path == path {
			f.Add([]byte(tc.body))
		}
	}
	for _, fields := range []string{
		`"bad_words":["a"," the"],"allowed_token_ids":[5,6],"priority":-3`, `"truncate_prompt_tokens":1,"max_tokens":-1`,
		`"n_predict":1e3,"repeat_penalty":1.5`, `"reasoning_effort":"none","chat_template_kwargs":{"a":[]}`, `"max_tokens":90071992547409930e-4,"n":1.0`,
	} {
		f.Add([]byte(chatWith(fields)))
		f.Add([]byte("\ufeff" + textWith(fields)))
	}
	for _, body := range []string{
		chatWith(bothTool + `,"tool_choice":"required","parallel_tool_calls":false,"thinking_token_budget":4`),
		chatWith(`"functions":[{"name":"f"}],"function_call":{"name":"f"}`),
		chatWith(bothTool + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"get_time"}}]}}`),
		message(pastCalls), message(`{"role":"assistant","function_call":{"name":"f","arguments":"{"}},{"role":"function","name":"f","content":"x"}`),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<16 {
			return
		}
		status, warnings := handled(t, plain, path, body)
		strictly, _ := handled(t, strict, path, body)
		if strictly == 503 && (status != 503 || strings.Contains(warnings, "ignored ")) {
			t.Fatalf("%q passes a strict server and gets %d, warnings %s", body, status, warnings)
		}
		for _, c := range []byte(warnings) {
			if c < ' ' || c > '~' || len(warnings) > 2000 {
				t.Fatalf("%q gets the warnings %q", body, warnings)
			}
		}
	})
}

// handled checks the form of an answer.
func handled(t *testing.T, s *Server, path string, body []byte) (status int, warnings string) {
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, nil, nil)
	ctx.Request.Header.SetMethod("POST")
	ctx.Request.Header.SetContentType("application/json")
	ctx.Request.SetRequestURI(path)
	ctx.Request.SetBody(body)
	muxOf(s).Handle(&ctx)
	status = ctx.Response.StatusCode()
	answer := string(ctx.Response.Body())
	if !json.Valid([]byte(answer)) {
		t.Fatalf("%q got %d and no JSON: %q", body, status, answer)
	}
	_, _, message := parseError(t, answer)
	code := string(ctx.Response.Header.Peek("X-Weir-Reason"))
	if status == 503 && code != "server_is_overloaded" || status >= 500 && status != 503 || status < 400 {
		t.Fatalf("%q got %d %s: %s", body, status, code, message)
	}
	if status != 503 && !json.Valid(bytes.TrimPrefix(body, []byte("\ufeff"))) && code != "invalid_json" {
		t.Fatalf("%q is no JSON and got %s", body, code)
	}
	return status, string(ctx.Response.Header.Peek("X-Weir-Warnings"))
}

func FuzzChatRequest(f *testing.F) { fuzzBodies(f, routeChat) }

func FuzzResponseRequest(f *testing.F) {
	for _, tc := range refusedRewordings {
		f.Add([]byte(tc.body))
	}
	f.Add([]byte(`{` + weatherItems + `,` + weatherTools + `,"tool_choice":{"type":"function","name":"now"}}`))
	fuzzBodies(f, routeResponses)
}

func FuzzMessageRequest(f *testing.F) {
	for _, tc := range refusedRewordings {
		f.Add([]byte(tc.body))
	}
	f.Add([]byte(`{"max_tokens":9,` + weatherBlocks + `,"thinking":{"type":"enabled","budget_tokens":5}}`))
	fuzzBodies(f, routeMessages)
}

func FuzzCompletionRequest(f *testing.F) { fuzzBodies(f, routeCompletions) }

// Whatever an upstream asks for, the advice that is passed on is one that clients can
// follow.
func FuzzUpstreamWait(f *testing.F) {
	for _, s := range []string{"7", "0.25", "-1", "NaN", "1e300", "Wed, 21 Oct 2026 07:28:00 GMT", " 3 ", ""} {
		f.Add(s, s)
	}
	now := time.Date(2026, 10, 21, 7, 27, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, ms, after string) {
		said := http.Header{"Retry-After-Ms": {ms}, "Retry-After": {after}}
		if w := router.WaitOf(said, now); w < 0 || w > router.MaxWait {
			t.Errorf("%q, %q: wait %v", ms, after, w)
		}
		h := map[string]string{}
		relay.Advise(func(name, value string) { h[name] = value }, 429, "slow_down", said)
		seconds, err := strconv.Atoi(h["Retry-After"])
		if err != nil || seconds < 1 || h["X-Should-Retry"] == "" || h["X-Weir-Reason"] != "slow_down" {
			t.Errorf("%q, %q: %v", ms, after, h)
		}
	})
}

// soundTexts is an embedder that complains about calls that break the contract of
// inference.Embedding, and refuses the others.
type soundTexts struct{ m *models.Model }

func (soundTexts) Load() router.Load { return router.Load{Ready: true} }

func (s soundTexts) Embed(_ context.Context, e *router.Embedding) error {
	if err := s.check(e); err != nil {
		panic(err)
	}
	return fmt.Errorf("%w: a test", inference.ErrQueueFull)
}

func (s soundTexts) check(e *router.Embedding) error {
	total := 0
	if len(e.Texts) == 0 || len(e.Texts) > 2*pooling.MaxPooledTexts || e.Types != nil && len(e.Types) != len(e.Texts) {
		return fmt.Errorf("%d texts and types of %d", len(e.Texts), len(e.Types))
	}
	for i, ids := range e.Texts {
		if total += len(ids); len(ids) == 0 || len(ids) > s.m.MaxModelLen || total > pooling.MaxPooledTokens {
			return fmt.Errorf("text %d has %d tokens, %d in all", i, len(ids), total)
		}
		for _, id := range ids {
			if id < 0 || int(id) >= s.m.Tokenizer.Size() {
				return fmt.Errorf("token %d is outside the vocabulary", id)
			}
		}
		if e.Types == nil {
			continue
		}
		if len(e.Types[i]) != len(ids) {
			return fmt.Errorf("text %d has %d tokens and %d types", i, len(ids), len(e.Types[i]))
		}
		for k, kind := range e.Types[i] {
			if kind > 1 || k > 0 && kind < e.Types[i][k-1] {
				return fmt.Errorf("types of text %d: %v", i, e.Types[i])
			}
		}
	}
	return nil
}

// FuzzPooling asks every endpoint of models that write no text with the same body.
func FuzzPooling(f *testing.F) {
	serve := func(rank, template, strict bool) *Server {
		c := DefaultConfig()
		c.Strict = strict
		s, err := New(c)
		if err != nil {
			f.Fatal(err)
		}
		m := testPooler(f, nil, rank)
		if template {
			m.Tokenizer, m.MaxModelLen = mustTokenizer(f), 24
			m.Pooler.PairTemplate, m.Pooler.PairTypes = "<|im_start|>{document} {query}<|im_end|>", false
		}
		m.Pooler.Embedder = soundTexts{m}
		if err := s.SetModels(m); err != nil {
			f.Fatal(err)
		}
		return s
	}
	plain := []*Server{serve(false, false, false), serve(true, false, false), serve(true, true, false)}
	strict := []*Server{serve(false, false, true), serve(true, false, true), serve(true, true, true)}
	for _, tc := range refusedPooling {
		if len(tc.body) < 2000 {
			f.Add([]byte(strings.Replace(strings.Replace(tc.body, `"model":"vectors",`, "", 1), `"model":"ranks",`, "", 1)))
		}
	}
	for _, fields := range []string{
		`"input":["a b c","d"],"encoding_format":"base64","dimensions":2`, `"input":[[2,5,3],[5]],"truncate_prompt_tokens":4,"truncation_side":"left"`,
		`"query":"a","documents":[{"text":"b"},"c d e f g h i j k l m n o p q r s t u v w x y z a b c d"],"top_n":1,"truncate":true`,
		`"query":"a","texts":["` + strings.Repeat("b", 90) + `"],"truncate_prompt_tokens":9,"truncation_direction":"Left"`,
		`"text_1":["a","b"],"text_2":["c","d"],"max_tokens_per_doc":1`, `"queries":"a","items":["b"],"use_activation":false`,
		`"texts":["a b","c"],"embedding_types":["float","binary","base64"],"truncate":"START","max_tokens":3,"output_dimension":3`,
		`"inputs":[{"content":[{"type":"text","text":"a"}]}],"input_type":"search_query"`,
		`"inputs":"a [SEP] b","parse_special":true,"normalize":false,"add_special_tokens":false`,
	} {
		f.Add([]byte("{" + fields + "}"))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<14 {
			return
		}
		for _, path := range []string{routeEmbeddings, routeEmbed, routeCohereEmbed, routeRerank, routeScore} {
			for i, s := range plain {
				status, warnings := handled(t, s, path, body)
				strictly, _ := handled(t, strict[i], path, body)
				if strictly == 503 && (status != 503 || strings.Contains(warnings, "ignored ")) {
					t.Fatalf("%s %q passes a strict server and gets %d, warnings %s", path, body, status, warnings)
				}
			}
		}
	})
}
