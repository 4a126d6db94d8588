package family

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/tokenizer/grammar"
	"weir/tokenizer/grammar/regex"
)

// Rules is what the grammar of an answer depends on besides the family.
type Rules struct {
	Tools   []Tool
	Choice  Choice
	Opening Opening
	Thought bool // the answer may begin with a thought, where the prompt has not opened one, or closed one before an answer that is bound
	// Body is the rule of the answer's own text, nil where the text is free.
	Body *grammar.Symbol
	// Schema adds the rules of a JSON value that fits a schema; strict refuses keywords that it cannot enforce.
	Schema func(b *grammar.Builder, schema []byte, strict bool) (grammar.Symbol, error)
	// Control reports whether a text is a control token of the vocabulary; nil: the markup is plain text.
	Control func(text string) bool
	// Loose is told of a tool whose schema cannot bind the arguments, which may then be any. nil, and tools that are strict: the
	// schema's error is Grammar's.
	Loose func(t *Tool, err error)
}

// Grammar adds the rules of an answer: a thought where one may stand or is open, then text or calls as the choice asks. In mode Auto
// calls are lazy: text is free up to the first opener, and from there on it must be a call, as the family's models write it. A call may stand in an
// open thought, too, and ends it. After the calls the answer ends.
//
// Arguments are JSON by Rules.Schema. Families that write them otherwise take the properties of the tool's schema in their order, and
// strings as raw text.
func (f *Family) Grammar(b *grammar.Builder, r Rules) (grammar.Symbol, error) {
	g := builder{f: f, b: b, r: r, layout: f.layout, values: make(map[string][]grammar.Symbol)}
	g.tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t Tool) bool {
		return len(r.Choice.Names) > 0 && !slices.Contains(r.Choice.Names, t.Name)
	})
	if r.Choice.Mode == Required && len(g.tools) == 0 {
		return 0, errors.New("a call is required, but no tool of the request may be called; add the tool, or allow text")
	}
	if r.Choice.Mode == None {
		g.tools = nil
	}
	if f.calls.messages != nil {
		return g.messages()
	}
	answer, err := g.answer()
	if err != nil {
		return 0, err
	}
	return g.thought(answer), nil
}

// builder adds the rules of one answer.
type builder struct {
	f      *Family
	b      *grammar.Builder
	r      Rules
	layout layout
	tools  []Tool
	inside []grammar.Symbol            // calls as they end a thought that is open; nil: none can
	values map[string][]grammar.Symbol // the arguments of the tools that have rules
}

// thought puts what may come before the answer in front of it.
func (g *builder) thought(answer grammar.Symbol) grammar.Symbol {
	t := g.f.thought
	if t == nil {
		return answer
	}
	blanks := g.b.Regex(regex.Repeat(regex.Words("\n", " "), 0, 4))
	texts := g.f.calls.texts
	free := g.without(append(slices.Clone(texts), t.close)...)
	rest := g.b.Define("thought", slices.Concat([]grammar.Symbol{free}, g.text(t.close), []grammar.Symbol{blanks, answer}))
	if g.inside != nil {
		g.b.Add(rest, g.inside)
	}
	if g.r.Choice.Mode != Required {
		for _, begin := range texts {
			g.b.Add(rest, slices.Concat([]grammar.Symbol{free}, g.text(begin), []grammar.Symbol{answer}))
		}
	}
	switch {
	case g.r.Opening.Thinking:
		return rest
	case g.r.Opening.Thought && g.bound():
		return answer
	case g.r.Thought && !t.implicit:
		front := append([]grammar.Symbol{blanks}, g.text(t.open)...)
		return g.b.Define("thought and answer", []grammar.Symbol{answer}, append(front, rest))
	}
	return answer
}

// bound reports whether the whole answer behind the thought is bound, so that it could otherwise never end for a thought.
func (g *builder) bound() bool { return g.r.Body != nil || g.r.Choice.Mode == Required }

// endThought notes that the calls may stand in a thought that the model does not close, where an opener is their beginning. Free text of the
// thought may hold openers, too, so a thought that only mentions them goes on.
func (g *builder) endThought(calls grammar.Symbol) {
	t, m := g.f.thought, g.f.calls
	openers := slices.Concat(m.sections, m.openers)
	front := g.layout.begin + g.layout.open
	if t == nil || !slices.ContainsFunc(openers, func(o string) bool { return strings.HasPrefix(front, o) }) {
		return
	}
	text := g.without(slices.Concat(openers, m.texts, []string{t.close})...)
	g.inside = []grammar.Symbol{text, calls, g.b.Regex(regex.Repeat(regex.Words("\n", " "), 0, 2))}
}

