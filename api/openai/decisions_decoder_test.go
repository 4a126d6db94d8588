package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/tokenizer"
	"weir/tokenizer/chat"
)

// byID is a script: a label's log-probability, and a mark's score, follow from the prompt's length, the choice and the token.
func byID(r *fakeRun) {
	for choice, ids := range r.req.Given {
		l := scoreOf(len(r.req.Prompt), choice, ids[0])
		if r.req.Marks != nil {
			l = scoreOf(r.req.Marks[choice], choice, 0)
		}
		r.stream.Push(inference.Event{Kind: inference.EventToken, Choice: choice, Token: ids[0], Logprob: l})
		r.finish(choice, inference.FinishStop)
	}
	r.stream.Close(nil)
}

func scoreOf(n, choice int, id int32) float32 {
	return -3 - float32((7*n+3*choice+int(id))%11)/4
}

// decoderTemplate writes the options with their labels, or with marks behind them.
const decoderTemplate = `{{ state if state is string else state | tojson }}|{{ type }} {{ instructions }}{% for o in options %}` +
	`{% if o.label is defined %} {{ o.label }}:{% endif %}{{ o.key }}{% if o.description %}={{ o.description }}{% endif %}MARK{% endfor %}{% for q in questions %}[{{ q.id }}]{% endfor %}|`

// askDecoder asks a language model of a decision type three questions, and gives its answers and what the backend was asked.
func askDecoder(t *testing.T, kind string, temperatures map[string]float64) (answers map[string]map[string]any, b *fakeBackend, m *models.Model) {
	t.Helper()
	b = &fakeBackend{script: byID}
	r := newRig(t, DefaultConfig(), b)
	t.Cleanup(r.close)
	m = testModel(t, b)
	mark := "<|im_end|>"
	id, ok := m.Tokenizer.FindControl(mark)
	if !ok {
		t.Fatal("the vocabulary has no control token " + mark)
	}
	template, err := chat.Parse(strings.ReplaceAll(decoderTemplate, "MARK", mark), chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.MaxModelLen, m.Template, m.Family = 4096, nil, nil
	m.Decision = &models.Decision{Type: kind, Template: template, Mark: id, Temperatures: temperatures}
	if err := r.openai.SetModels(m); err != nil {
		t.Fatal(err)
	}
	status, body := r.post(routeSystemOne, `{"model":"test-model","state":{"b":1,"a":["x"]},"questions":{`+
		`"p":{"type":"noul","instructions":"so"},"c":{"type":"choice","instructions":"who","criteria":{"red":null,"blue":"sky","green":null}},`+
		`"s":{"type":"score","instructions":"how","criteria":["low","high"]}}}`)
	var a struct{ Answers map[string]map[string]any }
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	return a.Answers, b, m
}

// isNear checks a number of an answer.
func isNear(t *testing.T, what string, got any, want float64) {
	t.Helper()
	if v, ok := got.(float64); !ok || math.Abs(v-want) > 1e-6 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// What lev's labels give is read as llama.cpp's server reads it: ratings of a predicate, and a choice in both orders.
func TestLanguageModelsDecideByLabels(t *testing.T) {
	answers, b, m := askDecoder(t, "lev", map[string]float64{"choice.small": 0.5, "score": 2})
	id := func(letter int) int32 {
		ids := m.Tokenizer.AppendEncode(nil, string(rune('A'+letter)), tokenizer.EncodeOptions{})
		if len(ids) != 1 {
			t.Skipf("%c is no token of the tests' vocabulary", 'A'+letter)
		}
		return ids[0]
	}
	shares := func(run, n int, temperature float64) []float64 {
		req := b.run(t, run).req
		list := make([]float64, n)
		for i := range list {
			list[i] = float64(scoreOf(len(req.Prompt), i, id(i))) / temperature
		}
		return softmaxOf(list...)
	}
	yes := 0.0
	for i, p := range shares(0, 9, 1) {
		yes += p * float64(i) / 8
	}
	isNear(t, "the predicate", answers["p"]["noul"], yes)
	first, second := shares(1, 3, 0.5), shares(2, 3, 0.5)
	got, _ := answers["c"]["probabilities"].(map[string]any)
	for i, name := range []string{"red", "blue", "green"} {
		isNear(t, name, got[name], (first[i]+second[2-i])/2)
	}
	isNear(t, "the score", answers["s"]["score"], shares(3, 2, 2)[1])
	for i, want := range []string{"noul so A:false", "choice who A:red", "choice who A:green", "score how A:0=low"} {
		if text := m.Tokenizer.Decode(b.run(t, i).req.Prompt, true); !strings.Contains(text, `{"a": ["x"], "b": 1}|`+want) {
			t.Errorf("prompt %d is %q", i, text)
		}
	}
}

// A head gets the places behind the options, and its scores are what is divided by a temperature; JSON is text in the prompt.
func TestLanguageModelsDecideByHeads(t *testing.T) {
	answers, b, m := askDecoder(t, "kev", map[string]float64{"noul.2": 0.25})
	for run, n := range []int{2, 3, 2} {
		req := b.run(t, run).req
		if len(req.Marks) != n || req.N != n || req.MaxTokens != 1 {
			t.Fatalf("run %d: %d marks, %d choices", run, len(req.Marks), req.N)
		}
		for _, at := range req.Marks {
			if req.Prompt[at] != m.Decision.Mark {
				t.Errorf("run %d: a mark at %d", run, at)
			}
		}
		if text := m.Tokenizer.Decode(req.Prompt, true); !strings.Contains(text, "b: 1\na:\n  - x|") {
			t.Errorf("run %d asks %q", run, text)
		}
	}
	shares := func(run int, temperature float64) []float64 {
		var list []float64
		for i, at := range b.run(t, run).req.Marks {
			list = append(list, float64(scoreOf(at, i, 0))/temperature)
		}
		return softmaxOf(list...)
	}
	isNear(t, "the predicate", answers["p"]["noul"], shares(0, 0.25)[1])
	got, _ := answers["c"]["probabilities"].(map[string]any)
	for i, name := range []string{"red", "blue", "green"} {
		isNear(t, name, got[name], shares(1, 1)[i])
	}
	isNear(t, "the score", answers["s"]["score"], shares(2, 1)[1])
}

func TestLanguageModelsThatDecideRefuse(t *testing.T) {
	b := &fakeBackend{script: byID}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	m := testModel(t, b)
	template, err := chat.Parse("{{ state }}{% for o in options %}{{ o.key }}{% endfor %}", chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.MaxModelLen = 256
	ask := func(kind, choices string) (int, string) {
		m.Decision = &models.Decision{Type: kind, Template: template}
		if err := r.openai.SetModels(m); err != nil {
			t.Fatal(err)
		}
		return r.post(routeDecisions, `{"model":"test-model","input":"x","questions":[{"type":"choice","instructions":"which","choices":[`+choices+`]}]}`)
	}
	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprintf(`{"value":"o%d"}`, i))
	}
	for _, c := range []struct{ kind, choices, want string }{
		{"kev", `{"value":"a"},{"value":"b"}`, "template_error"},
		{"another", `{"value":"a"},{"value":"b"}`, "wrong_model_kind"},
		{"openjev", strings.Join(many, ","), "invalid_value"},
	} {
		if status, body := ask(c.kind, c.choices); status != 400 || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s", c.kind, status, body)
		}
	}
}
