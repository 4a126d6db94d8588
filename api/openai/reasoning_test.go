package openai

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"weir/api/openai/reasoning"
	"weir/internal/inference"
)

// thinkTemplate opens the thought itself.
const thinkTemplate = `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}`

// think asks a model of a template for an answer, whole and as a stream, and wants both
// to be the same.
func think(t *testing.T, template, says, fields string) *answered {
	t.Helper()
	b := &fakeBackend{script: sayBytes(says)}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	if err := r.openai.SetModels(toolModel(t, b, template)); err != nil {
		t.Fatal(err)
	}
	whole, stream := r.ask(chatWith(fields)), r.stream(chatWith(fields))
	if whole.text() != stream.text() || whole.Reasoning != stream.Reasoning || whole.Reason != stream.Reason ||
		!slices.Equal(whole.names(), stream.names()) || whole.Thought != stream.Thought {
		t.Errorf("%q: whole %+v, as a stream %+v", says, whole, stream)
	}
	return whole
}

func TestThoughtsAreToldApart(t *testing.T) {
	const plain = `"n":1`
	for _, c := range []struct {
		name, template, says, fields string
		thought, text, calls, reason string
	}{
		{"opened by the prompt", thinkTemplate, "Hm, so.\n</think>\n\nHello", plain, "Hm, so.", "Hello", "", "stop"},
		{"20 nothing before the end marker is text", thinkTemplate, "Hm <think> so", plain, "Hm <think> so", "", "", "stop"},
		{"30 a call in a thought", thinkTemplate, "I could " + parisCall + " but no.</think>Hello", bothTool, "I could " + parisCall + " but no.", "Hello", "", "stop"},
		{"a call after a thought", thinkTemplate, "Hm.</think>\n\n" + parisCall, bothTool, "Hm.", "", `get_weather {"city": "Paris"}`, "tool_calls"},
		{"38 a stop string in a thought", thinkTemplate, "Never stop.</think>Hello, stop it", plain + `,"stop":"stop"`, "Never stop.", "Hello, ", "", "stop"},
		{"not told", thinkTemplate, "Hm.</think>Hello", `"include_reasoning":false`, "", "Hello", "", "stop"},
		{"as the model wrote it", thinkTemplate, "Hm.</think>Hello", `"skip_special_tokens":false`, "", "Hm.</think>Hello", "", "stop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := think(t, c.template, c.says, c.fields)
			if a.Reasoning != c.thought || a.text() != c.text || strings.Join(a.names(), "\n") != c.calls || a.Reason != c.reason {
				t.Errorf("got %+v %q", a, a.text())
			}
			if thinks := c.name != "as the model wrote it"; (a.Thought > 0) != thinks || a.Thought > a.Output {
				t.Errorf("%d of %d tokens are counted as thought", a.Thought, a.Output)
			}
		})
	}
}

// Log-probabilities are those of the tokens of the content, by their bytes.
// Many templates write calls as Hermes does and know no thoughts: a model of theirs, held to a
// format, begins with its answer.
func TestHermesTemplatesWithoutThoughtsHaveNone(t *testing.T) {
	before, rest, _ := strings.Cut(toolTemplate, `{% if m.reasoning_content %}`)
	_, rest, _ = strings.Cut(rest, `{% endif %}`)
	plain, _, _ := strings.Cut(before+rest, `{% if enable_thinking`)
	for source, want := range map[string]bool{toolTemplate: true, plain + `{% endif %}`: false} {
		m := toolModel(t, &fakeBackend{}, source)
		if m.Family.Name != "hermes" || m.Family.Thinks != want {
			t.Errorf("a template of the family %s thinks: %v, want %v:\n%s", m.Family.Name, m.Family.Thinks, want, source)
		}
	}
}

func TestLogprobsAreThoseOfTheContent(t *testing.T) {
	says := "Hm.\n</think>\n\nSo <tool is no call.\n" + parisCall
	b := &fakeBackend{script: sayBytes(says)}
	r := newRig(t, DefaultConfig(), b)
	defer r.close()
	if err := r.openai.SetModels(toolModel(t, b, thinkTemplate)); err != nil {
		t.Fatal(err)
	}
	status, text := r.post(routeChat, chatWith(bothTool+`,"logprobs":true`))
	if status != 200 {
		t.Fatal(text)
	}
	if got, want := tokensTold(t, text), "So <tool is no call."; got != want {
		t.Errorf("the tokens are %q, want %q", got, want)
	}
	_, text = r.post(routeChat, chatWith(bothTool+`,"logprobs":true,"stream":true`))
	var all strings.Builder
	for line := range strings.Lines(text) {
		if data, ok := strings.CutPrefix(line, "data: {"); ok {
			all.WriteString(tokensTold(t, "{"+data))
		}
	}
	if got, want := all.String(), "So <tool is no call."; got != want {
		t.Errorf("the stream's tokens are %q, want %q", got, want)
	}
}

