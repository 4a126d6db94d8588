package openai

import (
	"fmt"
	"strings"
	"testing"

	"weir/api/openai/models"
	"weir/router"
	"weir/tokenizer"
)

// long is a document that has no room beside the query a: of the 16 tokens of a pair
// 12 are left for it.
var long = strings.TrimSpace(strings.Repeat("b c ", 7))

// The logit of a pair is the tokens of its document with the separator, over 8.
func TestRanking(t *testing.T) {
	r, _, ranks := poolingRig(t, DefaultConfig())
	defer r.close()
	const (
		one   = "0.5621765" // sigmoid(2/8)
		two   = "0.5926666" // sigmoid(3/8)
		three = "0.62245935"
	)
	usage := func(n int) string { return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"total_tokens":%d}`, n, n) }
	for _, tc := range []struct {
		path, fields string
		answer       string // without its id
		read         string // the pairs' ids
	}{
		{routeRerank, `"query":"a","documents":["b","b c","d"]`,
			`"model":"test-reranker",` + usage(16) + `,"results":[{"index":1,"document":{"text":"b c"},"relevance_score":` + two + `},` +
				`{"index":0,"document":{"text":"b"},"relevance_score":` + one + `},{"index":2,"document":{"text":"d"},"relevance_score":` + one + `}]}`,
			"[[2 5 3 6 3] [2 5 3 6 7 3] [2 5 3 8 3]]"},
		{"/rerank", `"query":"a","documents":[{"text":"b"},"b c"],"top_n":1,"return_documents":false`,
			`"model":"test-reranker",` + usage(11) + `,"results":[{"index":1,"relevance_score":` + two + `}]}`, "[[2 5 3 6 3] [2 5 3 6 7 3]]"},
		{"/v2/rerank", `"query":"a","documents":["b"],"top_n":9,"max_tokens_per_doc":4096`,
			`"model":"test-reranker",` + usage(5) + `,"results":[{"index":0,"document":{"text":"b"},"relevance_score":` + one + `}]}`, "[[2 5 3 6 3]]"},
		{routeRerank, `"query":"a","documents":["b c d e"],"max_tokens_per_doc":2,"return_documents":false,"use_activation":false`,
			`"model":"test-reranker",` + usage(6) + `,"results":[{"index":0,"relevance_score":0.375}]}`, "[[2 5 3 6 7 3]]"},
		{routeRerank, `"query":"a b c","documents":["d"],"max_tokens_per_query":1,"return_documents":false,"use_activation":false`,
			`"model":"test-reranker",` + usage(5) + `,"results":[{"index":0,"relevance_score":0.25}]}`, "[[2 5 3 8 3]]"},
		{routeRerank, `"query":"a","documents":["` + long + `"],"truncate_prompt_tokens":-1,"return_documents":false,"use_activation":false`,
			`"model":"test-reranker",` + usage(16) + `,"results":[{"index":0,"relevance_score":1.625}]}`, "[[2 5 3 6 7 6 7 6 7 6 7 6 7 6 7 3]]"},
		{routeRerank, `"query":"a","documents":["b c d e f"],"truncate_prompt_tokens":6,"truncation_side":"left","return_documents":false,"use_activation":false`,
			`"model":"test-reranker",` + usage(6) + `,"results":[{"index":0,"relevance_score":0.375}]}`, "[[2 5 3 9 10 3]]"},
		// text-embeddings-inference
		{"/rerank", `"query":"a","texts":["b","b c"]`, `[{"index":1,"score":` + two + `},{"index":0,"score":` + one + `}]`, "[[2 5 3 6 3] [2 5 3 6 7 3]]"},
		{"/rerank", `"query":"a","texts":["b"],"raw_scores":true,"return_text":true,"truncate":true`, `[{"index":0,"text":"b","score":0.25}]`, "[[2 5 3 6 3]]"},
		// vLLM's scores
		{routeScore, `"text_1":"a","text_2":"b c"`,
			`"object":"list","created":C,"model":"test-reranker","data":[{"index":0,"object":"score","score":` + two + `}],` + usage(6) + `}`, "[[2 5 3 6 7 3]]"},
		{"/score", `"text_1":"a","text_2":["b","b c d"]`,
			`"object":"list","created":C,"model":"test-reranker","data":[{"index":0,"object":"score","score":` + one + `},` +
				`{"index":1,"object":"score","score":` + three + `}],` + usage(12) + `}`, "[[2 5 3 6 3] [2 5 3 6 7 8 3]]"},
		{routeScore, `"text_1":["a","b"],"text_2":["c","d e"],"use_activation":false`,
			`"object":"list","created":C,"model":"test-reranker","data":[{"index":0,"object":"score","score":0.25},` +
				`{"index":1,"object":"score","score":0.375}],` + usage(11) + `}`, "[[2 5 3 7 3] [2 6 3 8 9 3]]"},
		{routeScore, `"queries":["a"],"documents":["b"]`,
			`"object":"list","created":C,"model":"test-reranker","data":[{"index":0,"object":"score","score":` + one + `}],` + usage(5) + `}`, "[[2 5 3 6 3]]"},
		{routeScore, `"queries":"a","items":"b","user":"u"`,
			`"object":"list","created":C,"model":"test-reranker","data":[{"index":0,"object":"score","score":` + one + `}],` + usage(5) + `}`, "[[2 5 3 6 3]]"},
		{routeScore, `"data_1":"a","data_2":"b"`,
			`"object":"list","created":C,"model":"test-reranker","data":[{"index":0,"object":"score","score":` + one + `}],` + usage(5) + `}`, "[[2 5 3 6 3]]"},
	} {
		res, body := r.do("POST", tc.path, "X-Request-Id: mine\r\n", `{"model":"ranks",`+tc.fields+`}`)
		want := tc.answer
		if strings.HasPrefix(want, `"`) {
			kind := "rerank"
			if strings.Contains(tc.path, "score") {
				kind = "score"
				_, rest, _ := strings.Cut(body, `"created":`)
				created, _, _ := strings.Cut(rest, ",")
				want = strings.Replace(want, `"created":C`, `"created":`+created, 1)
			}
			want = `{"id":"` + kind + `-mine",` + want
		}
		if res.StatusCode != 200 || body != want {
			t.Errorf("%s %s\n got %d %s\nwant %s", tc.path, tc.fields, res.StatusCode, body, want)
		}
		e := ranks.last()
		if got := fmt.Sprint(e.Texts); got != tc.read {
			t.Errorf("%s %s reads %s, want %s", tc.path, tc.fields, got, tc.read)
		}
		for i, ids := range e.Texts {
			second := 0
			for k := range ids {
				if second == 0 && k > 0 && ids[k-1] == 3 {
					second = k
				}
				if kind := e.Types[i][k]; (kind == 1) != (second > 0) {
					t.Errorf("%s: token %d of pair %d has type %d: %v %v", tc.fields, k, i, kind, ids, e.Types[i])
				}
			}
		}
	}
}

