package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/api/openai/constraint"
	"weir/api/openai/format"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/tokenizer/chat"
	"weir/tokenizer/family"
	"weir/tokenizer/grammar"
)

// writer is a script that writes what a request's constraint allows, as an engine does.
// It would like to write a text; where it may not, it takes any token that it may.
func writer(t testing.TB, seed uint64, wish string) func(*fakeRun) {
	return func(r *fakeRun) {
		eog, _ := r.backend.tok.EOS()
		for choice := range r.req.N {
			rng := rand.New(rand.NewPCG(seed, uint64(choice)))
			r.finish(choice, r.write(t, choice, eog, wish, rng))
		}
		r.stream.Close(nil)
	}
}

func (r *fakeRun) write(t testing.TB, choice int, eog inference.TokenID, wish string, rng *rand.Rand) inference.FinishReason {
	c := r.req.Constraint.Fork()
	mask, piece := make([]uint64, (r.backend.tok.Size()+63)/64), []byte(nil)
	for range r.req.MaxTokens {
		end, err := c.Mask(mask)
		if err != nil {
			t.Errorf("mask: %v", err)
			return inference.FinishError
		}
		var legal []inference.TokenID
		for id := range inference.TokenID(r.backend.tok.Size()) {
			if mask[id/64]>>(id%64)&1 == 0 {
				continue
			}
			legal = append(legal, id)
			piece = r.backend.tok.AppendPiece(piece[:0], id, false)
			if len(piece) > 0 && strings.HasPrefix(wish, string(piece)) { // what the text goes on with
				legal = append(legal[:0], id)
				wish = wish[len(piece):]
				break
			}
		}
		switch {
		case len(legal) == 0 && !end:
			t.Error("nothing may follow")
			return inference.FinishError
		case len(legal) == 0 || end && (wish == "" || rng.IntN(2) == 0):
			r.token(choice, eog)
			return inference.FinishStop
		}
		id := legal[rng.IntN(len(legal))]
		if err := c.Accept(id); err != nil {
			t.Errorf("token %d: %v", id, err)
			return inference.FinishError
		}
		r.token(choice, id)
	}
	return inference.FinishLength
}

// person is what the schemas of these tests describe.
type person struct {
	Name *string `json:"name"`
	Age  *int    `json:"age"`
}

const personSchema = `{"type":"object","properties":{"name":{"type":"string","maxLength":4},"age":{"type":"integer","minimum":0,"maximum":99}},"required":["name","age"]}`

func readPerson(text string) error {
	var p person
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	switch err := d.Decode(&p); {
	case err != nil:
		return fmt.Errorf("%q: %w", text, err)
	case p.Name == nil || p.Age == nil || len([]rune(*p.Name)) > 4 || *p.Age < 0 || *p.Age > 99:
		return fmt.Errorf("%q is no person", text)
	case d.More():
		return fmt.Errorf("%q goes on", text)
	}
	return nil
}

// contents are the texts of a whole chat's choices.
func contents(t *testing.T, body string) (texts []string) {
	t.Helper()
	var a struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
			Text string `json:"text"`
		} `json:"choices"`
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for _, c := range a.Choices {
		texts = append(texts, c.Message.Content+c.Text)
	}
	return texts
}

