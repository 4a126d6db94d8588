package chunk

import (
	"bytes"
	"slices"
)

// typed is where an event of Responses or Messages, or a whole answer of theirs, has what the model wrote. It is read once
// the type is known, which may stand behind the rest.
type typed struct {
	kind, object Span // JSON strings

	delta  Span // the next piece
	opened Span // a block or an item that begins
	parts  Span // of a whole answer
}

// read reads the texts that the type says are the model's. They are of choice 0.
func (t *typed) read(s *skimmer, c *Chunk) {
	kind := bytes.Trim(t.kind.Of(s.b), `"`)
	switch {
	case s.bad:
	case isDelta(kind):
		s.again(t.delta, c, (*skimmer).words)
	case string(kind) == "content_block_start", string(kind) == "response.output_item.added":
		s.again(t.opened, c, (*skimmer).words)
	case string(kind) == "message", string(t.object.Of(s.b)) == `"response"`:
		s.again(t.parts, c, func(s *skimmer, c *Chunk) { s.calls(c, false) })
	}
}

// isDelta reports whether events of a type bring a piece of text. The pieces of a sound are no text.
func isDelta(kind []byte) bool {
	return string(kind) == "content_block_delta" ||
		bytes.HasPrefix(kind, []byte("response.")) && bytes.HasSuffix(kind, []byte(".delta")) && !bytes.HasSuffix(kind, []byte("audio.delta"))
}

// again reads a value that was gone over.
func (s *skimmer) again(at Span, c *Chunk, read func(*skimmer, *Chunk)) {
	if at.IsEmpty() {
		return
	}
	end := s.i
	s.i = at.From
	read(s, c)
	s.i = end
}

// words reads a text, or the fields of an object that are texts of the model. What a tool of the server has said stands deeper.
func (s *skimmer) words(c *Chunk) {
	switch s.space() {
	case '"':
		s.calls(c, true)
	case '{':
		for f := s.open('{'); s.field(&f); {
			if slices.Contains(wordFields, string(f.name)) && s.space() == '"' {
				s.calls(c, true)
			} else {
				s.value()
			}
		}
	default:
		s.value()
	}
}
