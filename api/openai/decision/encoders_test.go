package decision_test

import (
	"encoding/json"
	"math"
	"testing"

	"weir/api/openai/decision"
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/tokenizer/chat"
)

// headed are models with heads, of the vocabulary of letters: a classifier, one of two labels, and a decision head whose marks are [PAD].
func headed(t testing.TB) []*models.Model {
	t.Helper()
	template, err := chat.Parse(`[CLS]{{ type }} {{ instructions if instructions is string else instructions | tojson }}[SEP]`+
		`{% for o in options %}[PAD] {{ o.key }} {{ o.description if o.description is string else o.description | tojson }}{% endfor %}[SEP]{{ state if state is string else state | tojson }}[SEP]`, chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var list []*models.Model
	for _, p := range []*models.Pooler{
		{Classes: []string{"a", "B", "c d"}}, {Classes: []string{"no", "yes"}},
		{Decision: &models.Decision{Template: template, Mark: 0, Separator: 3, HeadTokens: 24, Temperatures: map[string]float64{"choice.2": 2, "score": 0.5}}},
	} {
		m := *letters()
		m.Pooler, m.MaxModelLen = p, 96
		list = append(list, &m)
	}
	return list
}

func TestTemperaturesByOptions(t *testing.T) {
	d := models.Decision{Temperatures: map[string]float64{"choice": 2, "choice.3_5": 3, "choice.11": 5}}
	for options, want := range map[int]float64{2: 2, 3: 3, 5: 3, 6: 2, 10: 2, 11: 5, 255: 5} {
		if got := d.Temperature("choice", options); got != want {
			t.Errorf("%d options: %v, want %v", options, got, want)
		}
	}
	if got := d.Temperature("noul", 2); got != 1 {
		t.Errorf("without one it is %v", got)
	}
}

// FuzzHeads: whatever is asked of a head is refused, or gives texts within the context, marks within the texts, and an answer.
func FuzzHeads(f *testing.F) {
	for _, seed := range []string{
		`{"input":"x","questions":[{"type":"predicate","name":"a","instructions":"b"}]}`,
		`{"input":"x y","questions":[{"type":"choice","instructions":"?","choices":[{"value":"a"},{"value":"b","description":"z"}]},{"type":"score","instructions":"q","levels":[{"label":"c d"},{"label":"a"}]}]}`,
		`{"state":{"k":[1]},"questions":{"a":{"type":"noul","instructions":["yes"],"criteria":{"true":"t"}},"b":{"type":"choice","criteria":{"a":null,"B":{}}},"c":{"type":"score","criteria":["a",["b"]]}}}`,
		`{"state":"[PAD] [SEP]","questions":{"a":{"type":"noul","instructions":"[PAD][SEP]"}}}`,
	} {
		f.Add(seed)
	}
	list := headed(f)
	f.Fuzz(func(t *testing.T, body string) {
		for _, m := range list {
			for _, with := range []reader{decision.Read, decision.ReadSystemOne} {
				o, fault := job.ReadBody([]byte(body), false)
				if fault != nil {
					return
				}
				o.Take("model")
				p, fault := with(o, m)
				if fault != nil {
					continue
				}
				var e inference.Embedding
				p.Fill(&e)
				vectors := make([][]float32, len(e.Texts))
				for i, ids := range e.Texts {
					marks := 0
					if e.Marks != nil {
						marks = len(e.Marks[i])
						for _, at := range e.Marks[i] {
							if ids[at] != 0 {
								t.Fatalf("mark %d of %v is none", at, ids)
							}
						}
					}
					if len(ids) == 0 || len(ids) > m.MaxModelLen || e.Types != nil && len(e.Types[i]) != len(ids) {
						t.Fatalf("a text of %d tokens with %d types", len(ids), len(e.Types[i]))
					}
					vectors[i] = make([]float32, m.Pooler.Width(marks))
					for k := range vectors[i] {
						vectors[i][k] = float32(k%3) * 40
					}
				}
				logs := p.Logs(vectors)
				for _, list := range logs {
					for _, v := range list {
						if math.IsNaN(v) || v > 1e-9 {
							t.Fatalf("log-probabilities %v", list)
						}
					}
				}
				answer, fault := p.AppendAnswer(nil, logs, decision.Usage{Input: p.Tokens()})
				if fault != nil || !json.Valid(answer) || len(logs) != p.Len() {
					t.Fatalf("%v: %s", fault, answer)
				}
			}
		}
	})
}