// Scenario 2 of structured output: a schema is taken under every name that clients have for it, and answers
// are of it.
func TestJ2SchemasUnderEveryName(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	asText, _ := json.Marshal(personSchema)
	for i, fields := range []string{
		`"response_format":{"type":"json_schema","json_schema":{"name":"person","schema":` + personSchema + `}}`,
		`"response_format":{"type":"json_schema","json_schema":{"name":"a-B_9","description":"d","strict":false,"schema":` + personSchema + `}}`,
		`"response_format":{"type":"json_schema","schema":` + personSchema + `}`,
		`"response_format":{"type":"json_object","schema":` + personSchema + `}`,
		`"structured_outputs":{"json":` + personSchema + `}`,
		`"structured_outputs":{"json":` + string(asText) + `}`,
		`"structured_outputs":{"json":` + personSchema + `,"whitespace_pattern":" ?"}`,
		`"structured_outputs":{"json":` + personSchema + `,"disable_any_whitespace":true}`,
		`"guided_json":` + personSchema + `,"guided_decoding_backend":"xgrammar"`,
		`"guided_json":` + string(asText) + `,"guided_whitespace_pattern":"[ ]{0,2}"`,
		`"json_schema":` + personSchema,
	} {
		for _, path := range []string{routeChat, routeCompletions} {
			r.backend.script = writer(t, uint64(i), "{ \n")
			body := chatWith(fields + `,"n":3,"max_tokens":200`)
			if path == routeCompletions {
				body = textWith(fields + `,"n":3,"max_tokens":200`)
			}
			status, text := r.post(path, body)
			if status != statusOK {
				t.Fatalf("%s: %d %s", fields, status, text)
			}
			for _, content := range contents(t, text) {
				if err := readPerson(content); err != nil {
					t.Errorf("%s: %v", fields, err)
				}
				if strings.Contains(fields, "disable_any") && strings.Contains(content, " \n") {
					t.Errorf("%s: %q has blanks", fields, content)
				}
			}
		}
	}
}

// Scenario 3: json_object is an object, never an array or a scalar.
func TestJ3JSONObjectIsAnObject(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for i, fields := range []string{`"response_format":{"type":"json_object"}`, `"structured_outputs":{"json_object":true}`} {
		for _, wish := range []string{`[1]`, `"text"`, `7`, `{"a":[1,null]}`, ` {`} {
			r.backend.script = writer(t, uint64(i), wish)
			_, text := r.post(routeChat, chatWith(fields+`,"max_tokens":5`))
			if content := contents(t, text)[0]; !strings.HasPrefix(content, "{") {
				t.Errorf("%s: %q", wish, content)
			}
		}
	}
}

// Scenarios 4 and 5: where the schema says nothing, numbers have few digits and blanks are few,
// whatever the model would like to write.
func TestJ5DigitsAndBlanksAreBounded(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for schema, wish := range map[string]string{
		`{}`:                 strings.Repeat("1", 200),
		`{"type":"integer"}`: strings.Repeat("1", 200),
		`{"type":"number"}`:  "0." + strings.Repeat("1", 200),
		`{"type":"array","items":{"type":"boolean"},"maxItems":1}`: "[" + strings.Repeat(" ", 200),
		`{"type":"array","items":{"type":"null"},"maxItems":1}`:    "[" + strings.Repeat("\n", 200),
	} {
		r.backend.script = writer(t, 1, wish)
		_, text := r.post(routeChat, chatWith(`"max_tokens":150,"json_schema":`+schema))
		if content := contents(t, text)[0]; !json.Valid([]byte(content)) || len(content) > 100 {
			t.Errorf("%s: %d bytes: %q", schema, len(content), content)
		}
	}
}

// Scenarios 12 and 13: what a string may hold.
func TestJ12Strings(t *testing.T) {
	for _, c := range []struct {
		schema, text string
		fits         bool
	}{
		{`{"type":"string","maxLength":1}`, `"😀"`, true},
		{`{"type":"string","maxLength":1}`, `"\ud83d\ude00"`, true},
		{`{"type":"string","maxLength":1}`, `"\ud83d"`, false},
		{`{"type":"string","maxLength":1}`, `"\n"`, true},
		{`{"type":"string","maxLength":1}`, `"ab"`, false},
		{`{"type":"string"}`, "\"a\nb\"", false},
		{`{"type":"string"}`, "\"a\x00b\"", false},
		{`{"type":"string"}`, `"a\x41"`, false},
		{`{"type":"string"}`, `"a\u00e9é"`, true},
		{`{"type":"string"}`, "\"a\xff\"", false},
	} {
		f := &format.Format{Kind: format.Schema, Text: []byte(c.schema)}
		compiled, fault := (&constraint.AnswerRules{Format: f}).Compile(grammar.Limits{})
		if fault != nil {
			t.Fatal(fault)
		}
		m, err := compiled.Grammar.Matcher(models.NewVocabulary(mustTokenizer(t)).Build())
		if err != nil {
			t.Fatal(err)
		}
		fits := true
		for _, b := range []byte(c.text) { // a token for each byte: UTF-8 is split everywhere
			id := byteToken(mustTokenizer(t), b)
			fits = fits && m.Allows(id) && m.Accept(id) == nil
		}
		if end, err := m.Mask(make([]uint64, 8)); err != nil || fits && end != c.fits || fits != c.fits {
			t.Errorf("%s, %q: fits %v, end %v, %v; want %v", c.schema, c.text, fits, end, err, c.fits)
		}
	}
}

