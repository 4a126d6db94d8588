package openai

import (
	"bytes"

	"weir/api/edge"
	"weir/api/openai/answer"
)

const tokenBytes = 4 // of an id

// texts are those of the generation where its tenant agreed that they are kept, else
// nil.
func (g *generation) texts() *edge.Texts {
	if !g.job.Tenant.LogPrompts {
		return nil
	}
	t := &edge.Texts{Prompts: g.job.PromptTexts, PromptBytes: tokenBytes * g.job.PromptTokens()}
	for _, c := range g.choices {
		t.Answers = append(t.Answers, c.said())
	}
	return t
}

// keep remembers what is given to the client, for texts: thoughts, text, and calls as
// the name and the arguments.
func (c *choice) keep(d *answer.Delta) {
	if !c.job.KeepsTexts {
		return
	}
	c.kept = append(append(c.kept, d.Reasoning...), d.Content...)
	for i := range d.Calls {
		p := &d.Calls[i]
		if p.Begins() {
			c.kept = append(append(c.kept, p.Name...), ' ')
		}
		c.kept = append(c.kept, p.Arguments...)
	}
}

// said is what was kept of the answer, and text that nobody has taken.
func (c *choice) said() string {
	kept := bytes.Clone(c.kept)
	if c.reader != nil {
		kept = append(kept, c.reader.thought...)
	}
	return string(append(kept, c.text...))
}

// saysNothing reports whether neither text nor a call was generated.
func (c *choice) saysNothing() bool {
	return c.received.Bytes == 0 && (c.reader == nil || c.reader.parser.Calls() == 0)
}