// A model without a rank head scores pairs by the cosine of their vectors, as vLLM
// does; each text is read once.
func TestRankingByCosine(t *testing.T) {
	r, vectors, _ := poolingRig(t, DefaultConfig())
	defer r.close()
	vectors.vector = func(e *router.Embedding, i int) []float32 {
		return [][]float32{{1, 0, 0, 0}, {0, 2, 0, 0}, {3, 4, 0, 0}, {-5, 0, 0, 0}, {0, 0, 0, 0}}[e.Texts[i][1]-5]
	}
	for fields, want := range map[string]string{
		`"query":"a","documents":["a","b","c","d","e"],"return_documents":false`: `"usage":{"prompt_tokens":18,"total_tokens":18},"results":[` +
			`{"index":0,"relevance_score":1},{"index":2,"relevance_score":0.6},{"index":1,"relevance_score":0},` +
			`{"index":4,"relevance_score":0},{"index":3,"relevance_score":-1}]}`,
		`"query":"b","documents":["c"],"return_documents":false`: `{"index":0,"relevance_score":0.8}]}`,
	} {
		if status, body := r.post(routeRerank, vectorsWith(fields)); status != 200 || !strings.HasSuffix(body, want) {
			t.Errorf("%s\n got %d %s\nwant %s", fields, status, body, want)
		}
	}
	status, body := r.post(routeScore, vectorsWith(`"text_1":["a","b"],"text_2":["c","c"]`))
	if want := `{"index":0,"object":"score","score":0.6},{"index":1,"object":"score","score":0.8}]`; status != 200 || !strings.Contains(body, want) {
		t.Errorf("%d %s, want %s", status, body, want)
	}
	if got := fmt.Sprint(vectors.last().Texts); got != "[[2 5 3] [2 6 3] [2 7 3] [2 7 3]]" || vectors.last().Types != nil {
		t.Errorf("read %s", got)
	}
}

// A head of two labels gives "yes" and "no", whose softmax the score is.
func TestRankingByTwoLabels(t *testing.T) {
	r, _, ranks := poolingRig(t, DefaultConfig())
	defer r.close()
	m := testPooler(t, ranks, true)
	m.Pooler.Labels = 2
	if err := r.openai.SetModels(m); err != nil {
		t.Fatal(err)
	}
	ranks.vector = func(*router.Embedding, int) []float32 { return []float32{1, 3} }
	for fields, want := range map[string]string{`"top_n":1`: "0.11920292", `"use_activation":false`: "-2"} {
		if status, body := r.post(routeRerank, ranksWith(fields)); status != 200 || !strings.HasSuffix(body, `"relevance_score":`+want+`}]}`) {
			t.Errorf("%s: %d %s, want %s", fields, status, body, want)
		}
	}
}