// Regexes and choices bind the whole answer.
func TestRegexesAndChoicesBindAnswers(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	for i, c := range []struct {
		fields string
		wish   string
		want   []string
	}{
		{`"structured_outputs":{"regex":"(ab|cd){2}"}`, "abx", []string{"abab", "abcd"}},
		{`"guided_regex":"a+b"`, "ab or so", []string{"ab"}},
		{`"regex":"[0-9]{3}"`, "123456", []string{"123"}},
		{`"structured_outputs":{"choice":["yes","no"]}`, "not", []string{"no"}},
		{`"guided_choice":["positive","é👋"]`, "é", []string{"é👋"}},
		{`"guided_choice":["a","ab"]`, "abc", []string{"a", "ab"}},
		{`"guided_grammar":"root ::= \"x\" [0-9]+ \"y\""`, "x12yz", []string{"x12y"}},
		{`"structured_outputs":{"grammar":"start: \"x\" /[0-9]+/ \"y\""}`, "x12yz", []string{"x12y"}},
		{`"grammar":"root ::= \"a\" | \"b\"","ebnf":""`, "b", []string{"b"}},
		{`"response_format":{"type":"structural_tag","format":{"type":"triggered_tags","triggers":["<f"],"tags":[{"begin":"<f>","content":` +
			`{"type":"json_schema","json_schema":{"enum":["x"]}},"end":"</f>"}],"at_least_one":true,"stop_after_first":true}}`, "a<f>1", []string{`<f>"x"</f>`}},
		{`"response_format":{"type":"structural_tag","format":{"type":"tag","begin":"<f>","content":{"type":"const_string","value":"x"},"end":"!"}}`,
			"no", []string{"<f>x!"}},
		{`"structured_outputs":{"structural_tag":"{\"type\":\"structural_tag\",\"format\":{\"type\":\"const_string\",\"value\":\"x\"}}"}`, "no", []string{"x"}},
	} {
		r.backend.script = writer(t, uint64(i), c.wish)
		status, text := r.post(routeChat, chatWith(c.fields))
		if status != statusOK {
			t.Fatalf("%s: %d %s", c.fields, status, text)
		}
		if content := contents(t, text)[0]; !slices.Contains(c.want, content) {
			t.Errorf("%s: %q, want one of %q", c.fields, content, c.want)
		}
	}
}

// The same answer streamed, with log-probabilities, an echo and a stop string that cuts it.
func TestFormatsHoldInEveryForm(t *testing.T) {
	fields := `"max_tokens":200,"seed":1,"json_schema":` + personSchema
	r := newRig(t, DefaultConfig(), &fakeBackend{script: writer(t, 3, `{"name": "Bob", "age": 42}`)})
	defer r.close()
	const want = `{"name": "Bob", "age": 42}`
	if a := r.stream(chatWith(fields + `,"logprobs":true`)); a.Content == nil || *a.Content != want {
		t.Errorf("streamed: %+v", a)
	}
	for body, expected := range map[string]string{
		textWith(fields + `,"echo":true`):              "hi" + want,
		textWith(fields + `,"logprobs":2`):             want,
		textWith(fields + `,"stop":", \"age\""`):       `{"name": "Bob"`,
		textWith(fields + `,"ignore_eos":true`):        want,
		textWith(fields + `,"speculative_ngram":true`): want,
	} {
		status, text := r.post(routeCompletions, body)
		if got := contents(t, text); status != statusOK || got[0] != expected {
			t.Errorf("%s: %d %q, want %q", body, status, got, expected)
		}
	}
}

