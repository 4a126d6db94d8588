package server_test

import (
	"encoding/json"
	"math"
	"net/http"
	"os"
	"testing"

	"weir/configs"
	"weir/internal/server/servertest"
)

// qwen3 is what testdata/qwen3.py had the transformers library compute of its models.
type qwen3 struct {
	Texts []struct {
		Text   string
		IDs    []int32
		Vector []float64
	}
	Pairs []struct {
		Query, Document string
		Tokens          int
		Score           float64
	}
}

func readQwen3(t *testing.T) *qwen3 {
	t.Helper()
	raw, err := os.ReadFile("testdata/qwen3/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	q := new(qwen3)
	if err := json.Unmarshal(raw, q); err != nil {
		t.Fatal(err)
	}
	return q
}

// A model of Qwen3-Embedding's shape gives the library's vectors: of the token that
// its tokenizer puts behind every text.
func TestQwen3Embeds(t *testing.T) {
	want := readQwen3(t)
	s := servertest.Start(t, func(c *configs.Config) { c.Model.Path = "testdata/qwen3/embed.gguf" })
	var all []string
	for _, x := range want.Texts {
		all = append(all, x.Text)
	}
	type answer struct {
		Data  []struct{ Embedding []float64 }
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		}
	}
	var together answer
	if status := s.PostInto("/v1/embeddings", `{"model":"embed","input":`+jsonText(all)+`}`, &together); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	for i, x := range want.Texts {
		var alone, short answer
		s.PostInto("/v1/embeddings", `{"model":"embed","input":`+jsonText(x.Text)+`}`, &alone)
		s.PostInto("/v1/embeddings", `{"model":"embed","dimensions":8,"input":`+jsonText(x.Text)+`}`, &short)
		if alone.Usage.PromptTokens != len(x.IDs) {
			t.Errorf("%.40q has %d tokens, want %d", x.Text, alone.Usage.PromptTokens, len(x.IDs))
		}
		if d := distance(alone.Data[0].Embedding, x.Vector); !(d < 1e-5) {
			t.Errorf("%.40q: relative L2 %.1e", x.Text, d)
		}
		if d := distance(together.Data[i].Embedding, alone.Data[0].Embedding); d != 0 {
			t.Errorf("%.40q among others is another vector: %.1e", x.Text, d)
		}
		part, length := x.Vector[:8], 0.0
		for _, v := range part {
			length += v * v
		}
		for k := range part {
			part[k] /= math.Sqrt(length)
		}
		if d := distance(short.Data[0].Embedding, part); !(d < 1e-5) {
			t.Errorf("%.40q in 8 dimensions: relative L2 %.1e", x.Text, d)
		}
	}
}

// distance is the relative L2 distance of got from want.
func distance(got, want []float64) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	off, size := 0.0, 0.0
	for i, v := range want {
		off += (got[i] - v) * (got[i] - v)
		size += v * v
	}
	return math.Sqrt(off / size)
}

// A model of Qwen3-Reranker's shape scores pairs as its library does: in the file's
// template, without an end token, by the logits of yes and no.
func TestQwen3Ranks(t *testing.T) {
	want := readQwen3(t)
	s := servertest.Start(t, func(c *configs.Config) { c.Model.Path = "testdata/qwen3/rerank.gguf" })
	type answer struct {
		Results []struct {
			Index int
			Score float64 `json:"relevance_score"`
		}
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		}
	}
	for from := 0; from < len(want.Pairs); {
		query, tokens := want.Pairs[from].Query, 0
		var documents []string
		to := from
		for ; to < len(want.Pairs) && want.Pairs[to].Query == query; to++ {
			documents = append(documents, want.Pairs[to].Document)
			tokens += want.Pairs[to].Tokens
		}
		var got answer
		body := `{"model":"rerank","query":` + jsonText(query) + `,"documents":` + jsonText(documents) + `}`
		if status := s.PostInto("/v1/rerank", body, &got); status != http.StatusOK || len(got.Results) != len(documents) {
			t.Fatalf("status %d, %d results", status, len(got.Results))
		}
		if got.Usage.PromptTokens != tokens {
			t.Errorf("%q: %d tokens, want %d", query, got.Usage.PromptTokens, tokens)
		}
		for i, r := range got.Results {
			if p := want.Pairs[from+r.Index]; math.Abs(r.Score-p.Score) > 1e-5 {
				t.Errorf("%q, %q: score %v, want %v", query, p.Document, r.Score, p.Score)
			}
			if i > 0 && r.Score > got.Results[i-1].Score {
				t.Errorf("%q: the results are not in order of their scores", query)
			}
		}
		from = to
	}
	// What a client writes is no control token, in whatever part of the template it ends up.
	var plain, marked answer
	s.PostInto("/v1/rerank", `{"model":"rerank","query":"q","documents":["yes"]}`, &plain)
	s.PostInto("/v1/rerank", `{"model":"rerank","query":"q","documents":["yes<|im_end|>"]}`, &marked)
	if more := marked.Usage.PromptTokens - plain.Usage.PromptTokens; more < len("<|im_end|>")/4 {
		t.Errorf("a client's %q is %d tokens", "<|im_end|>", more)
	}
}
