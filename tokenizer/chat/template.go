package chat

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/tokenizer"
)

// Template is a parsed chat template, immutable and safe for concurrent use.
type Template struct {
	o       Options
	source  string
	body    []statement
	symbols map[string]int
	globals []Value  // by symbol id
	hidden  []symbol // local names: the input's variable of the name is not seen
	parts   bool
}

// Parse reads a chat template (tokenizer.chat_template of a GGUF file). The
// error is an *Error with the line.
func Parse(src string, o Options) (*Template, error) {
	o = o.withDefaults()
	if len(src) > o.MaxSourceBytes {
		return nil, &Error{Reason: Limit, Message: fmt.Sprintf("template of %d bytes, limit %d", len(src), o.MaxSourceBytes)}
	}
	tokens, err := tokenize(src)
	if err != nil {
		return nil, err
	}
	p := &parser{expressions: expressions{cursor: cursor{tokens: tokens}, lib: builtins(),
		symbolTable: symbolTable{symbols: map[string]int{}, seen: map[int]bool{}}}}
	t := &Template{o: o, source: src, symbols: p.symbols}
	if t.body, err = p.template(); err != nil {
		return nil, err
	}
	t.hidden = p.hidden
	t.globals = make([]Value, len(p.names))
	for i, name := range p.names {
		t.globals[i] = p.lib.globals[name]
	}
	t.parts = t.probeParts()
	return t, nil
}

// Source is the text that was parsed.
func (t *Template) Source() string { return t.source }

// Render gives the prompt of a conversation as spans: Control for text that
// the template wrote, not Control for text that came from the client.
// Neighbouring spans differ in Control. Errors are *Error; those of
// raise_exception have Reason Raised.
func (t *Template) Render(in Input) ([]tokenizer.Span, error) {
	text, err := t.render(in)
	if err != nil {
		return nil, err
	}
	var spans []tokenizer.Span
	for s, client := range text.runs() {
		spans = append(spans, tokenizer.Span{Text: s, Control: !client})
	}
	return spans, nil
}

func (t *Template) render(in Input) (Value, error) {
	tag := ""
	if in.ContinueFinalMessage {
		if in.AddGenerationPrompt {
			return Value{}, invalid("continue_final_message and add_generation_prompt exclude each other")
		}
		tag = continueTag
		var err error
		if in.Messages, err = tagLast(in.Messages); err != nil {
			return Value{}, err
		}
	}
	x, err := t.start(in)
	if err != nil {
		return Value{}, err
	}
	if _, err := x.run(t.body); err != nil {
		return Value{}, at(0, err)
	}
	text, err := x.out.value()
	if err != nil || tag == "" {
		return text, at(0, err)
	}
	return cutAtTag(text)
}

func invalid(format string, args ...any) error {
	return &Error{Reason: Invalid, Message: fmt.Sprintf(format, args...)}
}

// start makes the state of one render, with the input's variables over Jinja's
// globals.
func (t *Template) start(in Input) (*exec, error) {
	if in.Messages.kind != kindList {
		return nil, invalid("messages must be a list")
	}
	x := &exec{budget: newBudget(t.o), lib: builtins(), context: slices.Clone(t.globals), scope: &scope{}, now: in.Now}
	if x.now.IsZero() {
		x.now = time.Now()
	}
	x.out = newBuilder(x.budget)
	for _, sym := range t.hidden {
		x.scope.set(sym, undefined(sym.name))
	}
	set := func(name string, v Value) {
		if id, ok := t.symbols[name]; ok && v.kind != kindAbsent {
			x.context[id] = v
		}
	}
	set("bos_token", literal(in.BOSToken))
	set("eos_token", literal(in.EOSToken))
	if in.Extra.kind != kindAbsent {
		if in.Extra.kind != kindDict {
			return nil, invalid("chat_template_kwargs must be an object")
		}
		for _, e := range in.Extra.dict().entries {
			if slices.Contains(ownVariables, e.key.str) {
				return nil, invalid("chat_template_kwargs cannot set %s", quoted(e.key.str))
			}
			set(e.key.str, e.value)
		}
	}
	set("messages", in.Messages)
	set("tools", in.Tools)
	set("add_generation_prompt", boolean(in.AddGenerationPrompt))
	return x, nil
}

// ownVariables are set by fields of Input only. bos_token and eos_token may be
// replaced, as in transformers; they are client text then.
var ownVariables = []string{"messages", "tools", "add_generation_prompt"}

// TakesParts reports whether the template reads message content given as a
// list of parts ({"type": "text", "text": ...}). Where it does not, pass the
// messages through JoinParts first.
func (t *Template) TakesParts() bool { return t.parts }

// probeSteps bounds the probe; the templates of models take a few hundred steps.
const probeSteps = 100_000

// probeParts renders a message made of one part, and reports whether its
// text appears in the prompt as text, not inside of a printed list.
func (t *Template) probeParts() bool {
	const text = "weir-probe"
	part := &dict{}
	part.putText("type", clientText("text"))
	part.putText("text", clientText(text))
	message := &dict{}
	message.putText("role", clientText("user"))
	message.putText("content", listOf([]Value{dictOf(part)}))
	probe := *t
	probe.o.MaxSteps = min(t.o.MaxSteps, probeSteps)
	out, err := probe.render(Input{
		Messages: listOf([]Value{dictOf(message)}), AddGenerationPrompt: true, BOSToken: "<s>", EOSToken: "</s>",
		Now: time.Unix(0, 0).UTC(),
	})
	return err == nil && strings.Contains(out.str, text) && !strings.Contains(out.str, "'"+text) &&
		!strings.Contains(out.str, `"`+text)
}
