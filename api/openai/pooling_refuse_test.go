package openai

import (
	"math"
	"strings"
	"testing"

	"weir/internal/reference"
	"weir/router"
)

func vectorsWith(fields string) string { return `{"model":"vectors",` + fields + `}` }

func ranksWith(fields string) string {
	return `{"model":"ranks","query":"a","documents":["b"],` + fields + `}`
}

// refusedPooling are requests to models that write no text, which must end in a 4xx
// that says what is wrong where.
var refusedPooling = []struct {
	path, body  string
	status      int
	param, code string
}{
	{routeEmbeddings, ``, 400, "", "invalid_json"},
	{routeEmbeddings, `[]`, 400, "", "invalid_type"},
	{routeEmbeddings, `{"input":"a"}`, 400, "model", "missing_required_parameter"},
	{routeEmbeddings, `{"input":"a","model":"other"}`, 404, "model", "model_not_found"},
	{routeEmbeddings, `{"input":"a","model":"alias"}`, 400, "model", "wrong_model_kind"},
	{routeEmbeddings, `{"input":"a","model":"ranks"}`, 400, "model", "wrong_model_kind"},
	{routeEmbed, `{"inputs":"a","model":"ranks"}`, 400, "model", "wrong_model_kind"},
	{routeRerank, `{"query":"a","documents":["a"],"model":"alias"}`, 400, "model", "wrong_model_kind"},
	{routeScore, `{"text_1":"a","text_2":"a","model":"test-model"}`, 400, "model", "wrong_model_kind"},
	{routeChat, `{"model":"ranks",` + hi + `}`, 400, "model", "wrong_model_kind"},
	{routeCompletions, `{"model":"vectors","prompt":"a"}`, 400, "model", "wrong_model_kind"},

	{routeEmbeddings, `{"model":"vectors"}`, 400, "input", "missing_required_parameter"},
	{routeEmbeddings, vectorsWith(`"input":null`), 400, "input", "missing_required_parameter"},
	{routeEmbeddings, vectorsWith(`"input":""`), 400, "input", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"input":[]`), 400, "input", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"input":[[]]`), 400, "input[0]", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"input":["a",""]`), 400, "input[1]", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"input":["a",true]`), 400, "input[1]", "invalid_type"},
	{routeEmbeddings, vectorsWith(`"input":["a",null]`), 400, "input[1]", "invalid_type"},
	{routeEmbeddings, vectorsWith(`"input":7`), 400, "input", "invalid_type"},
	{routeEmbeddings, vectorsWith(`"input":{"text":"a"}`), 400, "input.prompt_string", "missing_required_parameter"},
	{routeEmbeddings, vectorsWith(`"input":[57421]`), 400, "input[0]", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"input":[[1],[-1]]`), 400, "input[1][0]", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"input":[1.5]`), 400, "input[0]", "invalid_type"},
	{routeEmbeddings, vectorsWith(`"input":"` + strings.Repeat("a ", 15) + `"`), 400, "input", "context_length_exceeded"},
	{routeEmbeddings, vectorsWith(`"input":["a","` + strings.Repeat("a ", 99999) + `"]`), 400, "input[1]", "context_length_exceeded"},
	{routeEmbeddings, vectorsWith(`"input":[[` + strings.Repeat("5,", 16) + `5]]`), 400, "input[0]", "context_length_exceeded"},
	{routeEmbeddings, vectorsWith(`"input":[` + strings.Repeat(`"a",`, 2048) + `"a"]`), 400, "input", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"encoding_format":"int8","input":"a"`), 400, "encoding_format", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"encoding_format":1,"input":"a"`), 400, "encoding_format", "invalid_type"},
	{routeEmbeddings, vectorsWith(`"dimensions":0,"input":"a"`), 400, "dimensions", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"dimensions":5,"input":"a"`), 400, "dimensions", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"dimensions":"4","input":"a"`), 400, "dimensions", "invalid_type"},
	{routeEmbeddings, vectorsWith(`"truncate_prompt_tokens":2,"input":"a"`), 400, "truncate_prompt_tokens", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"truncate_prompt_tokens":0,"input":"a"`), 400, "truncate_prompt_tokens", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"truncate_prompt_tokens":17,"input":"a"`), 400, "truncate_prompt_tokens", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"truncate":"END","input":"a"`), 400, "truncate", "invalid_type"},
	{routeEmbeddings, vectorsWith(`"truncation_side":"middle","input":"a"`), 400, "truncation_side", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"add_special_tokens":1,"input":"a"`), 400, "add_special_tokens", "invalid_type"},
	{routeEmbeddings, vectorsWith(`"normalize":1,"input":"a"`), 400, "normalize", "invalid_type"},
	{routeEmbeddings, vectorsWith(`"request_id":"a b","input":"a"`), 400, "request_id", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"priority":"high","input":"a"`), 400, "priority", "invalid_type"},
	{routeEmbeddings, vectorsWith(`"deadline_ms":0,"input":"a"`), 400, "deadline_ms", "invalid_value"},
	{routeEmbeddings, vectorsWith(`"embed_dtype":"float16","input":"a"`), 400, "embed_dtype", "unsupported_parameter"},
	{routeEmbeddings, vectorsWith(`"endianness":"big","input":"a"`), 400, "endianness", "unsupported_parameter"},
	{routeEmbeddings, vectorsWith(`"messages":[{"role":"user","content":"a"}],"input":"a"`), 400, "messages", "unsupported_parameter"},
	{routeEmbeddings, vectorsWith(`"stream":true,"input":"a"`), 400, "stream", "unsupported_parameter"},
	{routeEmbeddings, vectorsWith(`"input":"a","input":"b"`), 400, "input", "duplicate_parameter"},
	{routeEmbeddings, vectorsWith(`"prompt_name":"query","input":"a"`), 400, "prompt_name", "invalid_value"},
	{routeEmbed, vectorsWith(`"input":"a"`), 400, "inputs", "missing_required_parameter"},
	{routeCohereEmbed, `{"texts":["a"],"model":"ranks"}`, 400, "model", "wrong_model_kind"},
	{routeCohereEmbed, vectorsWith(`"input":"a"`), 400, "texts", "missing_required_parameter"},
	{routeCohereEmbed, vectorsWith(`"images":["data:image/png;base64,AA=="]`), 400, "images", "unsupported_parameter"},
	{routeCohereEmbed, vectorsWith(`"images":[]`), 400, "texts", "missing_required_parameter"},
	{routeCohereEmbed, vectorsWith(`"texts":["a"],"inputs":[{"content":"a"}]`), 400, "texts", "invalid_value"},
	{routeCohereEmbed, vectorsWith(`"texts":"a"`), 400, "texts", "invalid_type"},
	{routeCohereEmbed, vectorsWith(`"texts":[]`), 400, "texts", "invalid_value"},
	{routeCohereEmbed, vectorsWith(`"texts":["a",""]`), 400, "texts[1]", "invalid_value"},
	{routeCohereEmbed, vectorsWith(`"texts":["a"],"embedding_types":["float","int8"]`), 400, "embedding_types[1]", "invalid_value"},
	{routeCohereEmbed, vectorsWith(`"texts":["a"],"embedding_types":["half"]`), 400, "embedding_types[0]", "invalid_value"},
	{routeCohereEmbed, vectorsWith(`"texts":["a"],"embedding_types":[]`), 400, "embedding_types", "invalid_value"},
	{routeCohereEmbed, vectorsWith(`"texts":["a"],"embedding_types":"float"`), 400, "embedding_types", "invalid_value"},
	{routeCohereEmbed, vectorsWith(`"texts":["a"],"output_dimension":0`), 400, "output_dimension", "invalid_value"},
	{routeCohereEmbed, vectorsWith(`"texts":["a"],"truncate":"MIDDLE"`), 400, "truncate", "invalid_value"},
	{routeCohereEmbed, vectorsWith(`"texts":["a"],"truncate":"NONE","max_tokens":9`), 400, "max_tokens", "invalid_value"},
	{routeCohereEmbed, vectorsWith(`"texts":["a"],"max_tokens":2`), 400, "max_tokens", "invalid_value"},
	{routeCohereEmbed, vectorsWith(`"texts":["a"],"images":["data:"]`), 400, "images", "unsupported_parameter"},
	{routeCohereEmbed, vectorsWith(`"inputs":[{"content":[{"type":"image_url","image_url":{}}]}]`), 400, "inputs[0].content[0].type", "unsupported_parameter"},
	{routeCohereEmbed, vectorsWith(`"inputs":[{"text":"a"}]`), 400, "inputs[0].content", "missing_required_parameter"},
	{routeCohereEmbed, vectorsWith(`"inputs":["a"]`), 400, "inputs[0]", "invalid_type"},

	{routeRerank, `{"model":"ranks"}`, 400, "query", "missing_required_parameter"},
	{routeRerank, `{"model":"ranks","query":"a"}`, 400, "documents", "missing_required_parameter"},
	{routeRerank, `{"model":"ranks","query":"","documents":["a"]}`, 400, "query", "invalid_value"},
	{routeRerank, `{"model":"ranks","query":["a"],"documents":["a"]}`, 400, "query", "invalid_type"},
	{routeRerank, `{"model":"ranks","query":"a","documents":"b"}`, 400, "documents", "invalid_type"},
	{routeRerank, `{"model":"ranks","query":"a","documents":[]}`, 400, "documents", "invalid_value"},
	{routeRerank, `{"model":"ranks","query":"a","documents":["b",""]}`, 400, "documents[1]", "invalid_value"},
	{routeRerank, `{"model":"ranks","query":"a","documents":["b",1]}`, 400, "documents[1]", "invalid_type"},
	{routeRerank, `{"model":"ranks","query":"a","documents":[{"title":"b"}]}`, 400, "documents[0].text", "missing_required_parameter"},
	{routeRerank, `{"model":"ranks","query":"a","documents":[{"text":1}]}`, 400, "documents[0].text", "invalid_type"},
	{routeRerank, ranksWith(`"top_n":-1`), 400, "top_n", "invalid_value"},
	{routeRerank, ranksWith(`"return_documents":"yes"`), 400, "return_documents", "invalid_type"},
	{routeRerank, ranksWith(`"max_tokens_per_doc":-1`), 400, "max_tokens_per_doc", "invalid_value"},
	{routeRerank, ranksWith(`"rank_fields":["title"]`), 400, "rank_fields", "unsupported_parameter"},
	{routeRerank, `{"model":"ranks","query":"` + strings.Repeat("a ", 20) + `","documents":["a"]}`, 400, "query", "context_length_exceeded"},
	{routeRerank, `{"model":"ranks","query":"` + strings.Repeat("a ", 7) + `","documents":["a","` + strings.Repeat("a ", 7) + `"]}`,
		400, "documents[1]", "context_length_exceeded"},
	{routeRerank, `{"model":"ranks","truncate_prompt_tokens":-1,"query":"` + strings.Repeat("a ", 13) + `","documents":["a"]}`,
		400, "query", "context_length_exceeded"},
	{routeRerank, `{"model":"ranks","query":"a","documents":[` + strings.Repeat(`"a",`, 2048) + `"a"]}`, 400, "documents", "invalid_value"},
	{routeRerank, `{"model":"ranks","query":"a","texts":[]}`, 400, "texts", "invalid_value"},
	{routeRerank, `{"model":"ranks","query":"a","texts":["a"],"raw_scores":1}`, 400, "raw_scores", "invalid_type"},

	{routeScore, `{"model":"ranks"}`, 400, "text_1", "missing_required_parameter"},
	{routeScore, `{"model":"ranks","text_1":"a"}`, 400, "text_2", "missing_required_parameter"},
	{routeScore, `{"model":"ranks","queries":"a"}`, 400, "documents", "missing_required_parameter"},
	{routeScore, `{"model":"ranks","text_1":7,"text_2":"a"}`, 400, "text_1", "invalid_type"},
	{routeScore, `{"model":"ranks","text_1":"a","text_2":[]}`, 400, "text_2", "invalid_value"},
	{routeScore, `{"model":"ranks","text_1":["a","b"],"text_2":["a","b","c"]}`, 400, "text_2", "invalid_value"},
	{routeScore, `{"model":"ranks","text_1":["a","b"],"text_2":"a"}`, 400, "text_2", "invalid_value"},
	{routeScore, `{"model":"ranks","text_1":"a","text_2":["b",""]}`, 400, "text_2[1]", "invalid_value"},
	{routeScore, `{"model":"vectors","text_1":"","text_2":"b"}`, 400, "text_1", "invalid_value"},
}

func TestPoolingIsRefusedByName(t *testing.T) {
	r, vectors, ranks := poolingRig(t, DefaultConfig())
	defer r.close()
	for _, tc := range refusedPooling {
		status, body := r.post(tc.path, tc.body)
		param, code, text := parseError(t, body)
		if status != tc.status || param != tc.param || code != tc.code {
			t.Errorf("%s %.100s\n got %d param %q code %q: %s\nwant %d param %q code %q",
				tc.path, tc.body, status, param, code, text, tc.status, tc.param, tc.code)
		}
		if len(text) > 1000 {
			t.Errorf("%s %.100s: a message of %d bytes", tc.path, tc.body, len(text))
		}
	}
	if vectors.last() != nil || ranks.last() != nil {
		t.Error("refused requests reached the embedder")
	}
}

// Refusals for length count what was asked for.
func TestLongTextsAreCounted(t *testing.T) {
	r, _, _ := poolingRig(t, DefaultConfig())
	defer r.close()
	for _, tc := range []struct {
		words int
		want  string
	}{{15, "requested 17 tokens in input."}, {30, "requested 32 tokens"}, {300, "requested at least 3"}} {
		_, body := r.post(routeEmbeddings, vectorsWith(`"input":"`+strings.Repeat("a ", tc.words)+`"`))
		if _, _, text := parseError(t, body); !strings.Contains(text, tc.want) || !strings.Contains(text, "maximum context length is 16 tokens") {
			t.Errorf("%d words: %s", tc.words, text)
		}
	}
}

// A request has a limit of tokens, and one of the bytes of its answer.
func TestLargeRequestsAreRefused(t *testing.T) {
	reference.Slow(t)
	r, vectors, _ := poolingRig(t, DefaultConfig())
	defer r.close()
	m := testPooler(t, vectors, false)
	m.MaxModelLen, m.Pooler.Dimensions = 8192, 4096
	if err := r.openai.SetModels(m); err != nil {
		t.Fatal(err)
	}
	vectors.vector = func(*router.Embedding, int) []float32 { return make([]float32, 4096) }
	text := `"` + strings.Repeat("a ", 8000) + `"`
	texts := func(n int) string { return strings.Repeat(text+",", n-1) + text }
	for _, tc := range []struct {
		fields string
		status int
		want   string
	}{
		{`"input":[` + texts(37) + `]`, 200, ""},
		{`"input":[` + texts(38) + `]`, 400, "input[37] ends at token 304076 of the request"},
		{`"input":[` + strings.Repeat(`"a",`, 1100) + `"a"]`, 400, "the answer of 1101 vectors of 4096 dimensions may have 72225600 bytes"},
		{`"encoding_format":"base64","input":[` + strings.Repeat(`"a",`, 1100) + `"a"]`, 200, ""},
		{`"dimensions":256,"input":[` + strings.Repeat(`"a",`, 1100) + `"a"]`, 200, ""},
	} {
		status, body := r.post(routeEmbeddings, vectorsWith(tc.fields))
		if status != tc.status {
			t.Fatalf("%.60s: %d %.300s", tc.fields, status, body)
		}
		if tc.status != 200 {
			if _, code, text := parseError(t, body); code != "invalid_value" || !strings.Contains(text, tc.want) {
				t.Errorf("%.60s: %s %s", tc.fields, code, text)
			}
		}
	}
}

// What no embedder means to give is an error, and nothing that a client could take for
// a vector.
func TestBrokenVectorsAreErrors(t *testing.T) {
	r, vectors, ranks := poolingRig(t, DefaultConfig())
	defer r.close()
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, v := range [][]float32{{nan, 0, 0, 0}, {0, 0, 0, inf}, {1}, nil, {1, 2, 3, 4, 5}} {
		vectors.vector = func(*router.Embedding, int) []float32 { return v }
		if status, body := r.post(routeEmbeddings, vectorsWith(`"input":"a"`)); status != 500 {
			t.Errorf("%v: %d %s", v, status, body)
		}
	}
	for _, v := range [][]float32{{nan}, {}, {1, 2, 3}} {
		ranks.vector = func(*router.Embedding, int) []float32 { return v }
		if status, body := r.post(routeRerank, ranksWith(`"top_n":1`)); status != 500 {
			t.Errorf("%v: %d %s", v, status, body)
		}
	}
	vectors.vector = func(*router.Embedding, int) []float32 { panic("secret detail") }
	if status, body := r.post(routeEmbeddings, vectorsWith(`"input":"a"`)); status != 500 || strings.Contains(body, "secret") {
		t.Errorf("a panic: %d %s", status, body)
	}
	vectors.vector = ofTokens
	if status, body := r.post(routeEmbeddings, vectorsWith(`"input":"a"`)); status != 200 {
		t.Errorf("after a panic: %d %s", status, body)
	}
}
