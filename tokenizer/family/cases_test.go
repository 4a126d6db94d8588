package family

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/reference"
	"weir/tokenizer"
	"weir/tokenizer/chat"
)

// chatCase is one of llama.cpp's tests: what a model wrote after a template's prompt, and what it must be read as.
type chatCase struct {
	Template  string
	Input     string
	Partial   bool `json:"is_partial"`
	Thinking  bool `json:"enable_thinking"`
	Reasoning int  `json:"reasoning_format"` // 0 leaves the thought in the content
	Prompt    bool `json:"agp"`              // false: the input continues a message of which the case tells only what came of all
	Tools     []struct{ Name, Description, Parameters string }
	Expect    struct {
		Content, Reasoning string
		Calls              []expectedCall
	}
}

type expectedCall struct{ Name, Arguments string }

func chatCases(t *testing.T) []chatCase {
	t.Helper()
	file, err := os.Open(reference.Path(t, "testdata/chat-cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var list []chatCase
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var c chatCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

// caseTemplates are those that the cases name.
func caseTemplates(t *testing.T) map[string]*chat.Template {
	t.Helper()
	all := published(t)
	files, err := filepath.Glob(filepath.Join(reference.Path(t, "testdata/chat-templates"), "*.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".jinja")
		if all[name], err = chat.Parse(string(source), chat.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// otherwise are the cases that are read another way here, by template and a piece of the input, in which $ is its end, and why.
var otherwise = []struct{ template, input, why string }{
	{"Cohere2MoE", `"tool_name": "special_function", $`, "a call is told once its arguments have begun: what has come may still be no call"},
	{"llama-cpp-deepseek-r1", "<｜tool▁calls▁begin｜>", "the template cannot be rendered with tools, by Jinja2 neither"},
	{"meta-llama-Llama-3.1-8B-Instruct", "```json", "a schema binds the answer token by token, so no fence can stand around it"},
	{"openai-gpt-oss-120b", "to=container.exec", "a call whose arguments are no JSON is told as text, not dropped"},
	{"openai-gpt-oss-120b", "to=python", "a call whose arguments are no JSON is told as text, not dropped"},
}

// TestChatCases reads what models wrote as llama.cpp's own tests expect it, whole, cut in two at every byte, and byte by byte.
func TestChatCases(t *testing.T) {
	templates := caseTemplates(t)
	agree, used := 0, make([]int, len(otherwise))
	list := chatCases(t)
	for _, c := range list {
		got, err := c.read(t, templates[c.Template])
		same := err == nil && c.agrees(got)
		if same {
			agree++
		}
		excused := false
		for i, o := range otherwise {
			if o.template == c.Template && strings.Contains(c.Input+"$", o.input) {
				excused = true
				used[i]++
			}
		}
		switch {
		case same && excused:
			t.Errorf("%s: %q agrees: take it off the list of those that do not", c.Template, c.Input)
		case !same && !excused:
			t.Errorf("%s: %q: %v\n got %s\nwant R(%s)T(%s) %v", c.Template, c.Input, err, show(got.parts), c.Expect.Reasoning, c.Expect.Content, c.Expect.Calls)
		}
	}
	for i, n := range used {
		if n != 1 {
			t.Errorf("%d cases are %q of %s", n, otherwise[i].input, otherwise[i].template)
		}
	}
	t.Logf("%d of %d cases agree", agree, len(list))
}

// answer is a case as it was read.
type answer struct {
	family *Family
	parts  []joined
}

// read reads the input. An answer that is not whole yet is what a stream has told so far.
func (c *chatCase) read(t *testing.T, template *chat.Template) (answer, error) {
	f := Detect(template)
	variables := fmt.Sprintf(`{"enable_thinking":%t}`, c.Thinking)
	if c.Template == "fireworks-ai-llama-3-firefunction-v2" { // it renders only with variables of its own, so its calls are named by hand
		var err error
		if f, err = Named(template, "functools", ""); err != nil {
			t.Fatal(err)
		}
		variables = `{"functions":"[]","datetime":"today"}`
	}
	o, err := c.options(f, template, variables)
	if err != nil {
		return answer{}, err
	}
	text := c.text(f)
	if c.Partial {
		o.Bound = true
		return answer{f, join(nil, f.NewParser(o).Append(nil, []byte(text), false))}, nil
	}
	whole := parse(f, o, text)
	want := show(whole)
	for at := range text {
		if testing.Short() && at%8 != len(text)%8 {
			continue
		}
		if got := show(parse(f, o, text[:at], text[at:])); got != want {
			t.Errorf("%s: %q cut at %d\n got %s\nwhole %s", c.Template, text, at, got, want)
		}
	}
	if got := show(parse(f, o, cutUp(text, 1)...)); got != want {
		t.Errorf("%s: %q byte by byte\n got %s\nwhole %s", c.Template, text, got, want)
	}
	return answer{f, whole}, nil
}

// options are those of the request.
func (c *chatCase) options(f *Family, template *chat.Template, variables string) (Options, error) {
	in := chat.Input{AddGenerationPrompt: true, Now: time.Unix(0, 0).UTC(), BOSToken: "<s>", EOSToken: "</s>"}
	in.Messages = fromJSON(`[{"role":"user","content":"Hey there!"}]`)
	o := Options{}
	if len(c.Tools) > 0 {
		o.Choice = Choice{Mode: Auto, Parallel: true}
		var list []any
		for _, tool := range c.Tools {
			o.Tools = append(o.Tools, Tool{Name: tool.Name, Parameters: []byte(tool.Parameters)})
			list = append(list, map[string]any{"type": "function", "function": map[string]any{
				"name": tool.Name, "description": tool.Description, "parameters": json.RawMessage(tool.Parameters)}})
		}
		in.Tools = fromJSON(string(marshal(list)))
	}
	in.Extra = fromJSON(variables)
	spans, err := template.Render(in)
	if err != nil {
		return o, err
	}
	if !c.Prompt {
		spans = append(spans, tokenizer.Span{Text: c.begun(f, spans)})
	}
	o.Opening = f.Opening(spans)
	return o, nil
}

var controlToken = regexp.MustCompile(`<\|\w+\|>`)

// text is the input without control tokens that mean nothing to the family: the parser is never given them.
func (c *chatCase) text(f *Family) string {
	return controlToken.ReplaceAllStringFunc(c.Input, func(token string) string {
		if f.calls.knows([]byte(token)) {
			return token
		}
		return ""
	})
}

func fromJSON(text string) chat.Value {
	v, err := chat.FromJSON([]byte(text))
	if err != nil {
		panic(err)
	}
	return v
}

// begun is what the message that the input continues has behind the prompt.
func (c *chatCase) begun(f *Family, prompt []tokenizer.Span) (text string) {
	open, end := f.ThoughtMarkers()
	if c.Expect.Reasoning != "" && !f.Opening(prompt).Thinking {
		text = open
	}
	if before, _, ok := strings.Cut(c.Input, end); ok && end != "" {
		return text + strings.TrimSuffix(c.Expect.Reasoning, strings.TrimSpace(before))
	}
	if c.Expect.Reasoning != "" {
		text += c.Expect.Reasoning + end + f.AfterThought(true)
	}
	return text + strings.TrimSuffix(c.Expect.Content, c.Input)
}

// agrees reports whether the answer is the expected one, except for white space around its parts and in JSON.
func (c *chatCase) agrees(a answer) bool {
	content, arguments, names := told(a.parts)
	thought := ""
	for _, p := range a.parts {
		if p.Kind == Reasoning {
			thought += p.Text
		}
	}
	wantContent, wantThought := c.expected(a.family)
	if c.Reasoning == 0 { // the expectation does not tell them apart
		thought, content = "", a.family.unmarked(thought+"\n"+content)
		wantThought, wantContent = "", a.family.unmarked(wantThought+"\n"+wantContent)
	}
	if strings.TrimSpace(content) != strings.TrimSpace(wantContent) || strings.TrimSpace(thought) != strings.TrimSpace(wantThought) {
		return false
	}
	return slices.EqualFunc(c.Expect.Calls, names, func(want expectedCall, name string) bool {
		got := arguments[0]
		arguments = arguments[1:]
		return want.Name == name && (sameJSON(got, want.Arguments) || c.Partial && strings.TrimSpace(got) == strings.TrimSpace(want.Arguments))
	})
}

// expected is what of the expectation comes from the input: not what the prompt holds of the message already.
func (c *chatCase) expected(f *Family) (content, thought string) {
	content, thought = c.Expect.Content, c.Expect.Reasoning
	open, end := f.ThoughtMarkers()
	thought = strings.TrimPrefix(thought, open)
	switch before, _, ok := strings.Cut(c.Input, end); {
	case c.Prompt:
	case ok && end != "":
		thought = strings.TrimSpace(before)
	default:
		content, thought = c.Input, ""
	}
	return content, thought
}

// unmarked is a text without markers of thoughts and white space.
func (f *Family) unmarked(text string) string {
	open, end := f.ThoughtMarkers()
	return strings.Join(strings.Fields(strings.NewReplacer(strings.TrimSpace(open), " ", strings.TrimSpace(end), " ").Replace(text)), " ")
}
