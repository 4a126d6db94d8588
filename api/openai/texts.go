package openai

import (
	"weir/tokenizer"
)

// Texts are what a request of a tenant with LogPrompts asked and was answered, as they
// were: whoever keeps them scrubs them first.
type Texts struct {
	Answers []string // of all choices; those of one prompt stand together

	prompts   []prompt
	tokenizer *tokenizer.Tokenizer
}

// Prompts are the prompts as the model read them. It takes the time of decoding them:
// hooks call it later, on a goroutine of their own.
func (t *Texts) Prompts() []string {
	texts := make([]string, len(t.prompts))
	for i, p := range t.prompts {
		var text []byte
		d := t.tokenizer.NewDecoder(true)
		for _, id := range p.ids {
			text = d.Append(text, id)
		}
		texts[i] = string(d.Flush(text))
	}
	return texts
}

// Bytes is about what the texts hold in memory.
func (t *Texts) Bytes() (bytes int) {
	const tokenBytes = 4
	for _, p := range t.prompts {
		bytes += tokenBytes * len(p.ids)
	}
	for _, text := range t.Answers {
		bytes += len(text)
	}
	return bytes
}

// texts are those of the generation where its tenant agreed that they are kept, else
// nil.
func (g *generation) texts() *Texts {
	if !g.job.keepsTexts {
		return nil
	}
	t := &Texts{prompts: g.job.prompts, tokenizer: g.job.model.Tokenizer}
	for _, c := range g.choices {
		t.Answers = append(t.Answers, string(append(c.kept, c.text...)))
	}
	return t
}

// keep remembers text that is given to the client, for texts.
func (c *choice) keep(text []byte) {
	if c.job.keepsTexts {
		c.kept = append(c.kept, text...)
	}
}
