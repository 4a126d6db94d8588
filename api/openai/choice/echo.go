package choice

import (
	"unicode/utf8"

	"weir/api/openai/answer"
)

// A completion with echo begins with its prompt: the text, and with logprobs
// the prompt's tokens. Both are put before the first of the choice's own, so
// that they leave together with the first token.

// echo puts the prompt before what the choice has. It is called when the
// first news of the choice came.
func (c *Choice) echo() {
	p := &c.job.Prompts[c.prompt]
	var records []answer.TokenRecord
	if c.job.Params.Logprobs {
		records = c.promptRecords()
	}
	c.out.prepend(p.Text, records)
}

// promptRecords gives the prompt's tokens their places in the echoed text.
// The text of the tokens may be longer at the front than the prompt: some
// vocabularies begin a text with a space of their own.
func (c *Choice) promptRecords() []answer.TokenRecord {
	j := c.job
	records := append([]answer.TokenRecord(nil), c.stream.Prompt...)
	d := j.Model.Tokenizer.NewDecoder(j.Params.Special)
	var piece []byte
	runes := 0
	for k := range records {
		records[k].Start = answer.Position{Runes: runes}
		records[k].Top = records[k].Top[:min(len(records[k].Top), max(0, j.Params.Sampling.Logprobs))] // prompt_logprobs may have more
		piece = d.Append(piece[:0], records[k].ID)
		runes += utf8.RuneCount(piece)
	}
	extra := max(0, runes+utf8.RuneCount(d.Flush(nil))-utf8.RuneCountInString(j.Prompts[c.prompt].Text))
	for k := range records {
		records[k].Start.Runes = max(0, records[k].Start.Runes-extra)
	}
	return records
}
