package server_test

import (
	"math"
	"net/http"
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
