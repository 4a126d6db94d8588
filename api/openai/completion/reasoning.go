package completion

import (
	"weir/api/openai/job"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/tokenizer"
	"weir/tokenizer/family"
)

// reading says how answers to the chat are taken apart, whose prompt was rendered as
// spans; nil where they are text as they come: their model marks no thoughts and the
// request has no tools, or the client asked for all tokens as text.
func (p *ChatPrompt) reading(m *models.Model, spans []tokenizer.Span, q *params.Params) *job.Reading {
	if m.Family == nil || !p.tools.Has() && q.Special {
		return nil
	}
	opening := m.Family.Opening(spans)
	marked := m.Family.Thinks || opening.Thinking
	if !marked && !p.tools.Has() {
		return nil
	}
	return &job.Reading{
		Family: m.Family, Thinks: marked, Hidden: q.HideReasoning, Tools: p.tools, Budget: -1,
		Options: family.Options{Tools: p.tools.Tools, Choice: p.tools.Choice, Opening: opening, IDs: job.RandomLetters},
	}
}
