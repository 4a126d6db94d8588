package chat

import (
	"errors"

	"weir/tokenizer"
)

// Template is a parsed chat template, immutable and safe for concurrent use.
type Template struct {
	o Options
}

// Parse reads a chat template (tokenizer.chat_template of a GGUF file). The
// error is an *Error with the line.
func Parse(src string, o Options) (*Template, error) {
	return nil, errors.New("chat templates are not built yet")
}

// Render gives the prompt of a conversation as spans: Control for text that
// the template wrote, not Control for text that came from the client. Errors
// are *Error; those of raise_exception have Reason Raised.
func (t *Template) Render(in Input) ([]tokenizer.Span, error) {
	return nil, errors.New("chat templates are not built yet")
}

// TakesParts reports whether the template reads message content given as a
// list of parts ({"type": "text", "text": ...}). Where it does not, pass the
// messages through JoinParts first.
func (t *Template) TakesParts() bool { return false }