// What a lenient grammar does not enforce stands in a header; a strict one refuses it.
func TestLenientSchemasSayWhatTheyIgnore(t *testing.T) {
	const unserved = `{"type":"array","items":{"type":["string","array"]},"uniqueItems":true,"maxItems":2}`
	r := newRig(t, DefaultConfig(), &fakeBackend{script: writer(t, 1, `["a"]`)})
	defer r.close()
	ask := func(strict bool) (*http.Response, string) {
		return r.do("POST", routeChat, "", chatWith(fmt.Sprintf(
			`"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":%v,"schema":%s}}`, strict, unserved)))
	}
	for range 2 { // compiled, and found compiled
		res, body := ask(false)
		if w := res.Header.Get("X-Weir-Warnings"); res.StatusCode != statusOK || !strings.Contains(w, `not enforced "uniqueItems"`) {
			t.Errorf("%d %s: warnings %q", res.StatusCode, body, w)
		}
	}
	res, body := ask(true)
	if param, code, text := parseError(t, body); res.StatusCode != 400 || code != "invalid_schema" ||
		!strings.HasPrefix(param, "response_format.json_schema.schema#") || !strings.Contains(text, "uniqueItems") {
		t.Errorf("%d %q %q %s", res.StatusCode, param, code, text)
	}
}

// Scenarios 1, 15 and 16: a format that cannot be compiled is a 400 of its own request that
// says where, before anything is generated, and in no time.
func TestJ15HostileFormatsAreRefusedAtOnce(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 60) + `{}` + strings.Repeat(`}`, 60)
	for _, tc := range []struct{ fields, param, code string }{
		{`"json_schema":{"type":"strin"}`, "json_schema#", "invalid_schema"},
		{`"json_schema":{"$ref":"#/definitions/none"}`, "json_schema#", "invalid_schema"},
		{`"response_format":{"type":"json_schema","json_schema":{"strict":true,"schema":{"properties":{"a":{"type":"string","pattern":"("}}}}}`,
			"response_format.json_schema.schema#/properties/a", "invalid_schema"},
		{`"json_schema":7`, "json_schema", "invalid_schema"},
		{`"json_schema":"{"`, "json_schema", "invalid_schema"},
		{`"json_schema":"` + strings.ReplaceAll(deep+deep, `"`, `\"`) + `"`, "json_schema", "invalid_schema"},
		{`"guided_regex":"("`, "guided_regex", "invalid_grammar"},
		{`"guided_regex":"(?=a)b"`, "guided_regex", "invalid_grammar"},
	} {
		b := &fakeBackend{script: writer(t, 1, "")}
		r := newRig(t, DefaultConfig(), b)
		status, body := r.post(routeChat, chatWith(tc.fields))
		param, code, text := parseError(t, body)
		if status != 400 || !strings.HasPrefix(param, tc.param) || code != tc.code || len(b.runs) > 0 {
			t.Errorf("%.80s: %d %q %q %s, %d requests reached the backend", tc.fields, status, param, code, text, len(b.runs))
		}
		r.close()
	}
}

// Scenario 15: counts stay numbers, so that a large one costs nothing.
func TestJ15LargeCountsCostNothing(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{script: writer(t, 1, "")})
	defer r.close()
	if status, body := r.post(routeChat, chatWith(`"guided_regex":"a{1000000000}","max_tokens":9`)); status != statusOK || contents(t, body)[0] != "aaaaaaaaa" {
		t.Errorf("%d %s", status, body)
	}
}

