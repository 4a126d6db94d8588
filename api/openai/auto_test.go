package openai

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/api/openai/constraint"
	"weir/api/openai/job"
	"weir/internal/inference"
	"weir/internal/reference"
	"weir/tokenizer/family"
	"weir/tokenizer/grammar"
)

// insist is a script that writes a text for as long as the constraint allows it, and from
// there on anything that it allows, to the first end.
func insist(t testing.TB, seed uint64, text string) func(*fakeRun) {
	return func(r *fakeRun) {
		tok := r.backend.tok
		eog, _ := tok.EOS()
		rng := rand.New(rand.NewPCG(seed, 0))
		c, mask := r.req.Constraint.Fork(), make([]uint64, (tok.Size()+63)/64)
		for n := range r.req.MaxTokens {
			end, err := c.Mask(mask)
			if err != nil {
				t.Error(err)
			}
			var id inference.TokenID
			if n < len(text) {
				id = byteToken(tok, text[n])
			}
			if n >= len(text) || !c.Allows(id) {
				text = text[:min(n, len(text))]
				if end {
					r.token(0, eog)
					r.finish(0, inference.FinishStop)
					r.stream.Close(nil)
					return
				}
				for id = -1; id < 0 || mask[id/64]>>(id%64)&1 == 0; {
					id = inference.TokenID(rng.IntN(tok.Size()))
				}
			}
			if err := c.Accept(id); err != nil {
				t.Error(err)
			}
			r.token(0, id)
		}
		r.finish(0, inference.FinishLength)
		r.stream.Close(nil)
	}
}

// Where the model chooses between text and calls, a call that it has begun is one of the
// request's tools with arguments that its schema holds for.
func TestAutoCallsAreValid(t *testing.T) {
	const wish = "Let me see.\n<tool_call>\n{\"name\": \"borne\", \"arguments\": {\"town\": 5"
	tools := `"tools":[{"type":"function","function":{"name":"born","parameters":` + personSchema + `}}],"max_tokens":900`
	called := 0
	for seed := range uint64(4) {
		r := newRig(t, DefaultConfig(), &fakeBackend{script: insist(t, seed, wish)})
		longModel(r)
		a := r.ask(chatWith(tools))
		r.close()
		if a.text() != "Let me see." || strings.Contains(a.text(), "<tool_call>") {
			t.Errorf("seed %d: text %q", seed, a.text())
		}
		for _, call := range a.Calls {
			called++
			if a.Reason != "tool_calls" || call.Name != "born" {
				t.Errorf("seed %d: %+v", seed, a)
			}
			if err := readPerson(call.Arguments); err != nil {
				t.Errorf("seed %d: %s: %v", seed, call.Arguments, err)
			}
		}
	}
	if called == 0 {
		t.Error("no call in any answer")
	}
}

// Text that begins no call passes as the model wrote it.
func TestAutoLeavesTextFree(t *testing.T) {
	for _, text := range []string{"Hello <tool_ and <tool_calls> {\"name\": \"born\"}", parisCall, "So:\n" + parisCall + "\n" + romeCall + "\n"} {
		r := newRig(t, DefaultConfig(), &fakeBackend{script: insist(t, 0, text)})
		longModel(r)
		a := r.ask(chatWith(bothTool))
		if said, _, _ := strings.Cut(text, "<tool_call>\n"); len(a.Calls) != strings.Count(text, "city") || a.text() != strings.TrimSpace(said) {
			t.Errorf("%q: %+v", text, a)
		}
		r.close()
	}
}

// What cannot bind calls is told in a warning, and the answer is given without.
func TestAutoDemandsNoSchema(t *testing.T) {
	const tool = `{"type":"function","function":{"name":"f%d","parameters":%s}}`
	for name, parameters := range map[string]string{
		"no type": `{"type":"no"}`, "a pattern that is none": `{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}`,
	} {
		b := &fakeBackend{script: say("<tool_call>\n{\"name\": \"f1\", \"arguments\": {\"any\": 1}}\n</tool_call>", 0)}
		r := newRig(t, DefaultConfig(), b)
		longModel(r)
		tools := `"tools":[` + fmt.Sprintf(tool, 0, personSchema) + "," + fmt.Sprintf(tool, 1, parameters) + `]`
		res, body := r.do("POST", routeChat, "", chatWith(tools))
		if w := res.Header.Get("X-Weir-Warnings"); res.StatusCode != 200 || !strings.Contains(w, `arguments of "f1" are not enforced`) {
			t.Errorf("%s: %d, warnings %q: %s", name, res.StatusCode, w, body)
		}
		if b.run(t, 0).req.Constraint == nil {
			t.Errorf("%s: the other tool is not enforced either", name)
		}
		status, body := r.post(routeChat, chatWith(strings.Replace(tools, `"name":"f1"`, `"name":"f1","strict":true`, 1)))
		if status != 400 {
			t.Errorf("%s, strict: %d %s", name, status, body)
		}
		r.close()
	}
}

// Tools whose schemas are too much together keep the form of their calls.
func TestAutoGivesUpOnTooLargeSchemas(t *testing.T) {
	reference.Slow(t)
	properties := make([]string, 250)
	for i := range properties {
		properties[i] = fmt.Sprintf(`"p%d":{"type":"integer"}`, i)
	}
	m := toolModel(t, &fakeBackend{tok: mustTokenizer(t)}, toolTemplate)
	q := &job.Reading{Family: m.Family}
	for i := range 300 {
		tool := family.Tool{Name: fmt.Sprint("f", i), Parameters: fmt.Appendf(nil, `{"title":"%d","properties":{%s}}`, i, strings.Join(properties, ","))}
		q.Tools.Tools = append(q.Tools.Tools, tool)
	}
	q.Tools.Choice = family.Choice{Mode: family.Auto, Parallel: true}
	q.Options = family.Options{Tools: q.Tools.Tools, Choice: q.Tools.Choice}
	r := &constraint.AnswerRules{Model: m, Reading: q}
	c, fault := r.Compile(grammar.Limits{})
	if fault != nil || c.Grammar == nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "tools are not enforced") {
		t.Errorf("%+v %+v", c, fault)
	}
	q.Tools.Choice.Mode, q.Options.Choice.Mode = family.Required, family.Required
	if c, fault = r.Compile(grammar.Limits{}); fault == nil {
		t.Errorf("a demanded call has %+v", c.Warnings)
	}
}
