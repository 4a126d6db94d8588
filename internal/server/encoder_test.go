package server_test

import (
	"encoding/json"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/internal/server/servertest"
)

func TestAnEncoderIsServed(t *testing.T) {
	path := servertest.TinyEncoder(t, 0)
	s := servertest.Start(t, func(c *configs.Config) { c.Model.Path = path })
	var got struct {
		Data []struct{ Embedding []float64 }
	}
	if status := s.PostInto("/v1/embeddings", `{"model":"encoder","input":["Hello world","fish"]}`, &got); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	if len(got.Data) != 2 || len(got.Data[0].Embedding) != 32 {
		t.Fatalf("%d vectors, the first of %d values", len(got.Data), len(got.Data[0].Embedding))
	}
	sum := 0.0
	for _, v := range got.Data[0].Embedding {
		sum += v * v
	}
	if math.Abs(sum-1) > 1e-5 {
		t.Errorf("the vector's length is %g, want 1", math.Sqrt(sum))
	}
	var refused struct{ Error struct{ Code string } }
	chat := `{"model":"encoder","messages":[{"role":"user","content":"hello"}]}`
	if status := s.PostInto("/v1/chat/completions", chat, &refused); status != http.StatusBadRequest || refused.Error.Code != "wrong_model_kind" {
		t.Errorf("a chat: status %d, code %s", status, refused.Error.Code)
	}
	_, metrics := s.Get(s.Admin + "/metrics")
	if !strings.Contains(metrics, `vllm:prompt_tokens_total{engine="0",model_name="encoder"} 7`) {
		t.Error("the metrics lack the 7 tokens of both texts")
	}
	if out := s.Out.String(); !strings.Contains(out, "/v1/embeddings") || !strings.Contains(out, "vectors of 32 values, pooling mean") {
		t.Errorf("the first lines do not tell of vectors:\n%s", out)
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
}

func TestARerankerIsServed(t *testing.T) {
	path := servertest.TinyEncoder(t, 1)
	s := servertest.Start(t, func(c *configs.Config) { c.Model.Path = path })
	var got struct {
		Results []struct {
			Index int
			Score float64 `json:"relevance_score"`
		}
	}
	status := s.PostInto("/v1/rerank", `{"model":"encoder","query":"fish","documents":["hello world","bird","fish"]}`, &got)
	if status != http.StatusOK || len(got.Results) != 3 {
		t.Fatalf("status %d, %d results", status, len(got.Results))
	}
	for i := range 2 {
		if got.Results[i].Score < got.Results[i+1].Score {
			t.Errorf("results are not sorted: %v", got.Results)
		}
	}
}

// What a head gives does not depend on what else is asked, and the metrics count its tokens once.
func TestHeadsAreServed(t *testing.T) {
	for name, c := range map[string]struct{ path, says, question, others string }{
		"classifier": {servertest.TinyEncoder(t, 3), "probabilities of 3 labels (fish, bird, world): /v1/classify, /v1/decisions",
			`{"type":"choice","instructions":"?","choices":[{"value":"bird"},{"value":"world"}]}`, `{"type":"predicate","instructions":"fish"}`},
		"decision head": {servertest.TinyDecider(t), "probabilities of the options of questions about texts: /v1/decisions",
			`{"type":"choice","instructions":"hello","choices":[{"value":"bird"},{"value":"world"}]}`, `{"type":"predicate","instructions":"fish"}`},
		"reranker": {servertest.TinyEncoder(t, 1), "scores of pairs of texts: /v1/rerank", `{"type":"predicate","instructions":"hello"}`, `{"type":"predicate","instructions":"fish bird"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := servertest.Start(t, func(f *configs.Config) { f.Model.Path = c.path })
			model := strings.TrimSuffix(filepath.Base(c.path), ".gguf")
			var alone, among struct{ Answers []json.RawMessage }
			one := s.PostInto("/v1/decisions", `{"model":"`+model+`","input":"hello fish","questions":[`+c.question+`]}`, &alone)
			many := s.PostInto("/v1/decisions", `{"model":"`+model+`","input":"hello fish","questions":[`+strings.Repeat(c.others+",", 30)+c.question+`]}`, &among)
			if one != http.StatusOK || many != http.StatusOK || len(among.Answers) != 31 || string(alone.Answers[0]) != string(among.Answers[30]) {
				t.Fatalf("%d %s, %d %s", one, alone.Answers, many, among.Answers)
			}
			var system struct{ Answers map[string]map[string]any }
			if status := s.PostInto("/v1/systemone", `{"model":"`+model+`","state":"hello","questions":{"a":{"type":"noul","instructions":"fish"}}}`, &system); status != http.StatusOK || system.Answers["a"]["noul"] == nil {
				t.Errorf("%d %v", status, system)
			}
			if out := s.Out.String(); !strings.Contains(out, c.says) {
				t.Errorf("the first lines do not tell what it gives:\n%s", out)
			}
			if err := s.End(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A prompt of the configuration goes before texts whose requests name it.
func TestAnEncodersPrompts(t *testing.T) {
	path := servertest.TinyEncoder(t, 0)
	s := servertest.Start(t, func(c *configs.Config) {
		c.Model.Path, c.Model.ServedNames = path, []string{"encoder", "birds"}
		c.Model.Prompts = []string{"fish=fish ", "birds=bird "}
	})
	vector := func(fields string) string {
		var got struct {
			Data []struct{ Embedding string }
		}
		if status := s.PostInto("/v1/embeddings", `{"encoding_format":"base64",`+fields+`}`, &got); status != http.StatusOK || len(got.Data) != 1 {
			t.Fatalf("%s: status %d", fields, status)
		}
		return got.Data[0].Embedding
	}
	plain := vector(`"input":"hello","model":"encoder"`)
	for asked, same := range map[string]string{
		`"input":"hello","prompt_name":"fish","model":"encoder"`: `"input":"fish hello","model":"encoder"`,
		`"input":"hello","model":"birds"`:                        `"input":"bird hello","model":"encoder"`,
	} {
		if got := vector(asked); got != vector(same) || got == plain {
			t.Errorf("%s gives another vector than %s, or the one without a prompt", asked, same)
		}
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
}
