package openai

import (
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/tokenizer"
	"weir/tokenizer/family"
)

// reading says how answers to the chat are taken apart, whose prompt was rendered as
// spans; nil where they are text as they come: their model marks no thoughts and the
// request has no tools, or the client asked for all tokens as text.
func (p *chatPrompt) reading(m *models.Model, spans []tokenizer.Span, q *params.Params) *reading {
	if m.Family == nil || !p.tools.Has() && q.Special {
		return nil
	}
	opening := m.Family.Opening(spans)
	marked := m.Family.Thinks || opening.Thinking
	if !marked && !p.tools.Has() {
		return nil
	}
	return &reading{
		family: m.Family, thinks: marked, hidden: q.HideReasoning, tools: p.tools, budget: -1,
		options: family.Options{Tools: p.tools.Tools, Choice: p.tools.Choice, Opening: opening, IDs: randomLetters},
	}
}