// answer is what follows the thought.
func (g *builder) answer() (grammar.Symbol, error) {
	l := &g.layout
	// A prompt that ends with the opener's beginning leaves the rest of it to the answer.
	l.open = strings.TrimPrefix(l.open, g.r.Opening.Markup)
	contentOpen := strings.TrimPrefix(l.contentOpen, g.r.Opening.Markup)
	if len(g.tools) == 0 {
		return g.b.Define("text", append(g.text(contentOpen), g.body(nil))), nil
	}
	calls, err := g.calls()
	if err != nil {
		return 0, err
	}
	g.endThought(calls)
	if g.r.Choice.Mode == Required {
		return calls, nil
	}
	if g.r.Body != nil {
		return g.b.Define("answer", append(g.text(contentOpen), *g.r.Body), []grammar.Symbol{calls}), nil
	}
	return g.lazy(calls, contentOpen), nil
}

// body is the answer's own text: the request's rule, or free text without the triggers.
func (g *builder) body(triggers []string) grammar.Symbol {
	if g.r.Body != nil {
		return *g.r.Body
	}
	return g.without(triggers...)
}

// lazy is text up to the first trigger, and calls from there on, with the white space that models put behind them.
func (g *builder) lazy(calls grammar.Symbol, contentOpen string) grammar.Symbol {
	tail := g.b.Regex(regex.Repeat(regex.Words("\n", " "), 0, 2))
	if len(g.f.calls.lines) > 0 && g.layout.style != styleGemma {
		return g.lazyLines(calls, tail)
	}
	openers := regex.Without(slices.Concat(g.f.calls.sections, g.f.calls.openers)...)
	u := g.unmarked()
	plain := u.without(openers)
	text := append(g.text(contentOpen), g.free(plain)...)
	if contentOpen != "" { // text and calls are messages of their own
		again, err := g.again()
		if err != nil {
			g.b.Fail(err)
		}
		return g.b.Define("answer", text, slices.Concat(text, []grammar.Symbol{again, tail}), []grammar.Symbol{calls, tail})
	}
	answer := g.b.Define("answer", text, append(slices.Clone(text), calls, tail))
	if u != nil {
		g.b.Add(answer, slices.Concat(text[:len(text)-1], []grammar.Symbol{g.b.Regex(u.before(plain)), u.calls, tail}))
	}
	return answer
}

// lazyLines is lazy for families whose calls need no opener: such a call stands at the beginning of a line. One with an opener may
// stand anywhere.
func (g *builder) lazyLines(calls, tail grammar.Symbol) grammar.Symbol {
	openers := g.f.calls.openers
	anything := regex.Not(regex.Nothing())
	line := regex.Or(regex.Empty(), regex.Concat(anything, regex.Literal("\n")))
	bare := regex.Not(regex.Concat(line, regex.Words(g.lineStarts()...), anything))
	u := g.unmarked()
	text := u.without(regex.And(regex.AnyText(), bare, regex.Without(openers...)))
	free := g.b.Regex(text)
	answer := g.b.Define("answer", []grammar.Symbol{free})
	if u != nil {
		g.b.Add(answer, []grammar.Symbol{g.b.Regex(u.before(text)), u.calls, tail})
	}
	if slices.ContainsFunc(openers, func(o string) bool { return strings.HasPrefix(g.layout.begin, o) }) {
		g.b.Add(answer, []grammar.Symbol{free, calls, tail})
		return answer
	}
	g.b.Add(answer, []grammar.Symbol{g.b.Regex(regex.And(text, line)), calls, tail})
	for _, o := range openers {
		g.b.Add(answer, slices.Concat([]grammar.Symbol{free}, g.text(o), []grammar.Symbol{calls, tail}))
	}
	return answer
}

// free is text, whose last piece is the last symbol. Between its pieces stand the control tokens that models of the family put around text, and
// thoughts where they may open behind text; other control tokens are none.
func (g *builder) free(plain *regex.Regex) []grammar.Symbol {
	text := g.b.Regex(plain)
	var between [][]grammar.Symbol
	for _, d := range g.f.calls.dropped {
		if _, n := g.control(d); n > 0 {
			between = append(between, g.text(d))
		}
	}
	if t := g.f.thought; t != nil && t.anywhere && g.r.Thought {
		if _, n := g.control(t.open); n > 0 {
			between = append(between, slices.Concat(g.text(t.open), []grammar.Symbol{g.without(t.close)}, g.text(t.close)))
		}
	}
	if len(between) == 0 {
		return []grammar.Symbol{text}
	}
	piece := g.b.Define("piece of text", []grammar.Symbol{text, g.b.Define("between", between...)})
	return []grammar.Symbol{g.b.Repeat(piece, 0, -1), text}
}

