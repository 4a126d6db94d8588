package openai

import (
	"weir/api/edge"
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
		t.Answers = append(t.Answers, string(append(c.kept, c.text...)))
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

// keep remembers text that is given to the client, for texts.
func (c *choice) keep(text []byte) {
	if c.job.keepsTexts {
		c.kept = append(c.kept, text...)
	}
}
