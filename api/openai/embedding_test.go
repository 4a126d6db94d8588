package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"weir/router"
)

// embeddingJSON is what OpenAI's clients read.
type embeddingJSON struct {
	Object string
	Data   []struct {
		Object    string
		Index     int
		Embedding json.RawMessage
	}
	Model string
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
}

func parseEmbeddings(t *testing.T, body string) (a embeddingJSON) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if a.Object != "list" || a.Model != "test-embedding" {
		t.Errorf("an answer of %q by %q", a.Object, a.Model)
	}
	for i, d := range a.Data {
		if d.Object != "embedding" || d.Index != i {
			t.Errorf("vector %d is a %q with index %d", i, d.Object, d.Index)
		}
	}
	return a
}

func floatsOf(t *testing.T, raw json.RawMessage) (v []float32) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

func TestEmbeddingsOfAllForms(t *testing.T) {
	r, vectors, _ := poolingRig(t, DefaultConfig())
	defer r.close()
	long := strings.TrimSpace(strings.Repeat("a b ", 9)) // 18 tokens and 2 around them; 16 are allowed
	for _, tc := range []struct {
		path, fields string
		want         string // the texts' ids
		warning      string
	}{
		{routeEmbeddings, `"input":"a b c"`, "[[2 5 6 7 3]]", ""},
		{"/embeddings", `"input":"A"`, "[[2 5 3]]", ""},
		{routeEmbeddings, `"input":["a","b b"]`, "[[2 5 3] [2 6 6 3]]", ""},
		{routeEmbeddings, `"input":["a"]`, "[[2 5 3]]", ""},
		{routeEmbeddings, `"input":[2,5,3]`, "[[2 5 3]]", ""},
		{routeEmbeddings, `"input":[[5],[2,6,3]]`, "[[5] [2 6 3]]", ""},
		{routeEmbeddings, `"input":"a b","add_special_tokens":false`, "[[5 6]]", ""},
		// llama.cpp's forms
		{routeEmbeddings, `"input":["a",[5],{"prompt_string":"b"}]`, "[[2 5 3] [5] [2 6 3]]", ""},
		{routeEmbeddings, `"input":[5,"b",7]`, "[[5 6 7]]", ""},
		{routeEmbeddings, `"input":{"content":[{"type":"text","text":"a "},{"type":"text","text":"b"}]}`, "[[2 5 6 3]]", ""},
		{routeEmbeddings, `"input":["a [SEP]",[5]]`, "[[2 5 1 1 1 3] [5]]", ""},
		{routeEmbeddings, `"input":"a [SEP]"`, "[[2 5 1 1 1 3]]", `input holds "[SEP]" as plain text; parse_special makes it a control token`},
		{routeEmbeddings, `"input":"a [SEP]","parse_special":true`, "[[2 5 3 3]]", ""},
		{routeEmbeddings, `"input":" "`, "[[2 3]]", ""},
		{routeEmbeddings, `"input":"a","user":"u","metadata":{"a":"b"},"encoding_format":null,"dimensions":null,"stream":false`, "[[2 5 3]]", ""},
		{routeEmbeddings, `"input":"a","input_type":"query","foo":1`, "[[2 5 3]]", `ignored "input_type", ignored "foo"`},
		// cut texts keep what is around them
		{routeEmbeddings, `"input":"` + long + `","truncate_prompt_tokens":-1`, "[[2 5 6 5 6 5 6 5 6 5 6 5 6 5 6 3]]", ""},
		{routeEmbeddings, `"input":"` + long + `","truncate":true`, "[[2 5 6 5 6 5 6 5 6 5 6 5 6 5 6 3]]", ""},
		{routeEmbeddings, `"input":["a b c d","a"],"truncate_prompt_tokens":4`, "[[2 5 6 3] [2 5 3]]", ""},
		{routeEmbeddings, `"input":"a b c d","truncate_prompt_tokens":4,"truncation_side":"left"`, "[[2 7 8 3]]", ""},
		{routeEmbeddings, `"input":"a b c d","truncate_prompt_tokens":3,"truncation_side":"right"`, "[[2 5 3]]", ""},
		{routeEmbeddings, `"input":[[2,5,6,7,3],[5,6,7,8,9]],"truncate_prompt_tokens":4`, "[[2 5 6 3] [5 6 7 8]]", ""},
		{routeEmbeddings, `"input":"` + strings.Repeat("a ", 40000) + `z","truncate":true,"truncation_side":"left"`,
			"[[2 5 5 5 5 5 5 5 5 5 5 5 5 5 30 3]]", ""},
		{routeEmbeddings, `"input":"a b c d","truncate":true,"truncate_prompt_tokens":4,"truncation_side":"left","truncation_direction":"left"`, "[[2 7 8 3]]", ""},
		{routeEmbeddings, `"input":"a","truncate":true,"truncate_prompt_tokens":-1`, "[[2 5 3]]", ""},
		{routeEmbed, `"inputs":["a","b"]`, "[[2 5 3] [2 6 3]]", ""},
		{routeEmbed, `"inputs":"` + long + `","truncate":true,"truncation_direction":"Left"`, "[[2 5 6 5 6 5 6 5 6 5 6 5 6 5 6 3]]", ""},
	} {
		res, body := r.do("POST", tc.path, "", `{"model":"vectors",`+tc.fields+`}`)
		if res.StatusCode != 200 || res.Header.Get("X-Weir-Warnings") != tc.warning {
			t.Errorf("%s %.200s: %d %s, warnings %s", tc.path, tc.fields, res.StatusCode, body, res.Header.Get("X-Weir-Warnings"))
			continue
		}
		e := vectors.last()
		if got := fmt.Sprint(e.Texts); got != tc.want || e.Types != nil {
			t.Errorf("%s %.200s reads %s, want %s", tc.path, tc.fields, got, tc.want)
		}
		if tc.path == routeEmbed {
			var bare [][]float32
			if err := json.Unmarshal([]byte(body), &bare); err != nil || len(bare) != len(e.Texts) {
				t.Errorf("%s: %v %s", tc.fields, err, body)
			}
			continue
		}
		a, tokens := parseEmbeddings(t, body), 0
		for _, ids := range e.Texts {
			tokens += len(ids)
		}
		if a.Usage.Prompt != tokens || a.Usage.Total != tokens || len(a.Data) != len(e.Texts) {
			t.Errorf("%.200s: usage %+v of %d tokens, %d vectors of %d texts", tc.fields, a.Usage, tokens, len(a.Data), len(e.Texts))
		}
	}
}