// again is the calls behind text where the prompt has opened the first message only.
func (g *builder) again() (grammar.Symbol, error) {
	h := *g
	h.layout.open = g.f.layout.open
	return h.calls()
}

// lineStarts are the texts that begin a call without an opener at the beginning of a line.
func (g *builder) lineStarts() []string {
	var list []string
	for _, t := range g.tools {
		if g.layout.style == stylePython {
			list = append(list, "["+t.Name+"(")
			continue
		}
		front := g.layout.open + t.Name
		list = append(list, strings.Replace(front, kindMark, "", 1), strings.Replace(front, kindMark, typeOfCall, 1))
	}
	return list
}

// without is free text that holds none of the texts. That includes control tokens spelled out in letters: the parser reads bytes.
func (g *builder) without(texts ...string) grammar.Symbol {
	return g.b.Regex(regex.Without(texts...))
}

// text is markup as terminals: control tokens where the vocabulary has them, text between them.
func (g *builder) text(markup string) []grammar.Symbol {
	var list []grammar.Symbol
	add := func(text string) {
		for text != "" {
			at := strings.IndexAny(text, indexMark+lineMark+idMark+kindMark)
			if at < 0 {
				list = append(list, g.b.Literal(text))
				return
			}
			if at > 0 {
				list = append(list, g.b.Literal(text[:at]))
			}
			list = append(list, g.b.Regex(markRegex(text[at:at+1])))
			text = text[at+1:]
		}
	}
	for markup != "" {
		at, n := g.control(markup)
		add(markup[:at])
		if n > 0 {
			list = append(list, g.b.Token(markup[at:at+n]))
		}
		markup = markup[at+n:]
	}
	return list
}

func markRegex(mark string) *regex.Regex {
	digit := regex.ByteRange('0', '9')
	switch mark {
	case indexMark:
		return regex.Repeat(digit, 1, 3)
	case kindMark:
		return regex.Optional(regex.Literal(typeOfCall))
	case idMark:
		return regex.Repeat(regex.Or(digit, regex.ByteRange('a', 'z'), regex.ByteRange('A', 'Z')), 9, 9)
	}
	return regex.Optional(regex.Literal("\n"))
}

// control finds the first control token in markup.
func (g *builder) control(markup string) (at, n int) { return grammar.FindControl(markup, g.r.Control) }

// calls is one call or more.
func (g *builder) calls() (grammar.Symbol, error) {
	one := g.b.Rule("call")
	for i := range g.tools {
		t := &g.tools[i]
		arguments, err := g.argumentsOf(t)
		if err != nil {
			return 0, err
		}
		call := g.text(g.layout.open + t.Name + strings.ReplaceAll(g.layout.mid, keyMark, t.Name))
		g.b.Add(one, slices.Concat(call, arguments, g.text(g.layout.close)))
	}
	list := slices.Concat(g.text(g.layout.begin), []grammar.Symbol{one})
	if g.r.Choice.Parallel && !g.layout.single {
		next := one
		if g.layout.open != g.f.layout.open { // the prompt has begun the first call only
			h := *g
			h.layout.open = g.f.layout.open
			h.r.Choice.Parallel = false
			var err error
			if next, err = h.calls(); err != nil {
				return 0, err
			}
		}
		further := g.b.Define("further call", append(g.text(g.layout.sep), next))
		list = append(list, g.b.Repeat(further, 0, -1))
	}
	return g.b.Define("calls", append(list, g.text(g.layout.end)...)), nil
}

// argumentsOf are the rules of a tool's arguments, which are any where its schema cannot bind them and need not.
func (g *builder) argumentsOf(t *Tool) ([]grammar.Symbol, error) {
	if made, ok := g.values[t.Name]; ok {
		return made, nil
	}
	list, err := g.arguments(t)
	if err != nil && g.r.Loose != nil && !t.Strict {
		g.r.Loose(t, err)
		list, err = g.anyArguments()
	}
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", t.Name, err)
	}
	g.values[t.Name] = list
	return list, nil
}