// obey is a script that samples as an engine with a constraint does: the text's next
// token where the constraint allows it, else the only token that it allows.
func obey(t *testing.T, text string) func(*fakeRun) {
	return func(r *fakeRun) {
		tok := r.backend.tok
		mask := make([]uint64, (tok.Size()+63)/64)
		constraint := r.req.Constraint.Fork()
		var said []inference.TokenID
		for rest := []byte(text); len(rest) > 0; {
			if _, err := constraint.Mask(mask); err != nil {
				t.Error(err)
			}
			next := byteToken(tok, rest[0])
			if b, ok := constraint.(*reasoning.Constraint); ok && b.IsEnding() {
				next = constraint.Forced(nil)[0]
			} else {
				rest = rest[1:]
			}
			if mask[next/64]&(1<<(next%64)) == 0 || !constraint.Allows(next) {
				t.Errorf("token %d after %q is forced or free, and not allowed", next, tok.Decode(said, true))
				break
			}
			said = append(said, next)
			if err := constraint.Accept(next); err != nil {
				t.Error(err)
			}
			if err := constraint.Accept(next); err == nil { // taken back at once
				constraint.Rollback(1)
			}
		}
		r.sayTokens(said, 0)
	}
}

func TestBudgetsEndThoughts(t *testing.T) {
	for _, c := range []struct {
		name, template, says, fields string
		thought, text                string
		tokens                       int
	}{
		{"38 spent", thinkTemplate, "0123456789 and so on", `"thinking_token_budget":10`, "0123456789", "and so on", 10 + len("</think>")},
		{"none", thinkTemplate, "Hello", `"thinking_budget_tokens":0`, "", "Hello", len("</think>")},
		{"enough", thinkTemplate, "Hm.</think>Hello", `"thinking_token_budget":100`, "Hm.", "Hello", len("Hm.</think>")},
		{"a rune is not cut", thinkTemplate, "012éé", `"thinking_token_budget":4`, "012é", "é", 5 + len("</think>")},
		{"a marker that the text has begun", thinkTemplate, "Hm</thi, no", `"thinking_token_budget":7`, "Hm</thi", ", no", 7 + len("</think>")},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &fakeBackend{script: obey(t, c.says)}
			r := newRig(t, DefaultConfig(), b)
			defer r.close()
			if err := r.openai.SetModels(toolModel(t, b, c.template)); err != nil {
				t.Fatal(err)
			}
			for _, a := range []*answered{r.ask(chatWith(c.fields)), r.stream(chatWith(c.fields))} {
				if a.Reasoning != c.thought || a.text() != c.text || a.Thought != c.tokens {
					t.Errorf("got %q, %q, %d tokens of thought", a.Reasoning, a.text(), a.Thought)
				}
			}
		})
	}
}

// A thought that the model opens is bounded, and text that speaks of the marker is none.
func TestBudgetsWaitForTheThought(t *testing.T) {
	b := &fakeBackend{tok: mustTokenizer(t)}
	m := toolModel(t, b, thinkTemplate)
	for says, want := range map[string]string{
		"\n<think>abc":           "\n<think>ab",
		"The tag <think> is one": "The tag <think> is one",
		"<thin <think> is one":   "<thin <think> is one",
	} {
		c := reasoning.Bound(m, 2, false, nil)
		var said []inference.TokenID
		for i := range len(says) {
			if len(c.Forced(nil)) > 0 {
				break
			}
			id := byteToken(b.tok, says[i])
			if err := c.Accept(id); err != nil {
				t.Fatal(err)
			}
			said = append(said, id)
		}
		if got := b.tok.Decode(said, true); got != want {
			t.Errorf("%q is free until %q, want %q", says, got, want)
		}
	}
}

func TestBudgetsAreRefusedByName(t *testing.T) {
	c := DefaultConfig()
	c.Strict = true
	r := newRig(t, c, &fakeBackend{})
	defer r.close()
	for fields, param := range map[string]string{
		`"thinking_token_budget":10`:                             "thinking_token_budget", // chatML marks no thoughts
		`"thinking_token_budget":"many"`:                         "thinking_token_budget",
		`"thinking_token_budget":-2`:                             "thinking_token_budget",
		`"thinking_token_budget":10,"thinking_budget_tokens":11`: "thinking_budget_tokens",
	} {
		status, body := r.post(routeChat, chatWith(fields))
		if got, _, _ := parseError(t, body); status != 400 || got != param {
			t.Errorf("%s: %d %s", fields, status, body)
		}
	}
}

// tokensTold joins the tokens of logprobs.content of the first choice.
func tokensTold(t *testing.T, text string) string {
	t.Helper()
	var out struct {
		Choices []struct {
			Logprobs struct{ Content []struct{ Token string } }
		}
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	var b strings.Builder
	for _, c := range out.Choices {
		for _, token := range c.Logprobs.Content {
			b.WriteString(token.Token)
		}
	}
	return b.String()
}
