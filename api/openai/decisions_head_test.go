package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"weir/api/edge"
	"weir/api/openai/models"
	"weir/router"
	"weir/tokenizer/chat"
)

// byLength gives logits that follow from a text's length.
func byLength(labels int) func(e *router.Embedding, i int) []float32 {
	return func(e *router.Embedding, i int) []float32 {
		v := make([]float32, labels)
		for k := range v {
			v[k] = float32(len(e.Texts[i])*(k+1)%5) / 2
		}
		return v
	}
}

// atMarks gives each mark's place, a tenth of it, and the type of question.
func atMarks(e *router.Embedding, i int) []float32 {
	v := make([]float32, len(e.Marks[i]))
	for k, at := range e.Marks[i] {
		v[k] = float32(at)/10 + float32(e.Types[i][at])
	}
	return v
}

// layaTemplate writes a question as the templates of Laya's files do, of letters that are words.
const layaTemplate = `[CLS]{{ type }} {{ instructions if instructions is string else instructions | tojson }}[SEP]` +
	`{% for o in options %}[MASK] {% if o.description %}{{ o.description if o.description is string else o.description | tojson }}{% elif o.key == 'true' %}t{% elif o.key == 'false' %}f{% else %}{{ o.key }}{% endif %}{% endfor %}` +
	`[SEP]{{ state if state is string else state | tojson }}[SEP]`

