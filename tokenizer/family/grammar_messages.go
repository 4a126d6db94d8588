package family

import (
	"slices"
	"strings"

	"weir/tokenizer/grammar"
)

// messages is an answer that is a list of messages with a header each.
func (g *builder) messages() (grammar.Symbol, error) {
	m := g.f.calls.messages
	free := g.without(m.stops...)
	final := append(g.text(m.final), g.body(m.stops))
	if slices.Contains(m.ends, g.layout.close) {
		g.layout.close = "" // an end token of the model
	}
	answer := g.b.Rule("message")
	if g.r.Choice.Mode != Required {
		g.b.Add(answer, final)
	}
	if len(g.tools) > 0 {
		calls, err := g.calls()
		if err != nil {
			return 0, err
		}
		g.b.Add(answer, []grammar.Symbol{calls})
		if g.r.Choice.Mode == Auto && g.r.Body == nil {
			preamble := slices.Concat(g.text(m.aside), []grammar.Symbol{free}, g.text(m.end+m.next))
			g.b.Add(answer, append(preamble, calls))
		}
	}
	_, message, begun := strings.Cut(g.r.Opening.Markup, messageMark)
	switch {
	case g.r.Opening.Thinking:
		return g.b.Define("answer", slices.Concat([]grammar.Symbol{free}, g.text(m.end+m.next), []grammar.Symbol{answer})), nil
	case begun && message != "":
		return g.body(m.stops), nil
	}
	if g.r.Thought {
		thought := slices.Concat(g.text(m.thought), []grammar.Symbol{free}, g.text(m.end+m.next))
		return g.b.Define("answer", []grammar.Symbol{answer}, append(thought, answer)), nil
	}
	return answer, nil
}
