package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/configs"
	"weir/engine/gguf"
)

// tinyEncoder writes a random text encoder with a vocabulary of a few words. labels
// above 0 make it a reranker.
func tinyEncoder(t *testing.T, labels int) string {
	t.Helper()
	const width, ffn, layers, context = 32, 64, 2, 64
	words := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁hello", "▁world", "▁fish", "▁bird"}
	types := []int32{3, 3, 3, 3, 1, 1, 1, 1}
	r := rand.New(rand.NewPCG(1, 2))
	b := &gguf.Builder{}
	values := func(n int, mean, spread float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(mean + spread*r.NormFloat64())
		}
		return v
	}
	matrix := func(name string, rows, cols int) {
		b.TensorF32(name+".weight", []uint64{uint64(cols), uint64(rows)}, values(rows*cols, 0, 1/math.Sqrt(float64(cols))))
	}
	full := func(name string, rows, cols int) {
		matrix(name, rows, cols)
		b.TensorF32(name+".bias", []uint64{uint64(rows)}, values(rows, 0, 0.1))
	}
	norm := func(name string) {
		b.TensorF32(name+".weight", []uint64{width}, values(width, 1, 0.1))
		b.TensorF32(name+".bias", []uint64{width}, values(width, 0, 0.1))
	}
	for key, v := range map[string]any{
		"general.architecture": "bert", "bert.block_count": uint32(layers), "bert.embedding_length": uint32(width),
		"bert.attention.head_count": uint32(2), "bert.feed_forward_length": uint32(ffn), "bert.context_length": uint32(context),
		"bert.attention.layer_norm_epsilon": float32(1e-12), "bert.attention.causal": false, "bert.pooling_type": uint32(1),
		"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": words, "tokenizer.ggml.token_type": types,
		"tokenizer.ggml.token_type_count": uint32(2), "tokenizer.ggml.normalizer.lowercase": true,
		"tokenizer.ggml.unknown_token_id": uint32(1), "tokenizer.ggml.cls_token_id": uint32(2),
		"tokenizer.ggml.seperator_token_id": uint32(3), "tokenizer.ggml.padding_token_id": uint32(0),
	} {
		b.Set(key, v)
	}
	matrix("token_embd", len(words), width)
	matrix("token_types", 2, width)
	matrix("position_embd", context, width)
	norm("token_embd_norm")
	for i := range layers {
		at := fmt.Sprintf("blk.%d.", i)
		for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			full(at+name, width, width)
		}
		full(at+"ffn_up", ffn, width)
		full(at+"ffn_down", width, ffn)
		norm(at + "attn_output_norm")
		norm(at + "layer_output_norm")
	}
	if labels > 0 {
		b.Set("bert.pooling_type", uint32(4))
		full("cls.output", labels, width)
	}
	raw, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "encoder.gguf")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// answer posts a body and decodes the answer.
func (s *started) answer(path, body string, to any) int {
	s.t.Helper()
	r := s.post(path, body)
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, to); err != nil {
		s.t.Fatalf("%s: %v in %s", path, err, raw)
	}
	return r.StatusCode
}

func TestAnEncoderIsServed(t *testing.T) {
	path := tinyEncoder(t, 0)
	s := start(t, func(c *configs.Config) { c.Model.Path = path })
	var got struct {
		Data []struct{ Embedding []float64 }
	}
	if status := s.answer("/v1/embeddings", `{"model":"encoder","input":["Hello world","fish"]}`, &got); status != http.StatusOK {
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
	if status := s.answer("/v1/chat/completions", chat, &refused); status != http.StatusBadRequest || refused.Error.Code != "wrong_model_kind" {
		t.Errorf("a chat: status %d, code %s", status, refused.Error.Code)
	}
	_, metrics := s.get(s.metrics + "/metrics")
	if !strings.Contains(metrics, `vllm:prompt_tokens_total{engine="0",model_name="encoder"} 7`) {
		t.Error("the metrics lack the 7 tokens of both texts")
	}
	if out := s.out.String(); !strings.Contains(out, "/v1/embeddings") || !strings.Contains(out, "vectors of 32 values, pooling mean") {
		t.Errorf("the first lines do not tell of vectors:\n%s", out)
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

func TestARerankerIsServed(t *testing.T) {
	path := tinyEncoder(t, 1)
	s := start(t, func(c *configs.Config) { c.Model.Path = path })
	var got struct {
		Results []struct {
			Index int
			Score float64 `json:"relevance_score"`
		}
	}
	status := s.answer("/v1/rerank", `{"model":"encoder","query":"fish","documents":["hello world","bird","fish"]}`, &got)
	if status != http.StatusOK || len(got.Results) != 3 {
		t.Fatalf("status %d, %d results", status, len(got.Results))
	}
	for i := range 2 {
		if got.Results[i].Score < got.Results[i+1].Score {
			t.Errorf("results are not sorted: %v", got.Results)
		}
	}
}

func TestAnEncoderIsInspectedAndCannotChat(t *testing.T) {
	path := tinyEncoder(t, 0)
	c := configs.Default()
	c.Model.Path = path
	r, err := inspect(c)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Supported || !r.Engine.Embeds || r.Engine.Dimensions != 32 || r.Engine.Pooling != "mean" || r.Engine.KVBytes != 0 {
		t.Errorf("inspect says %+v (%s)", r.Engine, r.WhyNot)
	}
	err = run(c, runOptions{}, strings.NewReader("hello"), io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "/v1/embeddings") {
		t.Errorf("weir run of an encoder: %v", err)
	}
	d, err := diagnose(t.Context(), c, true, io.Discard)
	if err != nil || !d.Model.Runs {
		t.Errorf("doctor: %v, %+v", err, d)
	}
}

// A prompt of the configuration goes before texts whose requests name it.
func TestAnEncodersPrompts(t *testing.T) {
	path := tinyEncoder(t, 0)
	s := start(t, func(c *configs.Config) {
		c.Model.Path, c.Model.ServedNames = path, []string{"encoder", "birds"}
		c.Model.Prompts = []string{"fish=fish ", "birds=bird "}
	})
	vector := func(fields string) string {
		var got struct {
			Data []struct{ Embedding string }
		}
		if status := s.answer("/v1/embeddings", `{"encoding_format":"base64",`+fields+`}`, &got); status != http.StatusOK || len(got.Data) != 1 {
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
	if err := s.end(); err != nil {
		t.Error(err)
	}
}
