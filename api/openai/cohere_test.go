package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weir/api/openai/models"
	"weir/api/openai/pooling"
	"weir/router"
)

// TestCohereEmbeds holds Cohere's request to its forms, and the answer to what its clients read.
func TestCohereEmbeds(t *testing.T) {
	r, vectors, _ := poolingRig(t, DefaultConfig())
	defer r.close()
	vectors.vector = func(*router.Embedding, int) []float32 { return []float32{3, -4, 0, 0} }
	long := strings.Repeat("a b ", 20)
	for _, tc := range []struct{ fields, ids, answer string }{
		{`"texts":["a","b c"],"input_type":"search_document"`, "[[2 5 3] [2 6 7 3]]", `{"float":[[0.6,-0.8,0,0],[0.6,-0.8,0,0]]}`},
		{`"texts":["a"],"embedding_types":["ubinary","float","binary"],"output_dimension":2`, "[[2 5 3]]", `{"ubinary":[[128]],"float":[[0.6,-0.8]],"binary":[[0]]}`},
		{`"texts":["a"],"embedding_types":["base64","base64"],"output_dimension":1`, "[[2 5 3]]", `{"base64":["AACAPw=="]}`},
		{`"inputs":[{"content":[{"type":"text","text":"a"}]},{"content":"b"}]`, "[[2 5 3] [2 6 3]]", `{"float":[[0.6,-0.8,0,0],[0.6,-0.8,0,0]]}`},
		{`"texts":["` + long + `"]`, "[[2 5 6 5 6 5 6 5 6 5 6 5 6 5 6 3]]", ""},
		{`"texts":["a b c d"],"truncate":"START","max_tokens":4`, "[[2 7 8 3]]", ""},
		{`"texts":["a b c d"],"truncate":"end","max_tokens":4`, "[[2 5 6 3]]", ""},
		{`"texts":["a b"],"truncate":"NONE"`, "[[2 5 6 3]]", ""},
	} {
		res, body := r.do("POST", routeCohereEmbed, "", `{"model":"vectors",`+tc.fields+`}`)
		var a struct {
			ID         string
			Embeddings json.RawMessage
			Texts      []string
			Type       string `json:"response_type"`
			Meta       struct {
				Billed struct {
					Tokens int `json:"input_tokens"`
				} `json:"billed_units"`
			}
		}
		if err := json.Unmarshal([]byte(body), &a); err != nil || res.StatusCode != 200 {
			t.Errorf("%.200s: %d %v %s", tc.fields, res.StatusCode, err, body)
			continue
		}
		asked, tokens := vectors.last(), 0
		for _, ids := range asked.Texts {
			tokens += len(ids)
		}
		if got := fmt.Sprint(asked.Texts); got != tc.ids || tc.answer != "" && string(a.Embeddings) != tc.answer {
			t.Errorf("%.200s reads %s and answers %s, want %s and %s", tc.fields, got, a.Embeddings, tc.ids, tc.answer)
		}
		if a.ID == "" || a.Type != "embeddings_by_type" || a.Meta.Billed.Tokens != tokens || len(a.Texts) != len(asked.Texts) {
			t.Errorf("%.200s: %s", tc.fields, body)
		}
	}
}

// Tasks have Cohere's names or those of the model.
func TestTasksOfCohere(t *testing.T) {
	p := models.Pooler{Prompts: map[string]string{"query": "q: ", "passage": "p: ", "clustering": "c: "}}
	for name, want := range map[string]string{
		"search_query": "query", "search_document": "passage", "clustering": "clustering", "query": "query", "classification": "classification",
	} {
		if got := p.Task(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// A text that is too long is refused with the words of the endpoint that was asked.
func TestTooLongTextsAreToldHowToBeCut(t *testing.T) {
	r, _, _ := poolingRig(t, DefaultConfig())
	defer r.close()
	long := strings.Repeat("a b ", 20)
	for _, c := range []struct{ path, fields, way string }{
		{routeCohereEmbed, `"truncate":"NONE","texts":["` + long + `"]`, "or send truncate END or START to have it cut."},
		{routeEmbeddings, `"input":"` + long + `"`, "or send truncate_prompt_tokens -1 to have it cut."},
	} {
		if status, body := r.post(c.path, `{"model":"vectors",`+c.fields+`}`); status != 400 || !strings.Contains(body, c.way) {
			t.Errorf("%s: %d %s", c.path, status, body)
		}
	}
}

// Bits are those of numpy's packbits of v > 0.
func TestBitsOfVectors(t *testing.T) {
	v := []float32{1, 0, -1, 2, 0.5, -0.5, 0, 3, 1, -1}
	if got := string(pooling.AppendBits(nil, v, 0)) + string(pooling.AppendBits(nil, v, -128)); got != "[153,128][25,0]" {
		t.Error(got)
	}
}
