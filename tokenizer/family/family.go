// Package family knows how families of models write what is not plain text: tool calls and thoughts. One Family is one
// descriptor; Detect finds the family of a chat template and verifies it by rendering. From the descriptor come the
// incremental parser of answers (NewParser) and the grammar that an answer with tools has to follow (Grammar).
//
// The package is pure: it reads no clock, starts no goroutine and draws no random numbers. Ids of calls come from a function
// that the caller gives.
package family

import (
	"strings"

	"weir/tokenizer"
	"weir/tokenizer/grammar"
)

// Tool is a function that a model may call.
type Tool struct {
	Name        string
	Description string
	Parameters  []byte // JSON schema of the arguments; empty is an object without named properties
	Strict      bool   // arguments must follow the schema, so calls of the tool are constrained
	// Input adds the rule of the text that the tool takes as its only argument, a string named InputName, to a grammar. nil:
	// Parameters say what the arguments are.
	Input func(b *grammar.Builder, s InputSite) (grammar.Symbol, error)
}

// InputName is the argument of a tool that takes one free text.
const InputName = "input"

// InputSite says how the text of a tool's input stands in a call.
type InputSite struct {
	Quoted bool     // between the quotes of a JSON string, with its escapes; else as it is
	Ends   []string // texts that end it there, and so are no part of it
}

// Mode says whether an answer may call tools.
type Mode uint8

// The modes of a Choice.
const (
	None     Mode = iota // no calls: markup of calls passes as text
	Auto                 // the model chooses between text and calls
	Required             // at least one call
)

// Choice is what a request says about calls.
type Choice struct {
	Mode     Mode
	Names    []string // the tools that may be called; empty is all of them
	Parallel bool     // more than one call is allowed
}

// Kind says what a Part is.
type Kind uint8

// The kinds of parts. The parts of one call stand together: CallStart, CallArguments any number of times, CallEnd.
const (
	Content       Kind = iota // text for the reader
	Reasoning                 // text of the thought
	CallStart                 // a call begins: ID and Name are set
	CallArguments             // a piece of the arguments' JSON text
	CallEnd                   // the arguments are complete
)

// Part is a piece of an answer.
type Part struct {
	Kind  Kind
	Call  int    // index of the call in the answer, from 0; 0 for text
	ID    string // of a CallStart
	Name  string // of a CallStart
	Bytes []byte // whole runes; valid until the parser's next Append or Close
	// Repaired marks what Close gives of calls: a head or arguments that more of the answer could have changed, and the end of an
	// object that the answer left open. An answer that was cut by its length limit is better passed on without them, so that no
	// client takes half a call for a whole one.
	Repaired bool
	// Begun marks text that has begun a call and ended before its arguments. It is markup where the answer was cut by its
	// length limit, and text where the model ended the answer there.
	Begun bool
}

// Family describes how one line of models marks tool calls and thoughts. A Family is immutable and safe for concurrent use.
type Family struct {
	Name string
	// Thinks says that the model's answers may hold thoughts.
	Thinks bool
	// Listed says that the template writes the tools of a request into the prompt. Where it does not, the caller adds
	// System's text to the system message.
	Listed bool
	// Replayed says that the template writes the tool calls of earlier answers. Where it does not, the caller replaces such
	// an answer's content by CallText.
	Replayed bool
	// TextArguments says that the template takes the arguments of earlier calls as JSON text, not as an object.
	TextArguments bool
	// NullContent says that the template writes the calls of an earlier answer without text where its content is none, and
	// drops them where it is empty.
	NullContent bool
	// ThoughtField is the field in which the template reads the thought of an earlier answer: reasoning_content, or another one of those
	// that templates know.
	ThoughtField string
	// ThoughtAlone says that the template refuses an earlier answer with calls that has both a text and a thought.
	ThoughtAlone bool

	calls   *markup
	layout  layout
	thought *thought
}

// Opening is what the end of a prompt has begun of the answer that follows.
type Opening struct {
	Thinking bool   // the answer begins inside a thought
	Thought  bool   // the prompt holds the answer's thought, closed: templates write an empty one where the model shall not think
	Markup   string // markup of the family that the prompt left open; the parser reads it before the answer
}

// Options are what a Parser needs besides the answer.
type Options struct {
	Tools   []Tool
	Choice  Choice
	Opening Opening
	// Bound says that a grammar of the family binds the answer: nothing of its calls is missing, and nothing is guessed.
	Bound bool
	// IDs gives n random letters and digits for the id of a call. Without it, ids count calls from 0, which is unique in
	// one answer only.
	IDs func(n int) string
}

// Opening reads the end of a rendered prompt: what the template wrote after the last text of the client, and, where a final
// message is continued, that message.
func (f *Family) Opening(prompt []tokenizer.Span) Opening {
	return f.openingOf(promptTail(prompt))
}

func (f *Family) openingOf(tail string) Opening {
	if f.calls.opening != nil {
		return f.calls.opening(tail)
	}
	if f.thought == nil {
		return Opening{}
	}
	return Opening{Thinking: f.thought.isOpen(tail), Thought: strings.HasSuffix(strings.TrimRight(tail, "\n "), f.thought.close)}
}

// Answering is what must follow a rendered prompt so that the text of the answer begins at once, without a thought: the header of such
// text, where answers are made of messages, or else the end of the thought that the prompt has begun. Where the prompt has none, it is an
// empty thought, unless switched says that the template has a switch for thoughts, which is off, or the model is not known to have thoughts.
func (f *Family) Answering(prompt []tokenizer.Span, switched bool) string {
	if m := f.calls.messages; m != nil {
		return m.final
	}
	if f.thought == nil {
		return ""
	}
	opening := f.Opening(prompt)
	open, end := strings.TrimSpace(f.thought.open), strings.TrimSpace(f.thought.close)
	switch {
	case opening.Thinking:
		return "\n" + end + "\n\n"
	case opening.Thought || switched || !f.Thinks:
		return ""
	}
	return open + "\n\n" + end + "\n\n"
}

// ThoughtMarkers gives the texts that open and close a thought, for budgets of tokens that force the closing one. Both are
// empty for a family without thoughts.
func (f *Family) ThoughtMarkers() (open, end string) {
	if m := f.calls.messages; m != nil {
		return m.thought, m.end
	}
	if f.thought == nil {
		return "", ""
	}
	return f.thought.open, f.thought.close
}

// AfterThought is what must follow the closing marker of a thought that was cut off, so that the answer goes on: nothing, but where
// thoughts are messages of their own the beginning of the next message. free says that no grammar leaves that message its choice between
// text and calls; it is text then, and no second thought.
func (f *Family) AfterThought(free bool) string {
	m := f.calls.messages
	switch {
	case m == nil:
		return ""
	case free:
		return m.next + m.final
	}
	return m.next
}

// RepeatsThoughts reports whether a thought may follow the end of another.
func (f *Family) RepeatsThoughts() bool { return f.calls.messages != nil }