// What comes in base64 has the bits that come as numbers, and the length 1.
func TestVectorsBitForBit(t *testing.T) {
	r, vectors, _ := poolingRig(t, DefaultConfig())
	defer r.close()
	odd := []float32{1e-30, -3.4028235e38, 0.1, math.SmallestNonzeroFloat32}
	for _, fields := range []string{``, `,"dimensions":4`, `,"dimensions":3`, `,"dimensions":1`, `,"normalize":false`, `,"use_activation":false,"dimensions":2`} {
		for _, v := range [][]float32{nil, odd, {0, 0, 0, 0}} {
			vectors.vector = ofTokens
			if v != nil {
				vectors.vector = func(*router.Embedding, int) []float32 { return slices.Clone(v) }
			}
			input := `{"model":"vectors","input":["a","b c"]` + fields
			_, plain := r.post(routeEmbeddings, input+`,"encoding_format":"float"}`)
			_, packed := r.post(routeEmbeddings, input+`,"encoding_format":"base64"}`)
			_, standard := r.post(routeEmbeddings, input+`}`)
			if plain != standard {
				t.Errorf("%s: the default is %s and no %s", fields, standard, plain)
			}
			floats, strs := parseEmbeddings(t, plain), parseEmbeddings(t, packed)
			for i, d := range strs.Data {
				var text string
				if err := json.Unmarshal(d.Embedding, &text); err != nil {
					t.Fatalf("%v: %s", err, d.Embedding)
				}
				raw, err := base64.StdEncoding.DecodeString(text)
				if err != nil {
					t.Fatal(err)
				}
				want := floatsOf(t, floats.Data[i].Embedding)
				if len(raw) != 4*len(want) {
					t.Fatalf("%s: %d bytes of %d numbers", fields, len(raw), len(want))
				}
				sum := 0.0
				for k, f := range want {
					if got := binary.LittleEndian.Uint32(raw[4*k:]); got != math.Float32bits(f) {
						t.Errorf("%s: number %d is %x and %x", fields, k, got, math.Float32bits(f))
					}
					sum += float64(f) * float64(f)
				}
				wanted := !strings.Contains(fields, "false") && (v == nil || v[1] != 0)
				if unit := math.Abs(sum-1) < 1e-6; unit != wanted {
					t.Errorf("%s of %v: the squared length is %v", fields, v, sum)
				}
			}
		}
	}
}

