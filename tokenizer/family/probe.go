package family

import (
	"cmp"
	"strings"
	"time"

	"weir/tokenizer/chat"
)

// What the probes say. None of these words stands in a published template.
const (
	probeTool     = "probe_zephyr"
	probeKey      = "quux"
	probeValue    = "xyzzy"
	probeQuestion = "plugh?"
	probeThought  = "plover"
	probeText     = "frotz"

	probeArguments = `{"` + probeKey + `":"` + probeValue + `"}`
)

// probe is a conversation that shows how a template writes tools and calls.
type probe struct {
	tools   bool
	calls   int
	text    bool   // arguments as JSON text
	null    bool   // the answer's content is null, not empty
	results bool   // the calls' results follow
	thought bool   // thoughts are asked for, and the answer has one
	named   string // the field of the thought; "": reasoning_content
	content string // of the answer
}

// probes are the forms of a history with a call that templates ask for.
var probes = []probe{
	{tools: true, calls: 1}, {tools: true, calls: 1, null: true}, {tools: true, calls: 1, results: true},
	{tools: true, calls: 1, null: true, results: true}, {tools: true, calls: 1, text: true}, {tools: true, calls: 1, text: true, null: true},
}

// prompt renders the question alone.
func (p probe) prompt(t *chat.Template) (string, error) {
	p.calls = 0
	return p.render(t, p.messages("", 0), true)
}

// history renders the answer with its calls.
func (p probe) history(t *chat.Template) (string, error) {
	return p.render(t, p.messages(probeArguments, p.calls), false)
}

func (p probe) render(t *chat.Template, messages string, prompt bool) (string, error) {
	variables := ""
	if p.thought {
		variables = `{"enable_thinking":true,"thinking":true}`
	}
	return render(t, messages, p.list(), variables, prompt)
}

// answer cuts the answer with calls out of a history: what the template wrote after the part that a prompt for it has, too.
func (p probe) answer(t *chat.Template, f *Family) (string, Opening, error) {
	return cutAnswer(t, f, p.messages("", 0), p.messages(probeArguments, p.calls), p.list())
}

func (p probe) list() string {
	if !p.tools {
		return ""
	}
	return `[{"type":"function","function":{"name":"` + probeTool + `","description":"d","parameters":{"type":"object","properties":{"` +
		probeKey + `":{"type":"string","description":"d"}},"required":["` + probeKey + `"]}}}]`
}

func (p probe) messages(arguments string, calls int) string {
	messages := `[{"role":"user","content":"` + probeQuestion + `"}`
	if calls == 0 {
		return messages + "]"
	}
	if p.text {
		arguments = string(marshal(arguments))
	}
	content := `"` + p.content + `"`
	if p.null {
		content = "null"
	}
	if p.thought {
		content += `,"` + cmp.Or(p.named, thoughtFields[0]) + `":"` + probeThought + `"`
	}
	var list, results []string
	for i := range calls {
		id := `"a1b2c3d4` + string(rune('0'+i)) + `"`
		list = append(list, `{"id":`+id+`,"type":"function","function":{"name":"`+probeTool+`","arguments":`+arguments+`}}`)
		results = append(results, `{"role":"tool","tool_call_id":`+id+`,"name":"`+probeTool+`","content":"r"}`)
	}
	messages += `,{"role":"assistant","content":` + content + `,"tool_calls":[` + strings.Join(list, ",") + `]}`
	if p.results {
		messages += "," + strings.Join(results, ",")
	}
	return messages + "]"
}

// cutAnswer renders a question and the same with an answer, and gives what the answer added, with what the prompt had begun of it.
func cutAnswer(t *chat.Template, f *Family, question, answered, tools string) (string, Opening, error) {
	prompt, err := render(t, question, tools, "", true)
	if err != nil {
		return "", Opening{}, err
	}
	all, err := render(t, answered, tools, "", false)
	if err != nil {
		return "", Opening{}, err
	}
	at := 0
	for at < min(len(prompt), len(all)) && prompt[at] == all[at] {
		at++
	}
	at = f.calls.boundary(all, at)
	tail := all[:at]
	if i := strings.LastIndex(tail, probeQuestion); i >= 0 {
		tail = tail[i:]
	}
	o := f.openingOf(tail)
	if o.Thinking && f.thought != nil && !strings.Contains(all[at:], f.thought.close) {
		o.Thinking = false // earlier answers stand without their thoughts
	}
	return all[at:], o, nil
}

// boundary is the place at or before at that no marker of the family stands across.
func (m *markup) boundary(text string, at int) int {
	for moved := true; moved; {
		moved = false
		for _, k := range m.known {
			from := max(0, at-len(k)+1)
			if i := strings.Index(text[from:min(len(text), at+len(k)-1)], k); i >= 0 {
				at, moved = from+i, true
			}
		}
	}
	return at
}

func render(t *chat.Template, messages, tools, variables string, prompt bool) (string, error) {
	in := chat.Input{AddGenerationPrompt: prompt, Now: time.Unix(0, 0).UTC(), BOSToken: "<s>", EOSToken: "</s>"}
	var err error
	if in.Messages, err = chat.FromJSON([]byte(messages)); err != nil {
		return "", err
	}
	if variables != "" {
		if in.Extra, err = chat.FromJSON([]byte(variables)); err != nil {
			return "", err
		}
	}
	if tools != "" {
		if in.Tools, err = chat.FromJSON([]byte(tools)); err != nil {
			return "", err
		}
	}
	spans, err := t.Render(in)
	if err != nil {
		return "", err
	}
	return chat.Text(spans), nil
}

// thoughtFields are the fields in which templates read the thought of an earlier answer, the usual one first.
var thoughtFields = []string{"reasoning_content", "reasoning", "thinking", "thought"}