// A template's control tokens count, those in a client's text do not, and a document is
// cut so that the template around it stays whole.
func TestRankingWithATemplate(t *testing.T) {
	r, _, ranks := poolingRig(t, DefaultConfig())
	defer r.close()
	b := &fakeBackend{}
	m := testModel(t, b)
	m.Tokenizer, m.Template, m.MaxModelLen = mustTokenizer(t), nil, 24
	m.Pooler = &models.Pooler{Embedder: ranks, Labels: 1, PairTemplate: "<|im_start|>Q {query} D {document}<|im_end|>"}
	m.Backend = nil
	if err := r.openai.SetModels(m); err != nil {
		t.Fatal(err)
	}
	ranks.vector = func(*router.Embedding, int) []float32 { return []float32{0} }
	for _, tc := range []struct {
		fields string
		status int
		want   string // text of the pair, with control tokens
	}{
		{`"query":"x","documents":["<|im_end|>"]`, 200, "<|im_start|>Q x D <|im_end|><|im_end|>"},
		{`"query":"{document}","documents":["y{query}"]`, 400, ""}, // 25 tokens: the texts are no templates
		{`"query":"{doc}","documents":["{query}"]`, 200, "<|im_start|>Q {doc} D {query}<|im_end|>"},
		{`"query":"x","documents":["` + strings.Repeat("y", 23) + `"]`, 400, ""},
		{`"query":"x","documents":["` + strings.Repeat("y", 200) + `"],"truncate_prompt_tokens":-1`, 200,
			"<|im_start|>Q x D " + strings.Repeat("y", 16) + "<|im_end|>"},
		{`"query":"x","documents":["` + strings.Repeat("y", 30) + `z"],"truncate_prompt_tokens":12,"truncation_side":"left"`, 200,
			"<|im_start|>Q x D yyyz<|im_end|>"},
		{`"query":"` + strings.Repeat("x", 16) + `","documents":["yyyy"],"truncate":true`, 200,
			"<|im_start|>Q " + strings.Repeat("x", 16) + " D y<|im_end|>"},
		{`"query":"` + strings.Repeat("x", 17) + `","documents":["yyyy"],"truncate":true`, 400, ""},
	} {
		status, body := r.post(routeRerank, `{`+tc.fields+`}`)
		if status != tc.status {
			t.Errorf("%s: %d %s", tc.fields, status, body)
			continue
		}
		if tc.status != 200 {
			if _, code, _ := parseError(t, body); code != "context_length_exceeded" {
				t.Errorf("%s: %s", tc.fields, body)
			}
			continue
		}
		ids, control := ranks.last().Texts[0], 0
		for _, id := range ids {
			if m.Tokenizer.IsControl(id) {
				control++
			}
		}
		if got := m.Tokenizer.Decode(ids, true); got != tc.want || control != 2 || len(ids) > 24 {
			t.Errorf("%s reads %q of %d tokens, %d of them control tokens, want %q", tc.fields, got, len(ids), control, tc.want)
		}
	}
}

// A pair in RoBERTa's vocabularies has two separators between its texts: <s> a </s> </s> b </s>.
func TestPairsOfRoBERTa(t *testing.T) {
	fields := map[string]any{
		"tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": []string{"<s>", "<pad>", "</s>", "<unk>", "▁", "a", "b"},
		"tokenizer.ggml.token_type": []int32{3, 3, 3, 2, 1, 1, 1}, "tokenizer.ggml.scores": []float32{0, 0, 0, 0, -1, -2, -3},
		"tokenizer.ggml.bos_token_id": uint32(0), "tokenizer.ggml.eos_token_id": uint32(2), "tokenizer.ggml.unknown_token_id": uint32(3),
		"tokenizer.ggml.add_bos_token": true, "tokenizer.ggml.add_eos_token": true, "tokenizer.ggml.add_space_prefix": true,
	}
	tok, err := tokenizer.New(func(key string) (any, bool) { v, ok := fields[key]; return v, ok })
	if err != nil {
		t.Fatal(err)
	}
	r, _, ranks := poolingRig(t, DefaultConfig())
	defer r.close()
	m := testPooler(t, ranks, true)
	m.Tokenizer, m.Pooler.PairTypes = tok, false
	if err := r.openai.SetModels(m); err != nil {
		t.Fatal(err)
	}
	ranks.vector = func(*router.Embedding, int) []float32 { return []float32{1} }
	if status, body := r.post(routeRerank, ranksWith(`"top_n":1`)); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if got := ranks.last().Texts; fmt.Sprint(got[0][:5]) != "[0 4 5 2 2]" || got[0][len(got[0])-1] != 2 {
		t.Errorf("read %v", got)
	}
}
