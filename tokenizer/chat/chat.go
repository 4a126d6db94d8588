// Package chat renders chat templates: the Jinja programs that published models
// carry to turn a list of messages into the prompt they were trained on. Output
// equals, byte for byte, what Jinja2 gives when set up as Hugging Face
// transformers does (trim_blocks, lstrip_blocks, loop controls, an immutable
// sandbox, json.dumps for tojson, strftime_now, raise_exception).
//
// Every byte of the output is marked as written by the template or by the
// client, through every filter and method, so that client text can never
// become a control token: Render returns the prompt as spans, and only
// template text is Control.
//
// A Template is immutable: parse once, render from any number of goroutines.
// Rendering is bounded in steps, memory and recursion by Options.
package chat

import (
	"strings"
	"time"

	"weir/tokenizer"
)

// Options bound what a template may cost. Zero fields take the default.
type Options struct {
	MaxSourceBytes int // template text; default 1 MiB
	MaxSteps       int // expressions and statements evaluated, plus one per 64 bytes of text handled; default 10 million
	MaxOutputBytes int // the prompt, and any single string on the way; default 32 MiB
	MaxMemoryBytes int // all strings and list items that one render makes, summed; default 256 MiB
	MaxDepth       int // nesting of expressions, macro calls and values; default 1000
}

func (o Options) withDefaults() Options {
	set := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&o.MaxSourceBytes, 1<<20)
	set(&o.MaxSteps, 10_000_000)
	set(&o.MaxOutputBytes, 32<<20)
	set(&o.MaxMemoryBytes, 256<<20)
	set(&o.MaxDepth, 1000)
	return o
}

// Input is one conversation to render. Values that come from FromJSON are
// client text; BOSToken and EOSToken come from the model and are control text.
type Input struct {
	Messages            Value // a list of objects with "role" and "content"
	Tools               Value // a list of tool definitions; the zero Value is none
	AddGenerationPrompt bool
	// ContinueFinalMessage cuts the prompt right after the last message's
	// content, so that the model continues that message. It excludes
	// AddGenerationPrompt.
	ContinueFinalMessage bool
	Now                  time.Time // what strftime_now sees; zero is the time of the call
	Extra                Value     // chat_template_kwargs: an object of further variables; the zero Value is none
	BOSToken, EOSToken   string    // text of the model's beginning and end tokens; "" when it has none
}

// Text joins the text of spans.
func Text(spans []tokenizer.Span) string {
	var b strings.Builder
	for _, s := range spans {
		b.WriteString(s.Text)
	}
	return b.String()
}