// Calls that are demanded, and those of strict tools, are bound by the family's grammar; so are
// texts beside tools that may not be called.
func TestCallsAreBoundByTheirSchemas(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"born","parameters":` + personSchema + `%s}},{"type":"function","function":{"name":"now"}}]`
	plain, strict := fmt.Sprintf(tools, ""), fmt.Sprintf(strings.Replace(tools, `,"required"`, `,"additionalProperties":false,"required"`, 1), `,"strict":true`)
	for seed := range uint64(2) {
		for _, c := range []struct {
			fields, wish string
			calls        bool
		}{
			{plain + `,"tool_choice":"required","parallel_tool_calls":false`, "Hello", true},
			{plain + `,"tool_choice":{"type":"function","function":{"name":"born"}}`, "Hello", true},
			{strict + `,"parallel_tool_calls":false`, "Hello", false},
			{plain + `,"tool_choice":"none","guided_choice":["yes","no"]`, "maybe", false},
		} {
			r := newRig(t, DefaultConfig(), &fakeBackend{script: writer(t, seed, c.wish)})
			longModel(r)
			a := r.ask(chatWith(c.fields + `,"max_tokens":800`))
			if (len(a.Calls) > 0) != c.calls && c.calls {
				t.Errorf("%s: %+v", c.fields, a)
			}
			for _, call := range a.Calls {
				if call.Name == "born" {
					if err := readPerson(call.Arguments); err != nil {
						t.Errorf("%s: %v", c.fields, err)
					}
				}
			}
			if strings.Contains(c.fields, "guided") && a.text() != "yes" && a.text() != "no" {
				t.Errorf("%s: %q", c.fields, a.text())
			}
			r.close()
		}
	}
	r := newRig(t, DefaultConfig(), &fakeBackend{})
	defer r.close()
	longModel(r)
	status, body := r.post(routeChat, chatWith(`"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"no"}}}}}]`))
	if param, code, text := parseError(t, body); status != 400 || code != "invalid_schema" || param != "tools[0].function.parameters#/properties/a/type" {
		t.Errorf("%d %q %q %s", status, param, code, text)
	}
}

// An engine whose constraint fails ends the request with a 500 that says so.
func TestJ17AConstraintThatFailsIsTold(t *testing.T) {
	r := newRig(t, DefaultConfig(), &fakeBackend{script: func(r *fakeRun) {
		r.finish(0, inference.FinishError)
		r.stream.Close(fmt.Errorf("%w after 3 tokens: %w", inference.ErrConstraint, errors.New("nothing may follow")))
	}})
	defer r.close()
	start := time.Now()
	status, body := r.post(routeChat, chatWith(`"guided_regex":"a+"`))
	if _, code, text := parseError(t, body); status != 500 || code != "constraint_failed" || !strings.Contains(text, "nothing may follow") {
		t.Errorf("%d %s after %v", status, body, time.Since(start))
	}
}

// A grammar that takes too much for one token is its client's fault, and none that a client tries again.
func TestTooComplexFormatsAreTold(t *testing.T) {
	reference.Slow(t)
	doubled := `root ::= r0\n`
	for i := range 59 {
		doubled += fmt.Sprintf(`r%d ::= r%d r%d\n`, i, i+1, i+1)
	}
	r := newRig(t, DefaultConfig(), &fakeBackend{script: func(r *fakeRun) {
		var err error
		a, ok := r.backend.tok.ID("a")
		for range 200 {
			if _, err = r.req.Constraint.Mask(make([]uint64, (r.backend.tok.Size()+63)/64)); err == nil {
				err = r.req.Constraint.Accept(a)
			}
			if err != nil {
				break
			}
		}
		if !ok || err == nil {
			t.Errorf("an a: %v; the grammar has no limit", ok)
		}
		r.finish(0, inference.FinishError)
		r.stream.Close(fmt.Errorf("%w after 3 tokens: %w", inference.ErrConstraint, err))
	}})
	defer r.close()
	status, body := r.post(routeChat, chatWith(`"grammar":"`+doubled+`r59 ::= \"a\"?"`))
	if _, code, text := parseError(t, body); status != 400 || code != "format_too_complex" || !strings.Contains(text, "less ambiguous") {
		t.Errorf("%d %.300s", status, body)
	}
}

