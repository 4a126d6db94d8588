package generation

import (
	"weir/api/edge"
)

const tokenBytes = 4 // of an id

// texts are those of the generation where its tenant agreed that they are kept, else
// nil.
func (g *Generation) texts() *edge.Texts {
	if !g.Job.Tenant.LogPrompts {
		return nil
	}
	t := &edge.Texts{Prompts: g.Job.PromptTexts, PromptBytes: tokenBytes * g.Job.PromptTokens()}
	for _, c := range g.choices {
		t.Answers = append(t.Answers, c.Said())
	}
	return t
}
