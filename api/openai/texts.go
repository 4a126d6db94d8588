package openai

import (
	"bytes"

	"weir/api/edge"
	"weir/api/openai/answer"
	"weir/tokenizer"
)

const tokenBytes = 4 // of an id

// texts are those of the generation where its tenant agreed that they are kept, else
// nil.
func (g *generation) texts() *edge.Texts {
	if !g.job.tenant.LogPrompts {
		return nil
	}
	t := &edge.Texts{Prompts: g.job.promptTexts, PromptBytes: tokenBytes * g.job.promptTokens()}
	for _, c := range g.choices {
		t.Answers = append(t.Answers, c.said())
	}
	return t
}

// promptTexts are the prompts as the model reads them, decoded anew.
func (j *job) promptTexts() []string {
	ids := make([][]int32, len(j.prompts))
	for i := range j.prompts {
		ids[i] = j.prompts[i].ids
	}
	return decodeAll(j.model.Tokenizer, ids)
}

// decodeAll gives the texts of ids, control tokens included.
func decodeAll(t *tokenizer.Tokenizer, ids [][]int32) []string {
	texts := make([]string, len(ids))
	for i := range ids {
		var text []byte
		d := t.NewDecoder(true)
		for _, id := range ids[i] {
			text = d.Append(text, id)
		}
		texts[i] = string(d.Flush(text))
	}
	return texts
}

// keep remembers what is given to the client, for texts: thoughts, text, and calls as
// the name and the arguments.
func (c *choice) keep(d *answer.Delta) {
	if !c.job.keepsTexts {
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