func FuzzFormat(f *testing.F) {
	for _, seed := range []string{
		`{"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":` + personSchema + `}}}`,
		`{"structured_outputs":{"regex":"a+","choice":["a"],"whitespace_pattern":" "}}`, `{"guided_json":"{}","json_schema":true}`,
		`{"guided_choice":["",1]}`, `{"response_format":{"type":7,"schema":[]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		body = bytes.TrimSpace(body)
		o, fault := jsonbody.Parse(body, len(body)%2 == 0)
		if fault != nil || len(body) > 4096 {
			return
		}
		got := format.Read(o, format.SchemaRules{}, &fault)
		if fault != nil || got == nil {
			return
		}
		if c, fault := (&constraint.AnswerRules{Format: got}).Compile(grammar.Limits{}); (c == nil) == (fault == nil) {
			t.Errorf("%s: %v, %v", body, c, fault)
		}
	})
}

// thinking is ChatML whose models think first, in the prompt's thought where it opens one.
const thinking = `{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% if enable_thinking is defined and not enable_thinking %}` +
	`{{ '<think>\n\n</think>\n\n' }}{% elif open %}{{ '<think>\n' }}{% endif %}{% endif %}`

// Scenarios 18, 20 and 21: a thought is free, and the answer behind it has the format; without
// a thought the format begins with the answer; text outside of both is none.
func TestJ18FormatsBindTheAnswerBehindAThought(t *testing.T) {
	template, err := chat.Parse(thinking, chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ fields, wish, thought, text string }{
		{`"chat_template_kwargs":{"open":true}`, "yes? well, no.</think>\n\nyes", "yes? well, no.", "yes"},
		{`"chat_template_kwargs":{"open":true}`, "a</think>no, maybe", "a", "no"},
		{`"enable_thinking":false`, "no", "", "no"},
		{`"seed":1`, "no <think>hm</think>yes", "", "no"},
	} {
		r := newRig(t, DefaultConfig(), &fakeBackend{script: writer(t, 1, c.wish)})
		m := testModel(t, r.backend)
		m.Template, m.Family = template, family.Detect(template)
		if err := r.openai.SetModels(m); err != nil {
			t.Fatal(err)
		}
		a := r.ask(chatWith(c.fields + `,"max_tokens":60,"guided_choice":["yes","no"]`))
		if strings.TrimSpace(a.Reasoning) != c.thought || a.text() != c.text || a.Reason != "stop" {
			t.Errorf("%s, %q: thought %q, text %q, %s; want %q, %q", c.fields, c.wish, a.Reasoning, a.text(), a.Reason, c.thought, c.text)
		}
		r.close()
	}
}

// Scenario 19: the formats of Responses and Messages bind as those of chats.
func TestJ19FormatsBindResponsesAndMessages(t *testing.T) {
	const format = `{"type":"json_schema","name":"person","schema":%s}`
	for path, body := range map[string]string{
		routeResponses: `{"input":"hi","max_output_tokens":200,"text":{"format":` + format + `}}`,
		routeMessages:  `{"messages":[{"role":"user","content":"hi"}],"max_tokens":200,"output_config":{"format":` + strings.Replace(format, `"name":"person",`, "", 1) + `}}`,
	} {
		strict := strings.Replace(personSchema, `,"required"`, `,"additionalProperties":false,"required"`, 1)
		r := newRig(t, DefaultConfig(), &fakeBackend{script: writer(t, 1, `{"name":"Bo","age":7}`)})
		if status, text := r.post(path, fmt.Sprintf(body, strict)); status != statusOK || !strings.Contains(text, `{\"name\":\"Bo\",\"age\":7}`) {
			t.Errorf("%s: %d %s", path, status, text)
		}
		if status, text := r.post(path, fmt.Sprintf(body, `{"type":"no"}`)); status != 400 || !strings.Contains(text, "format") || !strings.Contains(text, "is no type") {
			t.Errorf("%s: %d %s", path, status, text)
		}
		r.close()
	}
}