// dimensions keeps the first numbers, and their proportions.
func TestDimensionsAreTheFirst(t *testing.T) {
	r, vectors, _ := poolingRig(t, DefaultConfig())
	defer r.close()
	vectors.vector = func(*router.Embedding, int) []float32 { return []float32{3, 4, 12, 84} }
	for fields, want := range map[string]string{
		`"dimensions":2`:                                 `[0.6,0.8]`,
		`"dimensions":3`:                                 `[0.23076923,0.30769232,0.9230769]`,
		`"dimensions":4`:                                 `[0.03529412,0.047058824,0.14117648,0.9882353]`,
		`"dimensions":3,"use_activation":false`:          `[3,4,12]`,
		`"dimensions":2,"encoding_format":"base64"`:      `"mpkZP83MTD8="`,
		`"normalize":false,"encoding_format":"base64"`:   `"AABAQAAAgEAAAEBBAACoQg=="`,
		`"dimensions":1,"user":null,"priority":null`:     `[1]`,
		`"dimensions":1,"truncate_prompt_tokens":null`:   `[1]`,
		`"dimensions":2.0,"add_special_tokens":true`:     `[0.6,0.8]`,
		`"dimensions":2,"embed_dtype":"float32"`:         `[0.6,0.8]`,
		`"dimensions":2,"endianness":"little"`:           `[0.6,0.8]`,
		`"dimensions":2,"parse_special":false,"user":""`: `[0.6,0.8]`,
	} {
		status, body := r.post(routeEmbeddings, `{"model":"vectors","input":"a",`+fields+`}`)
		if got := string(parseEmbeddings(t, body).Data[0].Embedding); status != 200 || got != want {
			t.Errorf("%s: %d %s, want %s", fields, status, got, want)
		}
	}
}

// A prompt goes before texts where the request names its task, or an alias that has one;
// otherwise none does.
func TestPromptsOfTasks(t *testing.T) {
	r, vectors, _ := poolingRig(t, DefaultConfig())
	defer r.close()
	m := testPooler(t, vectors, false)
	m.Aliases = []string{"queries"}
	m.Pooler.Prompts = map[string]string{"query": "q ", "document": "d ", "queries": "q q "}
	if err := r.openai.SetModels(m); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path, fields string
		want         string // ids of the texts, or the parameter that is refused
	}{
		{routeEmbeddings, `"input":["a","b"]`, "[[2 5 3] [2 6 3]]"},
		{routeEmbeddings, `"input":["a","b"],"prompt_name":"query"`, "[[2 21 5 3] [2 21 6 3]]"},
		{routeEmbeddings, `"input":"a","input_type":"document","model":"test-embedding"`, "[[2 8 5 3]]"},
		{routeEmbeddings, `"input":"a","model":"queries"`, "[[2 21 21 5 3]]"},
		{routeEmbeddings, `"input":"a","model":"queries","prompt_name":"document"`, "[[2 8 5 3]]"},
		{routeEmbeddings, `"input":"a b c","prompt_name":"query","truncate_prompt_tokens":4`, "[[2 21 5 3]]"},
		{routeEmbed, `"inputs":"a","prompt_name":"query"`, "[[2 21 5 3]]"},
		{routeEmbeddings, `"input":[5]`, "[[5]]"},
		{routeEmbeddings, `"input":[5],"prompt_name":"query"`, "input"},
		{routeEmbeddings, `"input":"a","prompt_name":"summary"`, "prompt_name"},
		{routeEmbeddings, `"input":"a","input_type":"summary"`, "input_type"},
		{routeEmbeddings, `"input":"","prompt_name":"query"`, "input"},
	} {
		status, body := r.post(tc.path, `{`+tc.fields+`}`)
		if !strings.HasPrefix(tc.want, "[") {
			if param, _, _ := parseError(t, body); status != 400 || param != tc.want {
				t.Errorf("%s: %d %s", tc.fields, status, body)
			}
			continue
		}
		if got := fmt.Sprint(vectors.last().Texts); status != 200 || got != tc.want {
			t.Errorf("%s: %d reads %s, want %s", tc.fields, status, got, tc.want)
		}
	}
}
