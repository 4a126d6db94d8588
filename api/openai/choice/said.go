package choice

import (
	"bytes"

	"weir/api/openai/answer"
)

// keep remembers what is given to the client, for texts: thoughts, text, and calls as
// the name and the arguments.
func (c *Choice) keep(d *answer.Delta) {
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

// Said is what was kept of the answer, and text that was not taken yet.
func (c *Choice) Said() string {
	kept := bytes.Clone(c.kept)
	if c.reader != nil {
		kept = append(kept, c.reader.thought...)
	}
	return string(append(kept, c.out.text...))
}

// SaysNothing reports whether neither text nor a call was generated.
func (c *Choice) SaysNothing() bool {
	return c.out.received.Bytes == 0 && (c.reader == nil || c.reader.parser.Calls() == 0)
}