// headRig serves a classifier of three labels, one of two, a reranker and a decision head.
func headRig(t testing.TB, c Config) (r *rig, heads map[string]*fakeEmbedder) {
	t.Helper()
	b := &fakeBackend{}
	r = newRig(t, c, b)
	template, err := chat.Parse(layaTemplate, chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	heads = map[string]*fakeEmbedder{
		"topics": {vector: byLength(3)}, "mood": {vector: byLength(2)}, "ranks": {vector: ofCount}, "decider": {vector: atMarks},
	}
	list := []*models.Model{testModel(t, b), testPooler(t, &fakeEmbedder{vector: ofTokens}, false)}
	for _, name := range []string{"topics", "mood", "ranks", "decider"} {
		m := testPooler(t, heads[name], name == "ranks")
		m.ID, m.Aliases, m.Pooler.Dimensions, m.MaxModelLen = name, nil, 0, 64
		switch name {
		case "topics":
			m.Pooler.Classes = []string{"Billing", "technical", "other"}
		case "mood":
			m.Pooler.Classes = []string{"NEGATIVE", "POSITIVE"}
		case "decider":
			m.Pooler.Decision = &models.Decision{Template: template, Mark: 4, Separator: 3, HeadTokens: 40, Temperatures: map[string]float64{"choice": 2, "noul.2": 0.5}}
		}
		list = append(list, m)
	}
	if err := r.openai.SetModels(list...); err != nil {
		t.Fatal(err)
	}
	return r, heads
}

func softmaxOf(values ...float64) []float64 {
	sum := 0.0
	for i, v := range values {
		values[i] = math.Exp(v)
		sum += values[i]
	}
	for i := range values {
		values[i] /= sum
	}
	return values
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// headAnswer is an answer of either form.
type headAnswer struct {
	Type          string
	Probability   float64
	Noul          float64
	Choice        any
	Score         float64
	LabelMass     float64 `json:"label_mass"`
	Probabilities json.RawMessage
}

func (a *headAnswer) list(t testing.TB) (list []float64) {
	t.Helper()
	var items []struct{ Probability float64 }
	if err := json.Unmarshal(a.Probabilities, &items); err != nil {
		t.Fatal(err)
	}
	for _, o := range items {
		list = append(list, o.Probability)
	}
	return list
}

func decideBy(t testing.TB, r *rig, body string) []headAnswer {
	t.Helper()
	status, text := r.post(routeDecisions, body)
	var a struct{ Answers []headAnswer }
	if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 {
		t.Fatalf("%s: %d %s", body, status, text)
	}
	return a.Answers
}

// A classifier reads the input once, whatever is asked, and its labels are the options.
func TestClassifiersDecide(t *testing.T) {
	var finish edge.RequestFinish
	c := DefaultConfig()
	c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finish = f }
	r, heads := headRig(t, c)
	defer r.close()
	answers := decideBy(t, r, `{"model":"topics","input":"a b c d","questions":[
		{"type":"choice","instructions":"?","choices":[{"value":"other"},{"value":"billing"}]},
		{"type":"predicate","instructions":"technical"},
		{"type":"score","instructions":"?","levels":[{"label":"technical"},{"label":"other"},{"label":"Billing"}]}]}`)
	all := softmaxOf(0.5, 1, 1.5) // 6 tokens: 6%5, 12%5, 18%5, over 2
	if got := answers[0].list(t); !near(got[0], all[2]/(all[2]+all[0])) || answers[0].Choice != "other" {
		t.Errorf("choice %+v, want of %v", got, all)
	}
	if !near(answers[1].Probability, all[1]) {
		t.Errorf("predicate %v, want %v", answers[1].Probability, all[1])
	}
	if got := answers[2].list(t); !near(got[0], all[1]) || !near(got[2], all[0]) {
		t.Errorf("score %v, want of %v", got, all)
	}
	if got := heads["topics"].last(); len(got.Texts) != 1 || !slices.Equal(got.Texts[0], []int32{2, 5, 6, 7, 8, 3}) || got.Marks != nil {
		t.Errorf("it read %v", got.Texts)
	}
	if finish.PromptTokens != 6 || finish.Status != 200 || len(finish.Reasons) != 3 || finish.Admitted.IsZero() {
		t.Errorf("the end tells of %+v", finish)
	}
	mood := decideBy(t, r, `{"model":"mood","input":"a","questions":[{"type":"predicate","instructions":"The customer is happy."},{"type":"predicate","instructions":"negative"}]}`)
	if two := softmaxOf(1.5, 0.5); !near(mood[0].Probability, two[1]) || !near(mood[1].Probability, two[0]) { // 3 tokens: 3/2, 1/2
		t.Errorf("%+v, want %v", mood, two)
	}
	status, body := r.post(routeSystemOne, `{"model":"topics","state":"a","questions":{"s":{"type":"score","criteria":["other","technical"]},"c":{"type":"choice","criteria":{"billing":null,"other":null}}}}`)
	var one struct{ Answers map[string]headAnswer }
	if err := json.Unmarshal([]byte(body), &one); err != nil || status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	three := softmaxOf(1.5, 0.5, 2) // 3 tokens: 3, 6%5, 9%5, over 2
	if got := one.Answers["s"]; !near(got.Score, three[1]/(three[1]+three[2])) || !near(got.LabelMass, three[1]+three[2]) {
		t.Errorf("%s, want of %v", body, three)
	}
}

// A reranker reads each question in a pair with the input.
func TestRerankersDecide(t *testing.T) {
	r, heads := headRig(t, DefaultConfig())
	defer r.close()
	answers := decideBy(t, r, `{"model":"ranks","input":"b c","questions":[{"type":"predicate","instructions":"a"},
		{"type":"score","name":"z","instructions":"","levels":[{"label":"low"},{"label":"high"}]}]}`)
	p := 1 / (1 + math.Exp(-3.0/8))
	if !near(answers[0].Probability, p) || !near(answers[1].Score, p) {
		t.Errorf("%+v, want %v", answers, p)
	}
	got := heads["ranks"].last()
	if want := "[[2 5 3 6 7 3] [2 30 3 6 7 3]] [[0 0 0 1 1 1] [0 0 0 1 1 1]]"; fmt.Sprint(got.Texts, got.Types) != want {
		t.Errorf("it read %v %v, want %s", got.Texts, got.Types, want)
	}
}

// A decision head reads a question, its options and the input as its template writes them, and is read at the marks.
func TestDecisionHeadsDecide(t *testing.T) {
	r, heads := headRig(t, DefaultConfig())
	defer r.close()
	answers := decideBy(t, r, `{"model":"decider","input":"a b","questions":[{"type":"predicate","instructions":"c"},
		{"type":"choice","instructions":"d","choices":[{"value":"e"},{"value":"f","description":"g h"}]},
		{"type":"score","instructions":"i","levels":[{"label":"j"},{"label":"k","description":"l"},{"label":"m"}]}]}`)
	got := heads["decider"].last()
	want := [][]int32{ // noul, choice, score and the colon are no words of the vocabulary
		{2, 1, 7, 3, 4, 10, 4, 24, 3, 5, 6, 3},
		{2, 1, 8, 3, 4, 9, 4, 11, 12, 3, 5, 6, 3},
		{2, 1, 13, 3, 4, 14, 4, 15, 1, 16, 4, 17, 3, 5, 6, 3},
	}
	if len(got.Texts) != 3 {
		t.Fatalf("it read %v", got.Texts)
	}
	for i := range want {
		if !slices.Equal(got.Texts[i], want[i]) {
			t.Errorf("question %d is read as %v, want %v", i, got.Texts[i], want[i])
		}
		for k, at := range got.Marks[i] {
			if got.Texts[i][at] != 4 {
				t.Errorf("mark %d of question %d is at %d of %v", k, i, at, got.Texts[i])
			}
		}
		if kind := []uint8{2, 0, 1}[i]; got.Types[i][0] != kind || len(got.Types[i]) != len(got.Texts[i]) {
			t.Errorf("types of question %d: %v", i, got.Types[i])
		}
	}
	gap := float64(got.Marks[0][1]-got.Marks[0][0]) / 10
	if p := softmaxOf(0, gap/0.5)[1]; !near(answers[0].Probability, p) {
		t.Errorf("predicate %v, want %v", answers[0].Probability, p)
	}
	if p := softmaxOf(0, 0.2/2); !near(answers[1].list(t)[1], p[1]) || answers[1].Choice != "f" {
		t.Errorf("choice %v, want %v", answers[1].list(t), p)
	}
	if p := softmaxOf(0, 0.2, 0.6); !near(answers[2].Score, p[1]+2*p[2]) {
		t.Errorf("score %v, want of %v", answers[2].Score, p)
	}
	status, body := r.post(routeSystemOne, `{"model":"decider","state":{"a":["b"]},"questions":{"q":{"type":"noul","instructions":["c"],"criteria":{"true":"[MASK] [SEP]"}}}}`)
	if status != 200 || !strings.Contains(body, `"noul":`) {
		t.Errorf("%d %s", status, body)
	}
	if got := heads["decider"].last(); len(got.Marks[0]) != 2 || slices.Index(got.Texts[0], 4) != got.Marks[0][0] {
		t.Errorf("a client's text became a mark: %v %v", got.Texts, got.Marks)
	}
}

func TestHeadsRefuse(t *testing.T) {
	r, _ := headRig(t, DefaultConfig())
	defer r.close()
	choices := func(list ...string) string {
		return `{"type":"choice","instructions":"a","choices":[{"value":"` + strings.Join(list, `"},{"value":"`) + `"}]}`
	}
	for _, tc := range []struct{ model, input, question, code, param, says string }{
		{"topics", "a", choices("billing", "sales"), "invalid_value", "questions[0].choices[1].value", `["Billing" "technical" "other"]`},
		{"topics", "a", choices("billing", "BILLING"), "invalid_value", "questions[0].choices[1].value", "same label"},
		{"topics", "a", `{"type":"predicate","instructions":"It is late."}`, "invalid_value", "questions[0]", "send one of them as the instructions"},
		{"topics", strings.Repeat("a ", 80), choices("billing", "other"), "context_length_exceeded", "input", "64 tokens"},
		{"ranks", "a", choices("b", "c"), "invalid_value", "questions[0]", "ask a predicate"},
		{"ranks", "a", `{"type":"score","instructions":"b","levels":[{"label":"c"},{"label":"d"},{"label":"e"}]}`, "invalid_value", "questions[0]", "3 options"},
		{"ranks", "a", `{"type":"predicate","instructions":""}`, "invalid_value", "questions[0]", "no instructions"},
		{"ranks", strings.Repeat("a ", 80), `{"type":"predicate","instructions":"b"}`, "context_length_exceeded", "input", "Please reduce the length of input."},
		{"decider", "a", choices("b", "b [MASK"), "", "", ""},
		{"decider", strings.Repeat("a ", 80), choices("b", "c"), "context_length_exceeded", "questions[0]", "64 tokens"},
		{"decider", "a", choices(strings.Repeat("b ", 30)+"c", strings.Repeat("b ", 30)+"d"), "invalid_value", "questions[0].choices[1].value", "Tell them apart earlier"},
	} {
		status, body := r.post(routeDecisions, fmt.Sprintf(`{"model":%q,"input":%q,"questions":[%s]}`, tc.model, tc.input, tc.question))
		var e struct {
			Error struct{ Code, Param, Message string }
		}
		_ = json.Unmarshal([]byte(body), &e)
		if e.Error.Code != tc.code || e.Error.Param != tc.param || !strings.Contains(e.Error.Message, tc.says) || (status == 200) != (tc.code == "") {
			t.Errorf("%s %s: %d %s, want %s at %s", tc.model, tc.question, status, body, tc.code, tc.param)
		}
	}
	for path, body := range map[string]string{
		routeChat: `{"model":"decider",` + hi + `}`, routeEmbeddings: `{"model":"topics","input":"a"}`, routeRerank: `{"model":"mood","query":"a","documents":["b"]}`,
		routeClassify: `{"model":"ranks","input":"a"}`, routeDecisions: `{"model":"test-embedding","input":"a","questions":[{"type":"predicate","instructions":"b"}]}`,
	} {
		if status, text := r.post(path, body); status != 400 || !strings.Contains(text, "wrong_model_kind") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// vLLM's form of classifications.
func TestClassify(t *testing.T) {
	r, heads := headRig(t, DefaultConfig())
	defer r.close()
	status, body := r.post("/classify", `{"model":"topics","input":["a","b c"]}`)
	var a struct {
		ID, Object, Model string
		Data              []struct {
			Index int
			Label string
			Probs []float64
			Count int `json:"num_classes"`
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != 200 || len(a.Data) != 2 || !strings.HasPrefix(a.ID, "classify-") || a.Object != "list" || a.Usage.Prompt != 7 {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	for i, want := range [][]float64{softmaxOf(1.5, 0.5, 2), softmaxOf(2, 1.5, 1)} {
		d := a.Data[i]
		if d.Index != i || d.Count != 3 || d.Label != []string{"other", "Billing"}[i] || !near(d.Probs[0], want[0]) || !near(d.Probs[1], want[1]) {
			t.Errorf("%+v, want %v", d, want)
		}
	}
	if got := heads["topics"].last(); fmt.Sprint(got.Texts) != "[[2 5 3] [2 6 7 3]]" {
		t.Errorf("it read %v", got.Texts)
	}
	if _, body := r.post(routeClassify, `{"model":"topics","input":"a","use_activation":false}`); !strings.Contains(body, `"probs":[1.5,0.5,2]`) {
		t.Error(body)
	}
	if _, body := r.post(routeClassify, `{"model":"topics","input":"a","softmax":false}`); !strings.Contains(body, `"probs":[1.5,0.5,2]`) {
		t.Error(body)
	}
}

// Answers of other servers pass with their own usage, which counts: System One's tells no total.
func TestRelayedDecisionsKeepTheirUsage(t *testing.T) {
	for path, answer := range map[string]string{
		routeSystemOne: `{"model":"front","answers":{"q":{"type":"noul","noul":0.5}},"usage":{"input_tokens":7,"output_tokens":0}}`,
		routeDecisions: `{"model":"front","answers":[{"type":"predicate","name":null,"probability":0.5}],"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":2},"output_tokens":0,"total_tokens":7}}`,
		routeClassify:  `{"model":"front","data":[{"index":0,"label":"a","probs":[1]}],"usage":{"prompt_tokens":7,"total_tokens":7}}`,
	} {
		var finish edge.RequestFinish
		c := DefaultConfig()
		c.Hooks.OnRequestFinish = func(f edge.RequestFinish) { finish = f }
		r := relayRig(t, c, canned(t, "application/json", answer))
		status, body := r.post(path, `{"model":"front","state":"the whole text","input":"the whole text","questions":{"q":{"type":"noul","instructions":"is it so?"}}}`)
		r.close()
		if status != 200 || body != answer || finish.PromptTokens != 7 || finish.OutputTokens != 0 {
			t.Errorf("%s: %d %s, %d tokens", path, status, body, finish.PromptTokens)
		}
	}
}
